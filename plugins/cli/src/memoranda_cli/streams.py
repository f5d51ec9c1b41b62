"""Signs that a stream cannot show: each is written in ASCII, so that no encoding stops a command."""

from __future__ import annotations

import codecs
import io
import sys

_ERRORS = "memoranda_ascii"
_CONTROL_PICTURES = 0x2400

_WORDS = {
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
"""The signs of our own sentences and tables, as a typewriter has them."""


def tolerate_every_encoding() -> None:
    """Let standard output and error take every text: what their encoding lacks is written in ASCII."""
    codecs.register_error(_ERRORS, _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_written, error.object[error.start : error.end])), error.end


def _written(sign: str) -> str:
    if sign in _WORDS:
        return _WORDS[sign]
    code = ord(sign)
    if _CONTROL_PICTURES <= code < _CONTROL_PICTURES + 0x20:
        return "^" + chr(code - _CONTROL_PICTURES + 0x40)
    return sign.encode("ascii", "backslashreplace").decode()
