"""Characters that a reader cannot see or a stream cannot write: each is replaced by a sign that stands for it."""

from __future__ import annotations

import codecs
import io
import json
import re
import sys
import unicodedata
from collections.abc import Callable

_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc"
    "\U00013441\U00013442\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
"""Characters that Unicode counts as letters, marks or symbols but that show nothing: blanks, and those that it calls
ignorable by default (a joiner, fillers, inherent vowels, variation selectors)."""

_CONTROL_PICTURES = 0x2400

_ASCII = {
    "→": "->",
    "←": "<-",
    "…": "...",
    "–": "-",
    "—": "-",
    "“": '"',
    "”": '"',
    "‘": "'",
    "’": "'",
    "✔": "ok",
    "✘": "NO",
    "µ": "u",
    "°": "deg",
    "×": "x",
    "•": "*",
    "━": "=",
    "─": "-",
    "│": "|",
    "╸": "=",
    "╺": "=",
}
"""The non-ASCII characters of our own sentences and tables, and what an ASCII stream gets instead."""


class _Signs(dict[int, str]):
    """Maps each character to what is shown for it, for ``str.translate``; visible characters map to themselves.

    A character is invisible by its category, if it is a control, format, private or unassigned one, or by the list
    above.
    """

    def __init__(self, sign: Callable[[int], str]) -> None:
        super().__init__({ord(character): character for character in "\n\t"})
        self._sign = sign

    def __missing__(self, code: int) -> str:
        character = chr(code)
        seen = unicodedata.category(character) == "Zs" or (character.isprintable() and not _INVISIBLE.match(character))
        return self.setdefault(code, character if seen else self._sign(code))


def sign_of(code: int) -> str:
    """Return the sign for an invisible character: its control picture, or its code point in angle brackets."""
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    return "\u2421" if code == 0x7F else f"\u27e8U+{code:04X}\u27e9"


def _escape(code: int) -> str:
    return json.dumps(chr(code))[1:-1] if code != 0x7F else "\\u007f"


_SIGNS, _ESCAPES = _Signs(sign_of), _Signs(_escape)


def visible(text: str) -> str:
    """Return the text with a sign for each invisible character except line breaks and tabs.

    A terminal shows the result and obeys nothing in it.
    """
    return text.translate(_SIGNS)


def visible_json(text: str) -> str:
    """Return JSON text with each invisible character as an escape, which means the same."""
    return text.translate(_ESCAPES)  # JSON has none of them outside its strings.


def preview(text: str, width: int = 200) -> str:
    """Return the text as one short visible line."""
    line = " ".join(visible(text).split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


def accept_all_characters() -> None:
    """Let standard output and error take every text: what their encoding lacks is written in ASCII."""
    codecs.register_error("memoranda_ascii", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="memoranda_ascii")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_ascii_of, error.object[error.start : error.end])), error.end


def _ascii_of(character: str) -> str:
    if character in _ASCII:
        return _ASCII[character]
    code = ord(character)
    if _CONTROL_PICTURES <= code < _CONTROL_PICTURES + 0x20:
        return "^" + chr(code - _CONTROL_PICTURES + 0x40)
    return character.encode("ascii", "backslashreplace").decode()
