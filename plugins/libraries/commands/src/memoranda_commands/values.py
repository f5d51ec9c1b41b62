"""Values that people type on a command line: ``KEY=VALUE`` texts, lists of numbers, and text that is not UTF-8."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from memoranda.errors import InputError


def pairs(given: Sequence[str] | None, option: str) -> dict[str, Any]:
    """Return ``KEY=VALUE`` texts as a dict. A value that is JSON is parsed, any other is text."""
    found: dict[str, Any] = {}
    for text in given or ():
        check_decoded(text, option)
        key, equals, value = text.partition("=")
        if not equals or not key:
            # The message does not quote it: it may be a password.
            raise InputError(f"{option} takes KEY=VALUE, and one of them is not that.", field=option)
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


def whole_numbers(text: str, option: str) -> list[int]:
    """Return the numbers of ``N,N,…``. Raises InputError for any other text."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        sentence = f"{option} takes numbers with commas between them, not {text!r}."
        raise InputError(sentence, field=option.strip("-")) from None


def check_decoded(text: str, what: str) -> None:
    """Raise InputError for text with bytes that are not UTF-8: Python reads each of them as a surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{what} holds bytes that are not UTF-8 text.", field="encoding") from None
