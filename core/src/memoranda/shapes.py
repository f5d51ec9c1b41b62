"""Checks of arguments: each returns a value of the expected shape, or raises an error that names the place.

A place is written as in code: ``messages[3].tool_calls[0].function.name``. No error repeats a text, which may be a part
of a conversation.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_core import from_json

from memoranda.errors import InputError, quoted
from memoranda.items import MemoryItem, MemoryMetadata


def wrong(place: str, wanted: str, value: Any) -> InputError:
    """Return the error for a value of another type than the place wants."""
    kind = "nothing" if value is None else f"a value of type {type(value).__name__}"
    return InputError(f"{place}: {wanted} is needed here, not {kind}.", field=place)


def whole_number(value: Any, place: str, of: str = "", *, least: int = 0) -> int:
    """Return a whole number of at least ``least``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(f"{place} must be a whole number{of} of at least {least}, not {quoted(value)}.", field=place)
    return value


def number(value: Any, place: str, of: str = "", *, zero: bool = True, most: float = sys.float_info.max) -> float:
    """Return a finite number of at least 0 (without ``zero``, above 0) and at most ``most``."""
    readable = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not readable or not 0 <= value <= most or (value == 0 and not zero):
        least = "of at least 0" if zero else "above 0"
        bound = f" and at most {most:,.0f}" if most < sys.float_info.max else ""
        raise InputError(f"{place} must be a number{of} {least}{bound}, not {quoted(value)}.", field=place)
    return float(value)


def seconds(value: Any, place: str, *, zero: bool = False, most: float = sys.float_info.max) -> float:
    """Return a finite number of seconds above 0; with ``zero``, 0 will do."""
    return number(value, place, " of seconds", zero=zero, most=most)


def truth(value: Any, place: str) -> bool:
    """Return True or False; no other value stands for one, since the text ``"no"`` would count as yes."""
    if not isinstance(value, bool):
        raise InputError(f"{place} must be True or False, not {quoted(value)}.", field=place)
    return value


def each(values: Any, place: str, of: str) -> list[Any]:
    """Return the values of any iterable that is not text or a mapping."""
    # An item is iterable too: pydantic yields its fields.
    if isinstance(values, (str, bytes, Mapping, MemoryItem)) or not isinstance(values, Iterable):
        raise wrong(place, f"a list of {of}", values)
    return list(values)


def items_of(values: Any, place: str = "items") -> list[MemoryItem]:
    """Return memory items as a list."""
    items = each(values, place, "memory items")
    for position, item in enumerate(items):
        if not isinstance(item, MemoryItem):
            raise wrong(f"{place}[{position}]", "a memory item", item)
        if not isinstance(item.content, str):
            raise wrong(f"{place}[{position}].content", "text", item.content)
    return items


def texts_of(values: Any, place: str) -> list[str]:
    """Return texts as a list, each as :func:`check_text` passes it."""
    return [check_text(text, place) for text in each(values, place, place)]


def owner_of(metadata: Any) -> MemoryMetadata:
    """Return metadata to stamp items with; None stands for none."""
    if metadata is not None and not isinstance(metadata, MemoryMetadata):
        raise wrong("metadata", "a MemoryMetadata", metadata)
    return metadata or MemoryMetadata()


_MAX_DEPTH = 200
_SLICE_CHARACTERS = 1 << 16
_MAX_INTEGER_BITS = 14_000  # Python refuses to read back integers of more than 4,300 digits.

json_text = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""Return a value as compact JSON; keys keep their order, text stays as it is."""


def check_text(text: str, field: str) -> str:
    """Return the text, or raise InputError if some engine could not hold it (NUL, lone surrogates)."""
    if not isinstance(text, str):
        raise InputError(f"{field} must be text, not {type(text).__name__}.", field=field)
    if "\0" in text:
        raise InputError(f"{field} contains a NUL character, which no store can hold.", field=field)
    if text.isascii():
        return text
    try:
        # All at once would copy a long text and keep other threads out.
        for start in range(0, len(text), _SLICE_CHARACTERS):
            text[start : start + _SLICE_CHARACTERS].encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{field} contains a lone surrogate, which is half a character and cannot be stored.", field=field
        ) from None
    return text


def checked_json(value: Any, field: str, depth: int = 0) -> Any:
    """Return a deep copy of a JSON value, or raise InputError with the path to what JSON cannot hold."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return _plain_text(check_text(value, field))
    if isinstance(value, int):
        if value.bit_length() > _MAX_INTEGER_BITS:
            raise InputError(
                f"{field} is an integer of more than 4,000 digits, which JSON readers refuse.", field=field
            )
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"{field} is {value}, which JSON cannot hold; use null or a text.", field=field)
        return float(value)
    if depth >= _MAX_DEPTH:
        raise InputError(f"{field} is nested more than {_MAX_DEPTH} levels deep.", field=field)
    if isinstance(value, Mapping):
        copied = {}
        for key, inner in value.items():
            if not isinstance(key, str):
                raise InputError(f"{field} has a key of type {type(key).__name__}; JSON keys are text.", field=field)
            copied[_plain_text(check_text(key, f"{field} key"))] = checked_json(inner, f"{field}.{key}", depth + 1)
        return copied
    if isinstance(value, (list, tuple)):
        return [checked_json(inner, f"{field}[{position}]", depth + 1) for position, inner in enumerate(value)]
    raise InputError(f"{field} is of type {type(value).__name__}, which JSON cannot hold.", field=field)


def json_value(text: str) -> Any:
    """Return the value of JSON text, in half the time of ``json.loads``, and raise the same errors."""
    try:
        return from_json(text, cache_strings="keys")
    except ValueError:
        return json.loads(text)  # Python also reads half a pair of surrogates, and deeper nesting.


def _plain_text(text: str) -> str:
    """Return a text of a subclass, such as a member of an enumeration, as the plain text that every engine returns."""
    return text if type(text) is str else str.__str__(text)
