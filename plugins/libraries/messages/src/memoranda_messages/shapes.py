"""The parts of a provider's message, each checked: an error names the place, and no value is repeated in it.

A place is written as in code: ``messages[3].tool_calls[0].function.name``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memoranda.errors import InputError, quoted
from memoranda.items import MemoryItem
from memoranda.shapes import checked_json, json_text, json_value, wrong

JsonObject = dict[str, Any]


def json_object(value: Any, place: str) -> JsonObject:
    """Return a deep copy of a JSON object, all of it fit to be stored."""
    if not isinstance(value, Mapping):
        raise wrong(place, "an object", value)
    checked: JsonObject = checked_json(value, place)
    return checked


def objects(values: Any, place: str) -> list[JsonObject]:
    """Return the objects of a JSON list; None stands for no list."""
    if values is None:
        return []
    if not isinstance(values, list):
        raise wrong(place, "a list of objects", values)
    for position, value in enumerate(values):
        if not isinstance(value, dict):
            raise wrong(f"{place}[{position}]", "an object", value)
    return values


def text(holder: JsonObject, key: str, place: str) -> str:
    """Return the text under a key; none or null stands for an empty one."""
    value = holder.get(key)
    if value is not None and not isinstance(value, str):
        raise wrong(f"{place}.{key}", "text", value)
    return value or ""


def needed_text(holder: JsonObject, key: str, place: str) -> str:
    """Return the text under a key, which must be there and not empty."""
    value = text(holder, key, place)
    if not value:
        raise InputError(f"{place}.{key}: text that is not empty is needed here.", field=f"{place}.{key}")
    return value


def role_of(message: JsonObject, place: str, roles: Iterable[str]) -> str:
    """Return the role of a message, which must be one of the roles."""
    role, known = message.get("role"), list(roles)
    if role not in known:
        said = repr(role) if isinstance(role, str) and len(role) <= 20 else quoted(role)
        raise InputError(f"{place}.role: unknown role {said}. Use one of: {', '.join(known)}.", field=f"{place}.role")
    return str(role)


def blocks_of(content: Any, place: str) -> list[JsonObject]:
    """Return content as blocks: a text is one of them, and the text of a text block is text."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    blocks = objects(content, place)
    for position, block in enumerate(blocks):
        if text(block, "type", f"{place}[{position}]") == "text":
            text(block, "text", f"{place}[{position}]")
    return blocks


def is_foreign(call: Mapping[str, Any]) -> bool:
    """Return True for an OpenAI call of another kind than a function, one that names what it holds: ``custom``."""
    kind = call.get("type")
    return kind not in (None, "function") and isinstance(call.get(str(kind)), Mapping)


def calls_of(item: MemoryItem) -> Sequence[Mapping[str, Any]]:
    """Return the tool calls of an item that speaks for the model, as :func:`memoranda.integrity.call_ids` sees them."""
    calls: Sequence[Mapping[str, Any]] = getattr(item, "tool_calls", None) or () if item.memory_type == "ai" else ()
    return calls


def parsed(arguments: str) -> Any:
    """Return arguments as an object where writing that out again gives the same text, else the text itself."""
    try:
        value = json_value(arguments)
        return value if isinstance(value, dict) and json_text(value) == arguments else arguments
    except (ValueError, RecursionError):
        return arguments


def arguments_object(arguments: str) -> JsonObject:
    """Return arguments as an object, for a format that takes nothing else; any other value is wrapped in one."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        value = arguments
    return value if isinstance(value, dict) else {"arguments": value}


def joined_text(blocks: Iterable[Any]) -> str:
    """Return what the blocks say, a line for each; refusals are said too, other blocks without text say nothing."""
    texts = [block.get("text", block.get("refusal")) for block in blocks if isinstance(block, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))
