"""A history about lifetimes: every way to give one, and every way to change one, by a clock that comes to every end."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda_testing.model.steps import Calls, Moved, Program, item, mine, theirs

_CHANGED, _SHORTER, _LIFE, _LONGER = 1_000.0, 500.5, 4_000.25, 9_000.0
"""When lifetimes are changed, and how long they are, in seconds; none ends by an engine's own clock."""

_AGES = 1e9
"""Far more milliseconds than 32 bits hold."""

_GIVEN = "2050-03-01T00:00:00.000000+00:00"
"""An end that an item comes with, without a lifetime."""

_CHANGES = ("nothing", "shorter", "longer", "forever", "touched", "read", "found", "replaced", "replaced again", "bin")
_HERE, _SESSION = mine(session_id="s"), MemoryMetadata(session_id="s")


def lifetime_steps(store: Calls) -> Program:
    """Yield items that get a lifetime in each way and then another one, and looks around the end of each."""
    for change in _CHANGES:
        new = _tea(f"{change}{number}" for number in range(7))
        given = new[6].model_copy(update={"expires_at": _GIVEN})
        yield from (store.add(new[0], ttl=_LIFE), store.add_many(new[1:2], ttl=_LIFE))
        yield from (store.apply(adds=new[2:3], ttl=_LIFE), store.add(new[3].model_copy(update={"ttl": _LIFE})))
        yield from (store.add_many(new[4:5], ttl=_AGES), store.add_many([new[5], given]))
    yield from (Moved(_CHANGED), *_looks(store))
    for change in _CHANGES:
        yield from _changed(store, change, [f"{change}{number}" for number in range(7)])
    yield from _looks(store)
    ends = sorted({_CHANGED + _SHORTER, _LIFE, _CHANGED + _LIFE, _CHANGED + _LONGER, 2**31 / 1000, _AGES})
    moments = [_CHANGED, *(moment for end in ends for moment in (end - 1, end - 0.001, end))]
    for before, after in pairwise(moments):
        yield from (Moved(after - before), *_looks(store))


def _tea(ids: Iterable[str]) -> list[MemoryItem]:
    return [item("tea", metadata=_HERE, id=item_id) for item_id in ids]


def _changed(store: Calls, change: str, ids: list[str]) -> Program:
    lives = {"shorter": _SHORTER, "longer": _LONGER, "forever": float("inf"), "touched": None}
    if change in lives:
        yield store.touch(ids, ttl=lives[change])
    elif change == "read":
        yield store.get_many(ids, refresh=True)
    elif change == "found":
        yield store.search(metadata=_HERE, where={"id": {"$in": ids}}, refresh=True, limit=50)
    elif change.startswith("replaced"):
        again = [item("milk", metadata=_HERE, id=item_id) for item_id in ids]
        yield store.add_many(again, **({"ttl": _LONGER} if change.endswith("again") else {}))
    elif change == "bin":
        yield from (store.clear(metadata=_HERE, where={"id": {"$in": ids}}), store.restore(ids[0]))


def first_steps_after_an_end(store: Calls) -> Program:
    """Yield each method as the first one that is called once items are over, before anything has swept them.

    Behind them comes one that stays.
    """
    everything = {"metadata": _SESSION}
    for method in (
        *("touch", "update", "update_many", "add", "append", "apply", "delete", "pop", "clear", "restore", "purge"),
        *("get", "get_many", "search", "search_ranked", "count", "scan", "payloads", "window", "head", "owners"),
    ):
        new = _tea(f"{method}{number}" for number in range(4))
        ids = [each.id for each in new]
        again = new[0].model_copy(update={"version": 1, "content": "milk"})
        arguments: dict[str, dict[str, Any]] = {
            "touch": {"ids": ids, "ttl": _LONGER},
            "update": {"item": again},
            "add": {"item": again},
            "update_many": {"items": [again]},
            "append": {"items": [again], "after": None},
            "apply": {"deletes": ids},
            "delete": {"item_id": ids[0]},
            "restore": {"item_id": ids[2]},
            "get": {"item_id": ids[0], "refresh": True},
            "get_many": {"ids": ids, "refresh": True},
            "search_ranked": {**everything, "query": "tea milk", "mode": "text"},
            "owners": {"by": "session_id", "within": _SESSION},
        }
        yield from (store.add_many(new[:3], ttl=_LIFE), store.add(new[3]), store.delete(ids[2]))
        yield from (Moved(_LIFE), getattr(store, method)(**arguments.get(method, everything)), *_looks(store))
        yield store.clear(metadata=_SESSION)


def lonely_ends(store: Calls) -> Program:
    """Yield items of different kinds, each the only one that ends, and a look at each end; its id is free then."""
    kinds: dict[str, dict[str, Any]] = {
        "archived": {"archived_by": "summary"},
        "draft": {"status": "draft"},
        "note": {"memory_type": "note"},
        "nobody's": {"metadata": _SESSION},
        "deleted": {},
    }
    for kind, fields in kinds.items():
        yield store.add(MemoryItem(**{"id": kind, "content": "tea", "metadata": _HERE, "ttl": _LIFE, **fields}))
        if kind == "deleted":
            yield store.delete(kind)
        yield from (Moved(_LIFE - 1), *_looks(store), Moved(1), *_looks(store))
        yield from (store.scan(metadata=_SESSION, archived=True), store.get(kind), store.restore(kind))
        yield store.add(item("milk", metadata=theirs(session_id="s"), id=kind))
        yield store.clear(metadata=theirs())


def _looks(store: Calls) -> Program:
    """Yield reads of all that is left."""
    yield from (store.search(metadata=_SESSION, limit=100, order="added"), store.count(metadata=_SESSION))
    yield from (store.everything(metadata=_SESSION), store.payloads(metadata=_SESSION))
    yield store.search_ranked(metadata=_SESSION, query="tea milk", mode="text", limit=100)
    yield from (store.owners("session_id", within=_SESSION, counts=counts) for counts in (True, False))
