"""Rendering pages from templates, and reading forms. What a form sends never appears in an address."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from memoranda.errors import InputError
from memoranda_commands.characters import visible
from memoranda_inspector import text

_LARGEST_FORM = 1_000_000


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
        "line": text.one_line,
        "name": text.shown_name,
        "json": text.json_text,
        "moment": text.moment,
    }
    made.globals |= {"count_of": text.count, "shortened": text.shortened, "speaker_of": text.speaker_of}
    return made


def prepare() -> None:
    """Read every template now, so that the first page comes as fast as the next."""
    for name in environment().list_templates():
        environment().get_template(name)


def rendered(template: str, values: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    """Return a page."""
    return HTMLResponse(environment().get_template(template).render(values), status_code=status)


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
