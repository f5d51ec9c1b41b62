"""The values in histories: few, so that they collide, and easily confused with one another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from random import Random
from typing import Any, TypeVar

from memoranda.items import SCOPE_FIELDS, MemoryMetadata

T = TypeVar("T")

FAMILIES: tuple[tuple[str, ...], ...] = (
    ("a", "A", "b"),
    ("a", "a:b", "b"),
    ("b:a", "a", "b"),
    ("", "None", "a"),
    ("\u00e1", "a\u0301", "a"),
    ("a%", "a b", "*"),
)
"""Owner ids that are easily confused: folded, joined, empty, composed or not, patterns."""

ALIKE = (("a", "A"), ("a:b", "a:"), ("0", "00"), ("\u00e1", "a\u0301"), ("1", "None"), ("%", "tea"), ("a/b", "a b"))
"""Ids that are easily confused; each history has both of some pairs."""

IDS = ("a", "A", "a:b", "b", ":a", "a:", "None", "0", "00", "\u00e1", "a\u0301", "a/b", "%", "1", "a b", "tea")

PLACES: tuple[tuple[str, ...], ...] = (
    ("a",),
    ("a", "b"),
    ("ab",),
    ("a/b",),
    ("a.b",),
    ("a~1b",),
    ("A",),
    ("a", "b", "c"),
    ("a:b",),
    ("",),
    ("a", ""),
    ("a%",),
    ("b", "a"),
    ("a*",),
    ("a_", "b"),
    ("a", "b", "c", "d", "e"),
)

ALIKE_PLACES: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("a", "b"), ("a.b",)),
    (("a", "b"), ("a/b",)),
    (("a", "b"), ("a:b",)),
    (("a",), ("ab",)),
    (("a",), ("A",)),
    (("a",), ("a%",)),
    (("ab",), ("a?",)),
    (("ab", "c"), ("a_", "c")),
    (("a", ""), ("a",)),
    (("a", "b"), ("b", "a")),
    (("a", "b", "c", "d"), ("a", "b", "c", "e")),
)
"""Namespaces that are easily confused, joined or as a prefix; each history has both of a pair."""

CONTENTS = (
    "tea with milk",
    "Tea, and tea again",
    "the kettle boils",
    "milk",
    "",
    "Straße nach Köln",
    "strasse",
    "большой Жираф",
    "50% of a_b",
    "50 percent",
    "back\\slash",
    'it\'s "quoted"',
    "  ",
    "line\nbreak tea",
    "kettle kettle kettle",
    "Ada met Bob on 3 May 2023",
    "Ada's tea is with milk",
    "Ada's tea is with lemon",
)

QUERIES = ("tea", "TEA", "milk kettle", "strasse", "ЖИРАФ", "50%", "a_b", "\\", "'", '"', " ", "nothing of it", "Ada")

VALUES: tuple[tuple[Any, ...], ...] = (
    (1, 1.0, True, "1", 0, False, None, 2),
    ("", "a", "A", "é", "e\u0301", "true", "null", None),
    (2, 10, -1.5, -0.0, 2**60, 2**60 + 1, 0.5, "10"),
    ([1, 2], [2, 1], [], {"a": 1}, {"A": 1}, {"a": 1, "b": 2}, {}, [None]),
)
"""Values that differ only in type, in the order of a list or in the case of a key."""

KEYS = (("k", "K"), ("a.b", "a"), ("user_id", "k'"), ('k"', "$k"), ("", "é"))

MOMENTS: tuple[str, ...] = (
    "2024-03-01T00:00:00.000000+00:00",
    "2024-03-01T00:00:00.000001+00:00",
    "2024-03-01T00:00:01+00:00",
    "2024-03-01T01:00:00+01:00",
    "2024-02-29T23:59:59.999999+00:00",
    "2024-02-29T18:30:00-05:30",
    "2024-03-02",
    "0001-01-01T00:00:00+00:00",
    "9999-12-31T23:59:59.999999+00:00",
    "1969-12-31T23:59:59+00:00",
    "2038-01-19T03:14:08+00:00",
)
"""Times that are equal in different zones, that differ by a microsecond, or that are far away."""

CLOSE_MOMENTS = (
    ("2024-03-01T00:00:00.000000+00:00", "2024-03-01T00:00:00.000001+00:00"),
    ("2500-01-01T00:00:00.000001+00:00", "2500-01-01T00:00:00.000002+00:00"),
    ("9999-12-31T23:59:59.999998+00:00", "9999-12-31T23:59:59.999999+00:00"),
)
"""Times a microsecond apart, also where a float of seconds holds them no longer; each history has both of a pair."""

BOUNDS: tuple[str | datetime, ...] = (
    *MOMENTS,
    *(moment for pair in CLOSE_MOMENTS for moment in pair),
    datetime(2024, 3, 1, tzinfo=UTC),
    datetime(2024, 3, 1, 5, 30, tzinfo=timezone(timedelta(hours=5, minutes=30))),
)

TYPES = ("note", "human", "ai", "tool", "system", "summary", "Note")

STATUSES = ("draft", "accepted", "discard")

TRUSTS = ("external", "tool", "agent", "user", "operator")
"""From the least trusted to the most."""

LIFETIMES = (300.5, 301.0, 600.0, 900.0, 3600.25, 1e9)
"""Lifetimes by the moved clock; none ends by an engine's own clock, however slow the run."""

