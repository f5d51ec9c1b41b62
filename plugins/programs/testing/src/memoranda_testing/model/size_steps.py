"""Histories about sizes: one call of each kind beyond the sizes at which engines split pages and batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memoranda.items import MemoryMetadata
from memoranda.store import Capability
from memoranda_testing.model.steps import Call, Many, ManyIds, Step, writing

EDGES = (100, 400, 500)
"""Sizes at which engines split; the sessions of a history have exactly as many items, so that a last page is full."""

QUICK, LARGE, HUGE = 1_025, 5_003, 10_003
"""One beyond 1,024 and its parts; beyond 5,000; beyond 10,000."""

_BATCH = 1_001
"""One beyond 1,000 and its parts."""

_IDS = 65_537
"""One beyond 65,536; most of the ids are absent."""

_ALL = 10**6


def size_steps(total: int, mark: str, capabilities: frozenset[Capability]) -> Iterator[Step]:
    """Yield calls of every kind on this many items: written together, read by pages and whole, changed, removed."""
    user, place = f"{mark}u", (mark or "all",)
    mine = MemoryMetadata(user_id=user, namespace=place)
    filters = {"metadata": MemoryMetadata(user_id=user)}
    sizes = [*EDGES, total - sum(EDGES)]
    for letter, size in zip("abcd", sizes, strict=True):
        session = mine.model_copy(update={"session_id": f"{mark}{letter}"})
        yield Call("add_many", {"items": Many(f"{mark}{letter}", size, session, content="tea {} of " + letter)})
    for letter, size in zip("abcd", sizes, strict=True):
        yield from _pages({"metadata": MemoryMetadata(session_id=f"{mark}{letter}")}, size)
    yield from _pages(filters, total)
    for query in ("TEA", "e", "1 "):
        yield Call("search", {**filters, "limit": _ALL, "query": query, "mode": "substring"})
    yield Call("scan", {**filters, "order": "updated"})
    yield Call("payloads", {**filters, "limit": _ALL})
    yield Call("search_ranked", {**filters, "limit": _ALL, "query": "tea", "mode": "text"})
    yield Call("window", filters)
    yield Call("window", {**filters, "limit": 600})
    yield from _long_texts(mark, mine)
    yield Call("apply", {"deletes": ManyIds(f"{mark}b", 9, start=7), "purge": Capability.PURGE in capabilities})
    yield from _owners(total, mark, mine)  # The first of them fill the places that have become free.
    yield from _changes(total, mark, mine, capabilities)


def large_steps(total: int, mark: str, capabilities: frozenset[Capability]) -> Iterator[Step]:
    """Yield the fewest calls that cross a large size: one batch, and what reads, changes and removes it as a whole."""
    metadata = MemoryMetadata(user_id=f"{mark}u", session_id=f"{mark}s", namespace=(mark,) if mark else ())
    filters = {"metadata": MemoryMetadata(session_id=f"{mark}s")}
    ids = ManyIds(f"{mark}x", total, start=7)
    rare = metadata.model_copy(update={"extra": {"rare": True}})
    yield Call("add_many", {"items": Many(f"{mark}r", 3, rare, "milk {}")})
    yield Call("add_many", {"items": Many(f"{mark}x", total, metadata, start=7)})
    for method in ("search", "count", "scan"):
        yield Call(method, {**filters, "where": {"extra.rare": True}})
    yield Call("search", {**filters, "query": "ilk 1", "mode": "substring"})
    yield Call("apply", {"deletes": ManyIds(f"{mark}r", 3)})
    yield Call("count", filters)
    yield Call("count", {**filters, "where": {"memory_type": "item"}})
    yield Call("get_many", {"ids": ids})
    yield Call("scan", filters)
    yield Call("search", {**filters, "limit": 4, "offset": total - 3})
    yield Call("apply", {"deletes": ids})
    yield Call("count", filters)
    if Capability.DELETE in capabilities:
        yield Call("restore", filters)
    yield Call("clear", filters)
    yield Call("count", filters)
    if Capability.PURGE in capabilities:
        yield Call("purge", filters)
        yield Call("count", {**filters, "include_deleted": Capability.DELETE in capabilities})


def _pages(filters: dict[str, Any], size: int) -> Iterator[Step]:
    yield Call("scan", filters)
    yield Call("count", filters)
    yield Call("search", {**filters, "limit": size - 1})
    yield Call("search", {**filters, "limit": _ALL, "order": "added"})
    for order in ("created", "added"):
        yield Call("search", {**filters, "limit": 4, "offset": size - 2, "order": order})


def _windows(filters: dict[str, Any]) -> Iterator[Step]:
    """Yield windows of a conversation that many items came to at once, not in the order of their times."""
    yield Call("window", {**filters, "limit": 20})
    yield Call("window", {**filters, "rounds": 2})
    yield Call("head", filters)


def _long_texts(mark: str, mine: MemoryMetadata) -> Iterator[Step]:
    """Yield every method that writes, with a text beyond what an engine holds in one page or one field."""
    session = mine.model_copy(update={"session_id": f"{mark}l"})
    for version, method in enumerate(("add", "add_many", "update", "update_many", "apply", "append")):
        text = f"{method} {{}} " + "tea and milk " * 6_000
        new = method == "append"
        items = Many(f"{mark}{'n' if new else 'l'}", 1, session, text, version=0 if new else version).items()
        yield writing(method, items, **({"after": f"{mark}l00000"} if new else {}))
        yield Call("get", {"item_id": items[0].id})
    yield Call("search", {"metadata": session})


def _owners(total: int, mark: str, mine: MemoryMetadata) -> Iterator[Step]:
    """Yield calls with many owners and many ids."""
    other = mine.model_copy(update={"user_id": f"{mark}o"})
    within, ids = MemoryMetadata(user_id=f"{mark}o"), ManyIds(f"{mark}o", total)
    yield Call("add_many", {"items": Many(f"{mark}o", total, other, own_session=True, varied=True)})
    yield Call("owners", {"by": "session_id", "within": within})
    yield Call("owners", {"by": "session_id", "within": within, "offset": total - 2})
    for some in (ids, ManyIds(f"{mark}o", _BATCH)):
        yield Call("get_many", {"ids": some})
        yield Call("search", {"metadata": within, "limit": _ALL, "where": {"id": {"$in": some}}})
    yield Call("get_many", {"ids": ManyIds(f"{mark}o", _IDS)})
    yield Call("apply", {"deletes": ManyIds(f"{mark}absent", _IDS)})
    yield Call("count", {"metadata": within, "where": {"extra.n": {"$in": [*range(5, _BATCH + 4), 3]}}})
    below = MemoryMetadata(user_id=f"{mark}p", namespace=(*mine.namespace, "places"))
    yield Call("add_many", {"items": Many(f"{mark}p", _BATCH, below, own_place=True)})
    for depth in (len(below.namespace) + 1, None):
        for counts in (True, False):
            yield Call("owners", {"by": "namespace", "within": below, "depth": depth, "counts": counts})


def _changes(total: int, mark: str, mine: MemoryMetadata, capabilities: frozenset[Capability]) -> Iterator[Step]:
    """Yield calls that change many items at once, each followed by a read of all of them."""
    other, session = mine.model_copy(update={"user_id": f"{mark}o"}), mine.model_copy(update={"session_id": f"{mark}e"})
    filters = {"metadata": MemoryMetadata(session_id=f"{mark}e")}
    theirs: dict[str, Any] = {"metadata": MemoryMetadata(user_id=f"{mark}o"), "order": "added"}
    look: dict[str, Any] = {**filters, "order": "added"}
    if Capability.DELETE in capabilities:
        look["include_deleted"] = True
    milk = Many(f"{mark}o", total, other, own_session=True, version=1, content="milk {}", varied=True)
    yield Call("update_many", {"items": milk})
    yield Call("scan", theirs)
    place = MemoryMetadata(namespace=mine.namespace)
    for method in ("search", "count", "scan"):  # Few of nearly everything.
        yield Call(method, {"metadata": place, "where": {"extra.n": 3}})
    yield from _windows({"metadata": theirs["metadata"]})
    yield Call("payloads", {"metadata": theirs["metadata"]})
    yield Call(
        "search_ranked", {"metadata": theirs["metadata"], "query": "milk 7", "mode": "text", "where": {"extra.n": 3}}
    )
    for archived in (True, False):
        yield Call(
            "search", {"metadata": theirs["metadata"], "memory_type": "note", "limit": _ALL, "archived": archived}
        )
    yield Call("apply", {"adds": Many(f"{mark}e", _BATCH, session, varied=True), "deletes": ManyIds(f"{mark}o", total)})
    yield Call("scan", theirs)
    yield Call("scan", look)
    yield from _windows(filters)
    yield Call("update_many", {"items": Many(f"{mark}e", _BATCH, session, "milk {}", version=1, varied=True)})
    yield Call("scan", look)
    if Capability.TTL in capabilities:
        yield Call("touch", {"ids": ManyIds(f"{mark}e", _BATCH), "ttl": 1e9})
        yield Call("scan", look)
    turn = mine.model_copy(update={"session_id": f"{mark}t"})
    yield Call("append", {"items": Many(f"{mark}t", _BATCH, turn), "after": None})
    yield Call("count", {"metadata": MemoryMetadata(session_id=f"{mark}t")})
    if Capability.ADD_DELETED in capabilities:
        yield Call("add_many", {"items": Many(f"{mark}f", _BATCH, session), "deleted": ManyIds(f"{mark}f", _BATCH)})
        yield Call("scan", look)
        some = 501  # Of the deleted items, some are replaced together, and others stay.
        yield Call("add_many", {"items": Many(f"{mark}f", some, session, content="milk {}", varied=True)})
        yield Call("scan", look)
        yield from _windows(filters)
    yield Call("clear", filters)
    yield Call("count", filters)
    if Capability.DELETE in capabilities:
        yield Call("restore", filters)
        yield Call("count", filters)
        yield from _windows(filters)
    if Capability.PURGE in capabilities:
        yield Call("purge", {"metadata": session})
        yield Call("scan", look)
    yield Call("pop", {"metadata": MemoryMetadata(user_id=f"{mark}u")})
