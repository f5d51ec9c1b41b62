"""Histories about names and texts that look alike: what an engine may take for one, a store keeps apart."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from memoranda.items import BUILTIN_TYPES, MemoryItem, MemoryMetadata, MemoryStatus
from memoranda.store import Capability
from memoranda_testing.case import made, moment
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
    *(("é",), ("e\u0301",), ("ﬁ", "x"), ("fi", "x"), ("ab",), ("a%",), ("a_",), ("a?",), ("[a]",), ("a[!x]", "b")),
    *(
        ("*", "b"),
        ("a~1b",),
        ("a\\",),
        ("a", "\uffff"),
        ("a", "\U0001f989"),
        ("a", "\U0010ffff", "x"),
        ("a\U0010ffff",),
    ),
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


LETTERS = "aAbB ßẞsSİiıIςσΣжЖéE\u0301ﬁ🦉%_\\'\"*\n0"
"""Characters that LIKE, full-text engines, shells and ASCII-only case folding get wrong."""

_TYPES = ("human", "note", "")
_VALUES = (True, False, 1, 1.0, 0, "1", "", None, [1], [True], {"x": 1}, {"x": 1.0, "y": None})
_CHANGES = (
    str,
    str.upper,
    str.lower,
    str.swapcase,
    lambda text: f"{text[:1]}%{text[2:]}",
    lambda text: f"{text[:1]}_{text[2:]}",
    lambda text: f"{text[:1]}\\{text[2:]}",
)


def random_searches(random: Random, mark: str = "") -> Iterator[Call]:
    """Yield a batch of items, and searches for them; a query is mostly a part of a content with something changed."""
    user, root = f"{mark}u", (mark,) if mark else ()
    items = []
    for number in range(random.randint(1, 8)):
        kind = random.choice(_TYPES)
        values = {
            "id": f"{mark}{number}",
            "content": "".join(random.choices(LETTERS, k=random.randint(0, 6))),
            "memory_type": kind,
            "status": random.choice(list(MemoryStatus)),
            "metadata": MemoryMetadata(user_id=user, namespace=root, **_scope(random)),
            "created_at": moment(random.randint(0, 2)),
        }
        items.append(made(BUILTIN_TYPES.get(kind, MemoryItem), **values))
    yield Call("add_many", {"items": items})
    for _ in range(random.randint(1, 6)):
        content, start = random.choice(items).content, random.randint(0, 3)
        arguments: dict[str, Any] = {
            "query": random.choice(_CHANGES)(content[start : start + random.randint(0, 3)]),
            "mode": "substring",
            "metadata": MemoryMetadata(user_id=user, **(_scope(random) if random.random() < 0.33 else {})),
            "limit": random.randint(0, 9),
        }
        if random.random() < 0.5:
            arguments["memory_type"] = random.choice(_TYPES)
        if random.random() < 0.5:
            arguments["status"] = random.choice(list(MemoryStatus))
        yield Call("search", arguments)


def _scope(random: Random) -> dict[str, Any]:
    """Return some of the fields that narrow a user's memories."""
    fields: dict[str, Any] = {}
    if random.random() < 0.5:
        fields["session_id"] = random.choice(("", "s", "S", "%"))
    if random.random() < 0.5:
        fields["task_id"] = random.choice(("", "t"))
    if random.random() < 0.5:
        keys = random.sample(("k", "a.b", ""), random.randint(0, 2))
        fields["extra"] = {key: random.choice(_VALUES) for key in keys}
    return fields
