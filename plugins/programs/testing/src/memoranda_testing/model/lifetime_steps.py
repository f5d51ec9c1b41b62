"""A history about lifetimes: every way to give one, and every way to change one, by a clock that comes to every end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability
from memoranda_testing.model.steps import Call, Moved, Step

_CHANGED, _SHORTER, _LIFE, _LONGER = 1_000.0, 500.5, 4_000.25, 9_000.0
"""When lifetimes are changed, and how long they are, in seconds; none ends by an engine's own clock."""

_AGES = 1e9
"""Far more milliseconds than 32 bits hold."""

_GIVEN = "2050-03-01T00:00:00.000000+00:00"
"""An end that an item comes with, without a lifetime."""

_CHANGES = ("nothing", "shorter", "longer", "forever", "touched", "read", "found", "replaced", "replaced again", "bin")


def lifetime_steps(mark: str, capabilities: frozenset[Capability]) -> Iterator[Step]:
    """Yield items that get a lifetime in each way and then another one, and looks around the end of each."""
    mine = MemoryMetadata(user_id=f"{mark}u", session_id=f"{mark}s", namespace=(mark,) if mark else ())
    for change in _CHANGES:
        items = [MemoryItem(id=f"{mark}{change}{number}", content="tea", metadata=mine) for number in range(7)]
        for item in items:
            item.__dict__.update({"created_at": "2024-03-01T00:00:00.000000+00:00", "updated_at": item.created_at})
        yield Call("add", {"item": items[0], "ttl": _LIFE})
        yield Call("add_many", {"items": items[1:2], "ttl": _LIFE})
        yield Call("apply", {"adds": items[2:3], "ttl": _LIFE})
        items[3].__dict__["ttl"] = _LIFE
        yield Call("add", {"item": items[3]})
        yield Call("add_many", {"items": items[4:5], "ttl": _AGES})
        items[6].__dict__["expires_at"] = _GIVEN
        yield Call("add_many", {"items": items[5:]})
    yield Moved(_CHANGED)
    yield from _looks(mine, capabilities)
    for change in _CHANGES:
        yield from _changed(change, [f"{mark}{change}{number}" for number in range(7)], mine, capabilities)
    ends = sorted({_CHANGED + _SHORTER, _LIFE, _CHANGED + _LIFE, _CHANGED + _LONGER, 2**31 / 1000, _AGES})
    yield from _looks(mine, capabilities)
    moments = [_CHANGED, *(moment for end in ends for moment in (end - 1, end - 0.001, end))]
    for before, after in pairwise(moments):
        yield Moved(after - before)
        yield from _looks(mine, capabilities)


def first_steps_after_an_end(mark: str, capabilities: frozenset[Capability]) -> Iterator[Step]:
    """Yield each method as the first one that is called once items are over, before anything has swept them.

    Behind them comes one that stays.
    """
    mine = MemoryMetadata(user_id=f"{mark}u", session_id=f"{mark}s", namespace=(mark,) if mark else ())
    everything = {"metadata": MemoryMetadata(session_id=mine.session_id)}
    needed = {"delete": Capability.DELETE, "restore": Capability.DELETE, "purge": Capability.PURGE}
    for method in (
        *("touch", "update", "update_many", "add", "append", "apply", "delete", "pop", "clear", "restore", "purge"),
        *("get", "get_many", "search", "search_ranked", "count", "scan", "payloads", "window", "head", "owners"),
    ):
        if needed.get(method) not in (None, *capabilities):
            continue
        items = [
            MemoryItem(id=f"{mark}{method}{number}", content="tea", metadata=mine, created_at="2024-03-01")
            for number in range(4)
        ]
        ids = [item.id for item in items]
        again = items[0].model_copy(update={"version": 1, "content": "milk"})
        arguments: dict[str, dict[str, Any]] = {
            "touch": {"ids": ids, "ttl": _LONGER},
            "update": {"item": again},
            "update_many": {"items": [again]},
            "add": {"item": again},
            "append": {"items": [again], "after": None},
            "apply": {"deletes": ids},
            "delete": {"item_id": ids[0]},
            "restore": {"item_id": ids[2]},
            "get": {"item_id": ids[0], "refresh": True},
            "get_many": {"ids": ids, "refresh": True},
            "search_ranked": {**everything, "query": "tea milk", "mode": "text"},
            "owners": {"by": "session_id", "within": everything["metadata"]},
        }
        yield Call("add_many", {"items": items[:3], "ttl": _LIFE})
        yield Call("add", {"item": items[3]})
        if Capability.DELETE in capabilities:
            yield Call("delete", {"item_id": ids[2]})
        yield Moved(_LIFE)
        yield Call(method, arguments.get(method, everything))
        yield from _looks(mine, capabilities)
        yield Call("clear", everything)


