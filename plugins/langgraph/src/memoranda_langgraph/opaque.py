"""What must come back to the byte although observers may change texts: packed, so that it looks like nothing else.

An observer that redacts takes digits for a phone number, and those of a random id now and then are enough for one. The
letters that are used here, and the sign before them, keep any such run from beginning.
"""

from __future__ import annotations

import base64
import json
from typing import Any

_SIGN = "_"
_FEW_DIGITS = 6


def is_plain(text: str) -> bool:
    """Whether no observer takes a text for an address or a number."""
    return text.isascii() and "@" not in text and "%" not in text and sum(map(str.isdigit, text)) < _FEW_DIGITS


def packed(data: bytes) -> str:
    """Return bytes as text."""
    return _SIGN + base64.urlsafe_b64encode(data).decode()


def unpacked(text: str) -> bytes:
    """Return the bytes of a text. Raises ValueError or TypeError for what is none of :func:`packed`."""
    if not text.startswith(_SIGN):
        raise ValueError("the text was not packed")
    return base64.b64decode(text[1:].encode(), b"-_", validate=True)


def packed_json(value: Any) -> str:
    """Return a JSON value as text."""
    return packed(json.dumps(value).encode())


def unpacked_json(text: str) -> Any:
    """Return the value of a text. Raises ValueError or TypeError for what is none of :func:`packed_json`."""
    return json.loads(unpacked(text))


def comparable(text: str) -> str:
    """Return a text, an id for one, in digits that equal ones have in common and that have the same order."""
    return _SIGN + text.encode().hex()
