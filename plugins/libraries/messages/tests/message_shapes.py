"""What tests of message shapes share: how a shape comes back from a store, and which shapes an SDK documents."""

from __future__ import annotations

import json
from typing import Any, get_args, get_origin, get_type_hints

from memoranda import MemoryItem
from memoranda.store import dump_item, load_item

Messages = list[dict[str, Any]]


def stored(items: list[MemoryItem]) -> list[MemoryItem]:
    """Return items as a store gives them back."""
    return [load_item(json.loads(json.dumps(dump_item(item)))) for item in items]


def exactly(value: Any) -> str:
    """Return a value as text, so that 1 is neither 1.0 nor true."""
    return json.dumps(value, sort_keys=True)


def members(union: Any) -> list[Any]:
    """Return the types that a type of an SDK stands for."""
    if hasattr(union, "__metadata__"):
        return members(get_args(union)[0])
    return [each for inner in get_args(union) for each in members(inner)] if get_origin(union) is not None else [union]


def kinds(union: Any) -> set[str]:
    """Return what the ``type`` of each of those types may be."""
    found: set[str] = set()
    for each in members(union):
        fields = getattr(each, "model_fields", None)
        hint = fields["type"].annotation if fields else get_type_hints(each, include_extras=True).get("type")
        while hint is not None and get_args(hint) and not isinstance(get_args(hint)[0], str):
            hint = get_args(hint)[0]
        found.update(get_args(hint))
    return found


def shown_kinds(shapes: dict[str, Messages]) -> set[str]:
    return {kind for messages in shapes.values() for message in messages for kind in _types_in(message)}


def _types_in(value: Any) -> list[str]:
    if isinstance(value, list):
        return [kind for inner in value for kind in _types_in(inner)]
    if isinstance(value, dict):
        own = [value["type"]] if isinstance(value.get("type"), str) else []
        return own + [kind for inner in value.values() for kind in _types_in(inner)]
    return []
