"""Stored text as a page may show it: every character seen as what it is, and none of them acting."""

from __future__ import annotations

import json
import re
from typing import Any

from memoranda.items import MemoryItem
from memoranda_commands.characters import sign_of, visible, visible_json

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


def count(number: int, what: str, several: str | None = None) -> str:
    """Return a number of things in words."""
    return f"{number:,} {what if number == 1 else several or what + 's'}"
