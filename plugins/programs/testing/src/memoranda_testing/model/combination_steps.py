"""Histories about filters: every two together for every method, every three for those that read, and for few items
among many others.

Each item has some of the features below, drawn by chance. A filter asks for one or several of them, as an argument or,
where it names an owner or a namespace, by a handle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.store import Capability
from memoranda_testing.model.reference import Model
from memoranda_testing.model.steps import Call, Calls, Many

CROWD = 1_100
"""How many others there are: more than a page, a batch or a list of candidates holds."""

_ITEMS = 40
"""So many that of three features nearly always some item lacks one alone."""

_OWNERS = {"user_id": "u", "session_id": "s", "task_id": "t", "agent_id": "g"}
_DEEP, _DEEPER = ("p", "q", "r", "s", "t", "v"), ("p", "q", "r", "s", "t", "v", "x")
_ABOVE, _BESIDE = _DEEP[:-1], (*_DEEP[:-1], "w")
_EARLY, _USUAL = "2020-01-01T00:00:00+00:00", "2024-03-01T00:00:00+00:00"
_LATE, _LATEST = "9999-12-31T23:59:59.999998+00:00", "9999-12-31T23:59:59.999999+00:00"

_ALL = MemoryMetadata(namespace=_DEEP[:1])

_METADATA: dict[str, Any] = {**_OWNERS, "namespace": _DEEP, "extra": {"k": 1}}
_FILTERS: dict[str, tuple[dict[str, Any], ...]] = {
    "mood": ({"where": {"extra.name": {"$in": ["calm", 7]}}}, {"where": {"extra.name": "calm"}}),
    "name": ({"where": {"name": "Ada"}}, {"where": {"name": {"$ne": None}}}),
    "late": ({"since": _LATEST},),
    "early": ({"until": "2020-01-01T00:00:00.000001+00:00"}, {"until": _USUAL}),
    "trust": ({"min_trust": "user"},),
    "type": ({"memory_type": "diary"}, {"memory_type": ["letter", "diary"]}),
    "status": ({"status": "draft"},),
    "query": ({"query": "TEA", "mode": "substring"}, {"query": "te", "mode": "substring"}),
    "archived": ({"archived": True},),
}
"""What asks for a feature, in one way or another. A name in ``extra`` is another one than the item's."""

FEATURES = (*_METADATA, *_FILTERS)

_NARROWING = {"metadata", "since", "until", "where", "min_trust"}
_ACCEPTED: dict[str, set[str]] = {
    "search": {*_NARROWING, "memory_type", "status", "query", "archived"},
    "search_ranked": {*_NARROWING, "memory_type", "status", "archived"},
    "scan": {*_NARROWING, "memory_type", "status", "archived"},
    "payloads": {*_NARROWING, "memory_type", "archived"},
    "count": _NARROWING,
    "window": _NARROWING,
    "head": {"metadata"},
    "owners": {"metadata"},
    "get_many": {"metadata"},
    "touch": {"metadata"},
    "clear": _NARROWING,
    "purge": _NARROWING,
    "pop": {"metadata", "memory_type", "where"},
    "apply": {"metadata"},
    "restore": {"metadata"},
    "delete": {"metadata"},
}
"""The filters that each method takes."""

_READING = ("search", "count", "scan", "search_ranked", "payloads", "window", "head", "owners", "get_many")
_CHANGING = ("clear", "pop", "apply", "delete", "restore", "purge", "touch")


