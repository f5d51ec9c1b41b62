"""Histories about owners whose names look alike: what an engine may take for one, a store keeps apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability
from memoranda_testing.model.steps import Call, Step

_LONG = "x" * 254
_NAMES = (
    *("ab", "AB", "aB", "ab ", " ab", "ab\t", "a", "b", "abc", "áb", "a\u0301b", "ａｂ", "a\u200bb"),
    *("ﬀ", "ff", "ß", "ss"),
    *("a*", "a?", "?b", "[a]b", "a%", "a_", "^a", "a.", ".*", "a\\b", "'ab'", '"ab"', "{ab}", "a:b", "a/b", "a b"),
    *("1", "01", "1.0", "+1", "true", "True", "null", "None", "-", "0"),
    *(_LONG, f"{_LONG}ab", f"{_LONG}ac", f"{_LONG * 2}xxxxa", f"{_LONG * 2}xxxxb"),
)
"""Names of equal case, trimmed, padded, composed, as a pattern, quoted, as a number, and equal in their beginnings."""

_SEPARATORS = (":", "/", "|", "-", "_", ".", ",", " ", "\x1f", "\t", "::", "%", "\\", "")
_DEEP = tuple("abcdefghijklmnop")
_PLACES = (
    *((f"a{each}b", "c") for each in _SEPARATORS[:-1]),
    *(("a", f"b{each}c") for each in _SEPARATORS[:-1]),
    *(("a", "b", "c"), ("a", "", "b"), ("a", "b"), ("a", "b", ""), ("", "a", "b"), ("a",), ("A",), ("a ",), ("a*",)),
    *(("é",), ("e\u0301",), ("ﬁ", "x"), ("fi", "x")),
    *((*_DEEP, "x"), (*_DEEP, "y"), (*_DEEP[:8], "z"), (_LONG, _LONG, _LONG, "a"), (_LONG, _LONG, _LONG, "b")),
)


def alike_names(mark: str, field: str, capabilities: frozenset[Capability]) -> Iterator[Step]:
    """Yield the calls of owners that differ in one field, by names that look alike."""
    there = MemoryMetadata(namespace=(mark,) if mark else ())
    owners = [there.model_copy(update={field: mark + name}) for name in _NAMES]
    yield from _apart(mark, field, owners, capabilities)


def alike_pairs(mark: str, capabilities: frozenset[Capability]) -> Iterator[Step]:
    """Yield the calls of owners whose names, put together, are the same text."""
    there = MemoryMetadata(namespace=(mark,) if mark else ())
    for first, second in (("user_id", "session_id"), ("session_id", "task_id"), ("task_id", "agent_id")):
        pairs = [pair for each in _SEPARATORS for pair in ((f"a{each}b", "c"), ("a", f"b{each}c"))]
        owners = [there.model_copy(update={first: mark + one, second: other}) for one, other in pairs]
        yield from _apart(mark, first, owners, capabilities)


def alike_places(mark: str, capabilities: frozenset[Capability]) -> Iterator[Step]:
    """Yield the calls of namespaces that are one text if they are joined, or that differ far below."""
    root = (mark,) if mark else ()
    owners = [MemoryMetadata(namespace=root + place) for place in dict.fromkeys(_PLACES)]
    yield from _apart(mark, "namespace", owners, capabilities)


def _apart(mark: str, field: str, owners: list[MemoryMetadata], capabilities: frozenset[Capability]) -> Iterator[Step]:
    """Yield reads and removals of each owner alone, as a filter and by a handle, with a look at all of them."""
    owners = list({str(owner): owner for owner in owners}.values())
    items = [
        MemoryItem(id=f"{mark}{number:03}", content=f"tea {number}", metadata=owner)
        for number, owner in enumerate(owners)
    ]
    everything: dict[str, Any] = {"metadata": MemoryMetadata(namespace=(mark,))} if mark else {}
    deleted = {"include_deleted": True} if Capability.DELETE in capabilities else {}
    look = Call("scan", {**everything, "order": "added", **deleted})
    yield Call("add_many", {"items": items})
    by = {"by": field, "within": everything.get("metadata")}
    yield Call("owners", by)
    for number, owner in enumerate(owners):
        arguments: dict[str, Any] = {"metadata": owner} if number % 2 else {}
        scope = None if number % 2 else owner
        yield Call("search", {**arguments, "limit": 100}, scope)
        yield Call("count", arguments, scope)
        yield (
            Call("get_many", {**arguments, "ids": [item.id for item in items]}, scope),
            Call("search_ranked", {**arguments, "query": "tea", "mode": "text", "limit": 100}, scope),
            Call("window", arguments, scope),
        )[number % 3]
    removals = ["clear"]
    removals += ["restore"] if Capability.DELETE in capabilities else []
    removals += ["purge"] if Capability.PURGE in capabilities else []
    for method in removals:
        for number, owner in enumerate(owners):
            yield Call(method, {}, owner) if number % 2 else Call(method, {"metadata": owner})
            if number % 3 == 0:
                yield look
        yield Call("owners", by)
