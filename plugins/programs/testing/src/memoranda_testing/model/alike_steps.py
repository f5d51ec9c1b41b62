"""Histories about names and texts that look alike: what an engine may take for one, a store keeps apart."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

from memoranda.items import BUILTIN_TYPES, SCOPE_FIELDS, MemoryItem, MemoryMetadata, MemoryStatus
from memoranda_testing.case import made, moment
from memoranda_testing.model.steps import Calls, Program, item, mine

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
_PLACES: tuple[tuple[str, ...], ...] = (
    *((f"a{each}b", "c") for each in _SEPARATORS[:-1]),
    *(("a", f"b{each}c") for each in _SEPARATORS[:-1]),
    *(("a", "b", "c"), ("a", "", "b"), ("a", "b"), ("a", "b", ""), ("", "a", "b"), ("a",), ("A",), ("a ",), ("a*",)),
    *(("é",), ("e\u0301",), ("ﬁ", "x"), ("fi", "x"), ("ab",), ("a%",), ("a_",), ("a?",), ("[a]",), ("a[!x]", "b")),
    *(("*", "b"), ("a~1b",), ("a\\",), ("a", "\uffff"), ("a", "\U0001f989"), ("a", "\U0010ffff", "x")),
    *(("a\U0010ffff",), (*_DEEP, "x"), (*_DEEP, "y"), (*_DEEP[:8], "z")),
    *((_LONG, _LONG, _LONG, "a"), (_LONG, _LONG, _LONG, "b")),
)


def _owner(fields: dict[str, Any]) -> MemoryMetadata:
    return MemoryMetadata(**fields)


def alike_owners() -> list[tuple[str, list[MemoryMetadata]]]:
    """Return owners that look alike: in one field, in two whose names are the same text put together, in places."""
    found = [(field, [_owner({field: name}) for name in _NAMES]) for field in SCOPE_FIELDS]
    split = [pair for each in _SEPARATORS for pair in ((f"a{each}b", "c"), ("a", f"b{each}c"))]
    for fields in pairwise(SCOPE_FIELDS):
        found += [(fields[0], [_owner(dict(zip(fields, pair, strict=True))) for pair in split])]
    return [*found, ("namespace", [MemoryMetadata(namespace=place) for place in dict.fromkeys(_PLACES)])]


def apart(store: Calls, field: str, owners: list[MemoryMetadata]) -> Program:
    """Yield reads and removals of each owner alone, as a filter and by a handle, with a look at all of them."""
    owners = list({str(owner): owner for owner in owners}.values())
    items = [item(f"tea {number}", metadata=owner, id=f"{number:03}") for number, owner in enumerate(owners)]
    ids = [each.id for each in items]
    yield from (store.add_many(items), store.owners(field))
    for number, owner in enumerate(owners):
        handle, asked = _by_turns(store, number, owner)
        yield handle.search(limit=100, **asked)
        yield (
            handle.get_many(ids, **asked),
            handle.count(**asked),
            handle.search_ranked(query="tea", mode="text", limit=100, **asked),
            handle.count(**asked),
            handle.window(**asked),
        )[number % 5]
    for method in ("clear", "restore", "purge"):
        for number, owner in enumerate(owners):
            if method == "restore" and number % 2:
                continue  # What stays deleted is purged as well as what is there.
            handle, asked = _by_turns(store, number // 2, owner)
            yield getattr(handle, method)(**asked)
            if number % 6 == 0:
                yield store.everything()
        yield from (store.everything(), store.owners(field))


def _by_turns(store: Calls, number: int, owner: MemoryMetadata) -> tuple[Calls, dict[str, Any]]:
    """Return what asks for an owner: the store with a filter, or a handle with none."""
    return (store, {"metadata": owner}) if number % 2 else (store.of(owner), {})


LETTERS = "aAbB ßẞsSİiıIςσΣжЖéE\u0301ﬁ🦉%_\\'\"*\n0"
"""Characters that LIKE, full-text engines, shells and ASCII-only case folding get wrong."""

_TYPES = ("human", "note", "")
_VALUES = (True, False, 1, 1.0, 0, "1", "", None, [1], [True], {"x": 1}, {"x": 1.0, "y": None})
_CHANGES: tuple[Callable[[str], str], ...] = (
    *(str, str.upper, str.lower, str.swapcase),
    *(lambda text, put=each: f"{text[:1]}{put}{text[2:]}" for each in "%_\\"),
)


def random_searches(store: Calls, random: Random) -> Program:
    """Yield a batch of items, and searches for them; a query is mostly a part of a content with something changed."""
    items = []
    for number in range(random.randint(1, 8)):
        kind = random.choice(_TYPES)
        values = {
            "id": f"{number}",
            "content": "".join(random.choices(LETTERS, k=random.randint(0, 6))),
            "memory_type": kind,
            "status": random.choice(list(MemoryStatus)),
            "metadata": mine(**_scope(random)),
            "created_at": moment(random.randint(0, 2)),
        }
        items.append(made(BUILTIN_TYPES.get(kind, MemoryItem), **values))
    yield store.add_many(items)
    for _ in range(random.randint(1, 6)):
        content, start = random.choice(items).content, random.randint(0, 3)
        query = random.choice(_CHANGES)(content[start : start + random.randint(0, 3)])
        asked: dict[str, Any] = {"metadata": mine(**(_scope(random) if random.random() < 0.33 else {}))}
        if random.random() < 0.5:
            asked["memory_type"] = random.choice(_TYPES)
        if random.random() < 0.5:
            asked["status"] = random.choice(list(MemoryStatus))
        yield store.search(query=query, mode="substring", limit=random.randint(0, 9), **asked)


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