FAR_PAST = "2000-01-01T00:00:00+00:00"
FAR_FUTURES = ("2999-01-01T00:00:00.000000+00:00", "2999-01-01T00:00:00.000001+00:00")

FIELD_VALUES: dict[str, Sequence[Any]] = {
    "status": STATUSES,
    "version": (1, 2, 3, 1.0, "1", None),
    "memory_type": TYPES,
    "name": (None, "Ada", ""),
    "archived_by": (None, "s"),
    "tool_call_id": ("c", "", None),
    "created_at": MOMENTS,
    "content": (*CONTENTS, 1),
    "expires_at": (None, *FAR_FUTURES),
}
"""Values for conditions on the fields of an item that ``where`` knows."""

FOREVER = math.inf


@dataclass
class World:
    """The values that one history draws from: a few of each kind, so that they meet.

    On a shared store, every id and owner begins with a unique ``mark``, every item has a user and lies below the
    namespace of that name, and every call names one of these.
    """

    random: Random
    mark: str = ""
    owners: dict[str, list[str]] = field(default_factory=dict)
    places: list[tuple[str, ...]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)
    moments: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in SCOPE_FIELDS:
            family = self.one(FAMILIES)
            self.owners[name] = [self.mark + text for text in family[: 3 if name == "user_id" else 2]]
        if self.chance(0.3):  # As "a" and "b:a", or "a:b" and "a", which joined by a colon are one.
            self.owners["user_id"] = [self.mark + text for text in ("a", f"a:{self.mark}b", "b")]
            self.owners["session_id"] = [self.mark + text for text in (f"b:{self.mark}a", "a")]
        pair = self.one(ALIKE_PLACES)
        self.places = [self.root + place for place in (*pair, self.one([each for each in PLACES if each not in pair]))]
        alike = [text for pair in self.random.sample(ALIKE, 2) for text in pair]
        others = self.random.sample([text for text in IDS if text not in alike], 3)
        self.ids = [self.mark + text for text in (*alike, *others)]
        self.contents = self.random.sample(CONTENTS, 6)
        self.moments = [*self.one(CLOSE_MOMENTS), *self.random.sample(MOMENTS, 4)]
        self.keys = list(self.one(KEYS))
        self.values = list(self.one(VALUES))

    @property
    def root(self) -> tuple[str, ...]:
        """The namespace below which everything lies."""
        return (self.mark,) if self.mark else ()

    @property
    def bounds(self) -> MemoryMetadata | None:
        """The filter of everything in this world; None if the store holds nothing else."""
        return MemoryMetadata(namespace=self.root) if self.mark else None

    @property
    def is_shared(self) -> bool:
        """True if others have memories in the store."""
        return bool(self.mark)

    def one(self, of: Sequence[T]) -> T:
        """Return one of the values."""
        return self.random.choice(of)

    def chance(self, share: float) -> bool:
        """Return True with this probability."""
        return self.random.random() < share

    def extra(self, share: float) -> dict[str, Any]:
        """Return further metadata, often none."""
        if not self.chance(share):
            return {}
        return {key: self.one(self.values) for key in self.random.sample(self.keys, self.random.randint(1, 2))}

    def belonging(self) -> MemoryMetadata:
        """Return the metadata of an item; each field is sometimes empty."""
        fields = {
            name: self.one(self.owners[name])
            for name in SCOPE_FIELDS
            if self.chance(0.6) or (name == "user_id" and self.is_shared)
        }
        place = self.one(self.places) if self.chance(0.4) else self.root
        return MemoryMetadata(**fields, namespace=place, extra=self.extra(0.7))

    def asked(self) -> MemoryMetadata | None:
        """Return a metadata filter: often none or a single field, since few items match several."""
        kind = self.random.random()
        if kind < 0.3:
            return None
        names = [*SCOPE_FIELDS, "namespace", "extra"]
        chosen = [self.one(names)] if kind < 0.75 else [name for name in names if self.chance(0.3)]
        return self.naming(chosen)

    def naming(self, chosen: Sequence[str]) -> MemoryMetadata:
        """Return a metadata filter, or a scope, that names these fields."""
        fields = {name: self.one(self.owners[name]) for name in SCOPE_FIELDS if name in chosen}
        place = self.one(self.places) if "namespace" in chosen else ()
        if place and self.chance(0.3):
            place = place[: len(self.root) + 1]
        return MemoryMetadata(**fields, namespace=place, extra=self.extra(1) if "extra" in chosen else {})

    def scope(self, combination: int) -> MemoryMetadata | None:
        """Return the scope of a handle: one of the 32 combinations of fields; the first binds nothing."""
        fields: dict[str, Any] = {
            name: self.one(self.owners[name]) for bit, name in enumerate(SCOPE_FIELDS) if combination >> bit & 1
        }
        place = self.one(self.places) if combination >> len(SCOPE_FIELDS) & 1 else ()
        return MemoryMetadata(**fields, namespace=place) if fields or place else None
