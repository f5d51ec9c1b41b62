"""Stored text as a page may show it: every character seen as what it is, and none of them acting."""

from __future__ import annotations

import json
import re
from typing import Any

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_INVISIBLE = re.compile("[\x80-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
"""What turns the direction of a line, ends one, takes no room, or is no character at all."""

SHOWN = 2_000
"""How much of an item is shown in a list; its own page shows more."""

SHOWN_ALONE = 100_000
"""How much of an item is shown on a page of its own; the whole is a download."""


def visible(text: str) -> str:
    """Return text with signs in the place of control characters and marks that nobody would see."""
    text = _CONTROL.sub(lambda found: chr(0x2400 + ord(found[0])) if found[0] != "\x7f" else "\u2421", text)
    return _INVISIBLE.sub(lambda found: f"\u27e8U+{ord(found[0]):04X}\u27e9", text)


def shortened(text: str, length: int = SHOWN) -> tuple[str, int]:
    """Return the beginning of a text, ready to be shown, and how many characters are not."""
    return visible(text[:length]), max(len(text) - length, 0)


def one_line(text: str, length: int = 120) -> str:
    """Return the beginning of a text as one line."""
    line = visible(" ".join(text[: 4 * length].split()))
    return line if len(line) <= length and len(text) <= 4 * length else line[: length - 1] + "…"


def json_text(value: Any) -> str:
    """Return a value as JSON to be read and copied: exact, with escapes for what could not be seen."""
    written = json.dumps(value, ensure_ascii=False, indent=2)
    # Outside of texts JSON holds none of these, so that an escape says the same.
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", written).replace("\x7f", "\\u007f")


def moment(text: str) -> str:
    """Return a time as people read it, in UTC."""
    return text[:19].replace("T", " ")


def count(number: int, what: str, several: str | None = None) -> str:
    """Return a number of things in words."""
    return f"{number:,} {what if number == 1 else several or what + 's'}"
