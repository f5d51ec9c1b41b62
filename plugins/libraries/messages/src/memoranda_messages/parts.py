"""What a message holds beside text, calls and results, in a form that any format can read: images, files, reasoning.

The formats of this package are read from the payload itself. A framework's own message is stored in a frame: the
message, and a list of its parts, whose long texts point into the message, so that an image is stored once and can be
read without the framework. If a message consists of several items, the first one has the message; the others name it.
A frame also has a digest of the item's fields. If an item was changed since, its parts may repeat what was removed from
it, and they no longer count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from memoranda.errors import InputError
from memoranda.items import MemoryItem
from memoranda.shapes import json_text
from memoranda_messages.part_blocks import KINDS, PART_READERS, Part
from memoranda_messages.payload_json import decode_payload
from memoranda_messages.payloads import READERS, usable_payload

__all__ = ["Part", "frame", "framed", "parts_of"]

_URL_SAFE = str.maketrans("-_", "+/")
_LONG = 64
"""From how many characters on a text is stored as a pointer into the message."""

_COMPARED = ("memory_type", "content", "name", "tool_calls", "tool_call_id", "tool_name", "is_error")


def frame(item: MemoryItem, message: Any, parts: Sequence[Part], first: str | None = None) -> dict[str, Any]:
    """Return what is stored of a framework's message with an item: the message, and its parts with a digest.

    ``first`` is the id of the item that has the message, if it is another one.
    """
    held: dict[str, Any] = {"message": message} if first is None else {"of": first}
    if parts:
        held |= {"parts": [_stored(part, message) for part in parts], "fields": _digest(item)}
    return held


def framed(item: MemoryItem) -> dict[str, Any] | None:
    """Return the frame of an item that a framework wrote; None for any other payload."""
    if item.payload is None or item.payload_format is None or item.payload_format in READERS:
        return None
    try:
        held = decode_payload(item.payload)
    except InputError:
        return None
    return held if isinstance(held, dict) and ("message" in held or "of" in held) else None


def parts_of(item: MemoryItem, among: Mapping[str, MemoryItem] | None = None) -> list[Part]:
    """Return the parts of an item, in their order, whichever framework wrote it; none if the item was changed since.

    ``among`` are the items of the conversation by their id. They are needed if a message consists of several items.
    """
    if item.payload_format in READERS:
        payload = usable_payload(item, item.payload_format, READERS[item.payload_format])
        return list(PART_READERS[item.payload_format](payload.message)) if payload and payload.whole else []
    held = framed(item)
    if held is None or not isinstance(held.get("parts"), list) or held.get("fields") != _digest(item):
        return []
    message = held.get("message")
    first = (among or {}).get(str(held.get("of")))
    if "of" in held and first is not None and first.payload_format == item.payload_format:
        message = (framed(first) or {}).get("message")
    found = [_loaded(part, message) for part in held["parts"]]
    return [part for part in found if part is not None and _may_come(part, item)]


def _may_come(part: Part, item: MemoryItem) -> bool:
    """Return True unless a part is nothing but text: an item says all its texts itself, and only a model reasons."""
    return item.memory_type == "ai" if part.kind == "reasoning" else part.as_url is not None


def _digest(item: MemoryItem) -> str:
    """Return a short digest of the fields that say what an item says; a missing field counts as an empty one."""
    text = json_text([getattr(item, name, None) or None for name in _COMPARED])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _stored(part: Part, message: Any) -> dict[str, Any]:
    stored: dict[str, Any] = {name: value for name, value in asdict(part).items() if value}
    for name in ("data", "url", "text", "signature"):
        value = stored.get(name)
        if value is not None and len(value) >= _LONG and (found := _place_of(value, message)) is not None:
            stored[name] = found
    return stored


def _place_of(text: str, message: Any) -> dict[str, Any] | None:
    """Return where a message has a text, or has it at the end of another, as a ``data:`` URL has."""
    stack: list[tuple[str, Any]] = [("", message)]
    while stack:
        place, value = stack.pop()
        if isinstance(value, str):
            if value.endswith(text):
                start = len(value) - len(text)
                return {"at": place} | ({"from": start} if start else {})
        elif isinstance(value, dict):
            stack += [(f"{place}/{_escaped(key)}", inner) for key, inner in value.items()]
        elif isinstance(value, list):
            stack += [(f"{place}/{position}", inner) for position, inner in enumerate(value)]
    return None


def _escaped(key: Any) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")


def _loaded(stored: Any, message: Any) -> Part | None:
    if not isinstance(stored, dict) or stored.get("kind") not in KINDS:
        return None
    values: dict[str, Any] = {}
    for name in ("kind", "media_type", "data", "url", "name", "text", "signature", "provider"):
        value = stored.get(name)
        if isinstance(value, dict):
            value = _at(value, message)
        if isinstance(value, str):
            values[name] = value
    part = Part(**values)
    if part.kind != "reasoning" and part.data is part.url is part.text is None:
        return None
    if part.data is not None:
        part = replace(part, data=part.data.translate(_URL_SAFE))
    return part


def _at(pointer: Mapping[str, Any], message: Any) -> Any:
    """Return the text that a pointer leads to; None if it leads nowhere."""
    place, start = pointer.get("at"), pointer.get("from", 0)
    if not isinstance(place, str) or not isinstance(start, int):
        return None
    value = message
    for step in place.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value[start:] if isinstance(value, str) else None