class Combinations:
    """Draws items with some features, and calls that ask for several of these at once."""

    def __init__(self, store: Calls, random: Random, capabilities: frozenset[Capability]) -> None:
        self._store = store
        self._random = random
        self._capabilities = capabilities
        self._items = [self._item(f"{number:02}", FEATURES) for number in range(_ITEMS)]
        self._hidden = [self._item(f"h{number:02}", FEATURES) for number in range(8)]
        needed = {"restore": Capability.DELETE, "delete": Capability.DELETE, "purge": Capability.PURGE}
        needed["touch"] = Capability.TTL
        self._changing = [each for each in _CHANGING if needed.get(each) in (None, *capabilities)]

    def steps(self, model: Model, share: int = 1) -> Iterator[Call]:
        """Yield calls with every two features, or one of so many of these, and with every other three.

        Each is to be played on the model before the next is asked for.
        """
        yield self._store.add_many([*self._items, *self._hidden])
        pairs = list(combinations(FEATURES, 2))
        self._random.shuffle(pairs)
        for number, pair in enumerate(pairs[::share]):
            if number % 8 == 0:  # They stay deleted, unless a call restores or purges them.
                yield self._store.add_many(self._hidden)
                yield self._store.apply(deletes=[item.id for item in self._hidden])
            yield from self._asked(_READING, pair)
            for method in self._changing:
                yield from self._changed(method, pair, model)
        threes = list(combinations(FEATURES, 3))
        self._random.shuffle(threes)
        for number, three in enumerate(threes[:: 2 * share]):
            yield from (call for way in (0, 1) if (call := self._call("search", three, way)) is not None)
            yield from self._asked(("search", _READING[number % 5]), three)

    def steps_in_a_crowd(self, model: Model, share: int = 1) -> Iterator[Call]:
        """Yield calls with every feature, which few items have: some of the first of many, or of the last ones, too."""
        crowd = MemoryMetadata(**dict.fromkeys(SCOPE_FIELDS, "x"), namespace=("x",), extra={"k": 2, "name": "sad"})
        features = self._random.sample(FEATURES, len(FEATURES))
        halves = features[::2], features[1::2]
        of = [halves[number % 2] for number in range(12)] + [halves[1]] * 12
        self._items = [self._item(f"{number:02}", has) for number, has in enumerate(of)]
        for batch in (self._items[:12], Many("x", CROWD, crowd, content="milk {}"), self._items[12:]):
            yield self._store.add_many(batch)
        for number, feature in enumerate(features[::share]):
            yield from self._asked(_READING, [feature])
            for method in self._changing[number // 2 % 2 :: 2]:
                yield from self._changed(method, [feature], model)

    def _item(self, item_id: str, features: Sequence[str]) -> MemoryItem:
        # Archived ones are seldom asked for, and answer nothing else.
        has = {name for name in features if self._random.random() < (0.25 if name == "archived" else 0.5)}
        fields = {name: text if name in has else "x" for name, text in _OWNERS.items()}
        place = self._random.choice((_DEEP, _DEEPER) if "namespace" in has else (_ABOVE, _BESIDE))
        metadata = MemoryMetadata(
            **fields,
            namespace=place,
            extra={"k": 1 if "extra" in has else 2, "name": "calm" if "mood" in has else "sad"},
        )
        created = _EARLY if "early" in has else _USUAL
        return MemoryItem(
            id=item_id,
            content=f"tea {item_id}" if "query" in has else f"milk {item_id}",
            metadata=metadata,
            memory_type="diary" if "type" in has else "note",
            status="draft" if "status" in has else "accepted",
            name="Ada" if "name" in has else None,
            trust="user" if "trust" in has else None,
            archived_by="s" if "archived" in has else None,
            created_at=self._random.choice((_LATE, _LATEST)) if "late" in has else created,
            payload=f'["{item_id}"]' if "mood" in has else None,
            payload_format="test" if "mood" in has else None,
        )

    def _asked(self, methods: Sequence[str], features: Sequence[str]) -> Iterator[Call]:
        """Yield a call of each method that takes these features, and a page of the search."""
        calls = [call for method in methods if (call := self._call(method, features)) is not None]
        yield from calls
        page = {"limit": self._random.choice((1, 2, 3)), "offset": self._random.choice((0, 1, 2))}
        yield replace(calls[0], arguments={**calls[0].arguments, **page})

    def _call(self, method: str, features: Sequence[str], way: int | None = None) -> Call | None:
        """Return a call that asks for these features, in one way or in any; None if the method does not take them."""
        arguments: dict[str, Any] = {}
        for feature in features:
            ways = _FILTERS.get(feature, ({},))
            for name, value in (self._random.choice(ways) if way is None else ways[way % len(ways)]).items():
                both = isinstance(value, dict) and name in arguments
                arguments[name] = {**arguments[name], **value} if both else value
        if any(name not in _ACCEPTED[method] for name in arguments if name != "mode"):
            return None
        asked: dict[str, Any] = {name: _METADATA[name] for name in features if name in _METADATA}
        scope = None
        if self._random.random() < 0.5:  # No handle is bound to ``extra``.
            scope = MemoryMetadata(**{name: value for name, value in asked.items() if name != "extra"})
            asked = {"extra": asked["extra"]} if "extra" in asked else {}
        metadata, scope = MemoryMetadata(**asked), None if scope == MemoryMetadata() else scope
        arguments.update(self._further(method))
        if metadata != MemoryMetadata():
            arguments[{"owners": "within", "apply": "within"}.get(method, "metadata")] = metadata
        return Call(method, arguments, scope)

    def _further(self, method: str) -> dict[str, Any]:
        """Return the arguments besides filters that a method needs, or that go with them."""
        random, ids = self._random, [item.id for item in self._items]
        order = random.choice(("created", "added", "updated"))
        further: dict[str, dict[str, Any]] = {
            "search": {"limit": 50, "order": order},
            "search_ranked": {"query": "tea milk", "mode": "text", "limit": random.choice((2, 50))},
            "scan": {"order": order, **self._deleted()},
            "count": self._deleted(),
            "payloads": {"limit": random.choice((2, 50))},
            "owners": {"by": random.choice((*SCOPE_FIELDS, "namespace"))},
            "get_many": {"ids": random.sample(ids, len(ids))},
            "touch": {"ids": ids, "ttl": 1e9},
            "apply": {"deletes": ids},
            "delete": {"item_id": random.choice(ids)},
        }
        return further.get(method, {})

    def _deleted(self) -> dict[str, Any]:
        asked = Capability.DELETE in self._capabilities and self._random.random() < 0.3
        return {"include_deleted": True} if asked else {}

    def _changed(self, method: str, features: Sequence[str], model: Model) -> Iterator[Call]:
        """Yield a call that changes what has these features, a look at everything, and what brings back the removed."""
        call = self._call(method, features)
        if call is None:
            return
        if method == "restore":
            yield self._store.clear(metadata=_ALL)
        yield from [call] * (3 if method == "pop" else 1)
        yield self._store.everything(metadata=_ALL)
        if self._random.random() < 0.2:
            yield self._store.search_ranked(query="tea milk", mode="text", limit=50, metadata=_ALL)
        live = {row.item.content for row in model.rows.values() if not row.deleted}
        if gone := [item for item in self._items if item.content not in live]:
            yield self._store.add_many(gone)
