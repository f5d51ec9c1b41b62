"""Rendering pages from templates, and reading forms.

Stored text is shown with every character seen as what it is, and none of them acting. What a form sends never appears
in an address.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from memoranda.errors import InputError
from memoranda.items import MemoryItem
from memoranda.store import Store
from memoranda_commands.terminal import counted, sign_of, visible, visible_json
from memoranda_inspector.scopes import Owner, Owners

_LARGEST_FORM = 1_000_000


_BLANKS = re.compile(r"^\s|\s\Z|(?<=\s)\s|[^\S ]")


_ROLES = {"human": "user", "ai": "assistant"}

SHOWN = 2_000
"""How much of an item is shown in a list; its own page shows more."""

SHOWN_ALONE = 100_000
"""How much of an item is shown on a page of its own; the whole is a download."""


def shown_name(text: str, length: int = 120) -> str:
    """Return the beginning of a name or an id as one line that also shows every blank but single spaces in it."""
    line = visible(_BLANKS.sub(lambda found: sign_of(ord(found[0])), text[: length + 1]))
    return (line if len(line) <= length else line[: length - 1] + "…") or "\u27e8empty\u27e9"


def speaker_of(item: MemoryItem) -> tuple[str, str]:
    """Return the name of the speaker, empty without one, and the role. Show both: a name may be that of a role."""
    name = str(getattr(item, "tool_name", "") or item.name or "")
    return shown_name(name) if name else "", shown_name(_ROLES.get(item.memory_type, item.memory_type))


def shortened(text: str, length: int = SHOWN) -> tuple[str, int]:
    """Return the beginning of a text, ready to be shown, and how many characters are not."""
    return visible(text[:length]), max(len(text) - length, 0)


def one_line(text: str, length: int = 120) -> str:
    """Return the beginning of a text as one line."""
    line = " ".join(visible(text[: 4 * length]).split())
    return line if len(line) <= length and len(text) <= 4 * length else line[: length - 1] + "…"


def json_text(value: Any) -> str:
    """Return a value as JSON to be read and copied: exact, with escapes for what could not be seen."""
    return visible_json(json.dumps(value, ensure_ascii=False, indent=2))


def moment(text: str) -> str:
    """Return a time as people read it, in UTC."""
    return text[:19].replace("T", " ")


@functools.cache
def environment() -> Environment:
    """Return the templates. Everything that is put into one is escaped."""
    made = Environment(
        loader=PackageLoader("memoranda_inspector"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "visible": visible,
        "line": one_line,
        "name": shown_name,
        "json": json_text,
        "moment": moment,
    }
    made.globals |= {"count_of": counted, "shortened": shortened, "speaker_of": speaker_of}
    return made


def prepare() -> None:
    """Read every template now, so that the first page comes as fast as the next."""
    for name in environment().list_templates():
        environment().get_template(name)


def rendered(template: str, values: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    """Return a page."""
    return HTMLResponse(environment().get_template(template).render(values), status_code=status)


class Pages:
    """Pages about one store. ``shared`` are the values that every page has."""

    def __init__(self, store: Store, owners: Owners, shared: Mapping[str, Any]) -> None:
        self._store = store
        self._owners = owners
        self._shared = shared

    def _page(self, template: str, owner: Owner | None = None, **values: Any) -> HTMLResponse:
        """Return a page about an owner, or about the whole store."""
        return rendered(template, {**self._shared, "owner": owner, **values})


def in_page(request: Request) -> bool:
    """Return True if a page asks for a part of itself."""
    return request.headers.get("hx-request") == "true"


async def form_of(request: Request) -> dict[str, str]:
    """Return what a form sent. Raises InputError for one that is too large, or not a form."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST_FORM:
            raise InputError("A form of more than a million bytes is not a form of this page.", field="form")
    try:
        return dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=100))
    except ValueError as error:
        raise InputError("The form cannot be read.", field="form") from error


def number_of(form: Mapping[str, str], name: str, default: int, most: int) -> int:
    """Return a whole number of a form, within its bounds. Raises InputError for anything else."""
    given = form.get(name, "").strip()
    try:
        return min(max(int(given), 0), most) if given else default
    except ValueError:
        raise InputError(f"{name} is a whole number.", field=name) from None


def decimal_of(form: Mapping[str, str], name: str, default: float, most: float) -> float:
    """Return a number of a form, within its bounds. Raises InputError for anything else."""
    given = form.get(name, "").strip()
    try:
        found = float(given) if given else default
    except ValueError:
        raise InputError(f"{name} is a number.", field=name) from None
    return min(max(found, 0.0), most) if found == found else default
