"""Stored text as a page may show it: every character seen as what it is, and none of them acting."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from typing import Any

_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc"
    "\U00013441\U00013442\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
"""Letters, marks and symbols by their category, of which nothing is seen: what Unicode calls ignorable by default (a
joiner, fillers, inherent vowels, variation selectors), and blanks."""

_BLANKS = re.compile(r"^\s|\s\Z|(?<=\s)\s|[^\S ]")


class _Signs(dict[int, str]):
    """What is shown in the place of each character, for ``str.translate``: of most the character itself.

    The category of the others says that nothing of them is seen: they control or format, are private or unassigned.
    """

    def __init__(self, sign: Callable[[int], str]) -> None:
        super().__init__({ord(character): character for character in "\n\t"})
        self._sign = sign

    def __missing__(self, code: int) -> str:
        character = chr(code)
        seen = unicodedata.category(character) == "Zs" or (character.isprintable() and not _UNSEEN.match(character))
        return self.setdefault(code, character if seen else self._sign(code))


def _marked(code: int) -> str:
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\u27e8U+{code:04X}\u27e9"


def _escaped(code: int) -> str:
    return json.dumps(chr(code))[1:-1] if code != 0x7F else "\\u007f"


_MARKS, _ESCAPES = _Signs(_marked), _Signs(_escaped)

SHOWN = 2_000
"""How much of an item is shown in a list; its own page shows more."""

SHOWN_ALONE = 100_000
"""How much of an item is shown on a page of its own; the whole is a download."""


def visible(text: str) -> str:
    """Return text with a sign in the place of every character but line breaks and tabs that nobody would see."""
    return text.translate(_MARKS)


def shown_name(text: str, length: int = 120) -> str:
    """Return the beginning of a name or an id as one line that also shows every blank but single spaces in it."""
    line = _BLANKS.sub(lambda found: _marked(ord(found[0])), text[: length + 1]).translate(_MARKS)
    return (line if len(line) <= length else line[: length - 1] + "…") or "\u27e8empty\u27e9"


def shortened(text: str, length: int = SHOWN) -> tuple[str, int]:
    """Return the beginning of a text, ready to be shown, and how many characters are not."""
    return visible(text[:length]), max(len(text) - length, 0)


def one_line(text: str, length: int = 120) -> str:
    """Return the beginning of a text as one line."""
    line = " ".join(visible(text[: 4 * length]).split())
    return line if len(line) <= length and len(text) <= 4 * length else line[: length - 1] + "…"


def json_text(value: Any) -> str:
    """Return a value as JSON to be read and copied: exact, with escapes for what could not be seen."""
    # Outside of texts JSON holds none of what is escaped, so that an escape says the same.
    return json.dumps(value, ensure_ascii=False, indent=2).translate(_ESCAPES)


def moment(text: str) -> str:
    """Return a time as people read it, in UTC."""
    return text[:19].replace("T", " ")


def count(number: int, what: str, several: str | None = None) -> str:
    """Return a number of things in words."""
    return f"{number:,} {what if number == 1 else several or what + 's'}"