def lonely_ends(mark: str, capabilities: frozenset[Capability]) -> Iterator[Step]:
    """Yield the ends of single items of every kind, with nothing else that comes to an end."""
    kinds: dict[str, dict[str, Any]] = {
        "archived": {"archived_by": "s"},
        "draft": {"status": "draft"},
        "note": {"memory_type": "note"},
        "nobody's": {"metadata": MemoryMetadata(session_id=f"{mark}s", namespace=(mark,) if mark else ())},
        "deleted": {},
    }
    for kind, fields in kinds.items():
        mine = MemoryMetadata(user_id=f"{mark}u", session_id=f"{mark}s", namespace=(mark,) if mark else ())
        item = MemoryItem(**{"id": f"{mark}{kind}", "content": "tea", "metadata": mine, "ttl": _LIFE, **fields})
        yield Call("add", {"item": item})
        if kind == "deleted" and Capability.DELETE in capabilities:
            yield Call("delete", {"item_id": item.id})
        yield Moved(_LIFE - 1)
        yield from _looks(mine, capabilities)
        yield Moved(1)
        yield from _looks(mine, capabilities)
        yield Call("scan", {"metadata": MemoryMetadata(session_id=mine.session_id), "archived": True})
        yield Call("get", {"item_id": item.id})
        if Capability.DELETE in capabilities:
            yield Call("restore", {"item_id": item.id})
        theirs = mine.model_copy(update={"user_id": f"{mark}v"})
        yield Call("add", {"item": MemoryItem(id=item.id, content="milk", metadata=theirs)})
        yield Call("clear", {"metadata": theirs})


def _changed(change: str, ids: list[str], mine: MemoryMetadata, capabilities: frozenset[Capability]) -> Iterator[Step]:
    lives = {"shorter": _SHORTER, "longer": _LONGER, "forever": float("inf")}
    if change in lives:
        yield Call("touch", {"ids": ids, "ttl": lives[change]})
    elif change == "touched":
        yield Call("touch", {"ids": ids})
    elif change == "read":
        yield Call("get_many", {"ids": ids, "refresh": True})
    elif change == "found":
        yield Call("search", {"metadata": mine, "where": {"id": {"$in": ids}}, "refresh": True, "limit": 50})
    elif change.startswith("replaced"):
        items = [MemoryItem(id=item_id, content="milk", metadata=mine, created_at="2024-03-01") for item_id in ids]
        yield Call("add_many", {"items": items, **({"ttl": _LONGER} if change.endswith("again") else {})})
    elif change == "bin" and Capability.DELETE in capabilities:
        yield Call("clear", {"metadata": mine, "where": {"id": {"$in": ids}}})
        yield Call("restore", {"item_id": ids[0]})


def _looks(mine: MemoryMetadata, capabilities: frozenset[Capability]) -> Iterator[Step]:
    """Yield reads of all that is left."""
    everything: dict[str, Any] = {"metadata": MemoryMetadata(session_id=mine.session_id)}
    yield Call("search", {**everything, "limit": 100, "order": "added"})
    yield Call("count", everything)
    if Capability.DELETE in capabilities:
        yield Call("count", {**everything, "include_deleted": True})
        yield Call("scan", {**everything, "include_deleted": True})
    else:
        yield Call("scan", everything)
    yield Call("search_ranked", {**everything, "query": "tea milk", "mode": "text", "limit": 100})
    yield Call("payloads", everything)
    for counts in (True, False):
        yield Call("owners", {"by": "session_id", "within": everything["metadata"], "counts": counts})
