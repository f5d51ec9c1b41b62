"""Histories about values that look alike, a match behind many others, and a lifetime that is given anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability
from memoranda_testing.model.steps import Call, Many, Moved, Step

_EXTRAS: tuple[dict[str, Any], ...] = (
    {"k": [1, 2]},
    {"k": [2, 1]},
    {"k": [1, 2, 2]},
    {"K": [1, 2]},
    {"k": {"a": [1, 2]}},
    {"k": {"A": [1, 2]}},
    {"k": {"a": [2, 1]}},
    {"k": "a"},
    {"K": "a"},
)
"""Values that differ only in the order or the number of a list's elements, or in the case of a key."""

_BEHIND = 220
"""How many items are newer than the one that is looked for."""


def alike_values(mark: str) -> Iterator[Step]:
    """Yield every filter that matches one of several items whose ``extra`` looks alike, in every method that reads."""
    place = (mark or "alike",)
    for number, extra in enumerate(_EXTRAS):
        owner = MemoryMetadata(user_id=f"{mark}u", session_id=f"{mark}s", namespace=place, extra=extra)
        yield Call("add", {"item": _item(f"{mark}v{number}", "tea", owner)})
    for number, extra in enumerate(_EXTRAS):
        wanted = {"metadata": MemoryMetadata(namespace=place, extra=extra)}
        for method in ("search", "scan", "count", "payloads", "window", "head"):
            yield Call(method, wanted)
        yield Call("search_ranked", {**wanted, "query": "tea", "mode": "text"})
        yield Call("get", {"item_id": f"{mark}v{(number + 1) % len(_EXTRAS)}", **wanted})
        (key, value), by_place = next(iter(extra.items())), {"metadata": MemoryMetadata(namespace=place)}
        yield Call("search", {**by_place, "where": {f"extra.{key}": value}})
    for extra in _EXTRAS[::4]:
        yield Call("clear", {"metadata": MemoryMetadata(namespace=place, extra=extra)})
        yield Call("scan", {"metadata": MemoryMetadata(namespace=place), "order": "added"})


def match_behind_many(mark: str) -> Iterator[Step]:
    """Yield searches with small limits for the oldest of many items."""
    owner = MemoryMetadata(user_id=f"{mark}u", session_id=f"{mark}s", namespace=(mark or "behind",))
    oldest = _item(f"{mark}oldest", "saffron", owner)
    oldest.__dict__["created_at"] = "2024-01-01T00:00:00.000000+00:00"
    yield Call("add", {"item": oldest})
    yield Call("add_many", {"items": Many(f"{mark}n", _BEHIND, owner)})
    for limit in (1, 2, 5, 20):
        asked = {"metadata": owner, "query": "saffron", "limit": limit}
        yield Call("search", {**asked, "mode": "substring"})
        yield Call("search", {**asked, "mode": "substring", "order": "added"})
        yield Call("search_ranked", {**asked, "mode": "text"})


def second_lifetimes(mark: str, capabilities: frozenset[Capability]) -> Iterator[Step]:
    """Yield items that are given a lifetime twice, a longer or a shorter one, and looks before and after each end."""
    place = MemoryMetadata(namespace=(mark or "lives",))
    again: dict[str, Callable[[MemoryItem, float], Call]] = {
        "add": lambda item, ttl: Call("add", {"item": item, "ttl": ttl}),
        "add_many": lambda item, ttl: Call("add_many", {"items": [item], "ttl": ttl}),
        "touch": lambda item, ttl: Call("touch", {"ids": [item.id], "ttl": ttl}),
    }
    ttls = ((100.0, 1_000.0), (1_000.0, 100.0))
    for name, call in again.items():
        for first, second in ttls:
            owner = place.model_copy(update={"user_id": f"{mark}u"})
            item = _item(f"{mark}{name}{first:g}", "tea", owner)
            yield Call("add", {"item": item, "ttl": first})
            yield call(item, second)
    deleted = {"include_deleted": True} if Capability.DELETE in capabilities else {}
    for seconds in (99.0, 2.0, 898.0, 2.0):
        yield Moved(seconds)
        yield Call("scan", {"metadata": place, "order": "added", **deleted})
        yield Call("count", {"metadata": place})


def _item(item_id: str, content: str, metadata: MemoryMetadata) -> MemoryItem:
    return MemoryItem(
        id=item_id,
        content=content,
        metadata=metadata,
        memory_type="note",
        created_at="2024-03-01T00:00:00.000000+00:00",
        updated_at="2024-03-01T00:00:00.000000+00:00",
    )
