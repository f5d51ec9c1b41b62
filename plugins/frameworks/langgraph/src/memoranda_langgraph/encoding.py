"""Encodings of what must come back unchanged although observers may edit texts.

A redacting observer may take the digits of a random id for a phone number. The alphabet used here, and the sign before
it, rule that out.
"""

from __future__ import annotations

import base64
import json
from typing import Any

_SIGN = "_"
_FEW_DIGITS = 6


def is_safe(text: str) -> bool:
    """Return True if no observer takes a text for an address or a number."""
    return text.isascii() and "@" not in text and "%" not in text and sum(map(str.isdigit, text)) < _FEW_DIGITS


def packed(data: bytes) -> str:
    """Return bytes as text."""
    return _SIGN + base64.urlsafe_b64encode(data).decode()


def unpacked(text: str) -> bytes:
    """Return the bytes of a text. Raises ValueError or TypeError if :func:`packed` did not make it."""
    if not text.startswith(_SIGN):
        raise ValueError("the text was not packed")
    return base64.b64decode(text[1:].encode(), b"-_", validate=True)


def packed_json(value: Any) -> str:
    """Return a JSON value as text."""
    return packed(json.dumps(value).encode())


def unpacked_json(text: str) -> Any:
    """Return the value of a text. Raises ValueError or TypeError if :func:`packed_json` did not make it."""
    return json.loads(unpacked(text))


def comparable(text: str) -> str:
    """Return a text, such as an id, as hexadecimal digits with the same order."""
    return _SIGN + text.encode().hex()
