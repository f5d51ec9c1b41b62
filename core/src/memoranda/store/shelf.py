"""Where the in-memory store keeps its entries: in order, by id, and by each field of their scope."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.store.conditions import Below, InScope, metadata_conditions
from memoranda.store.filters import Filter

_SPARSE = 64
"""Up to how many entries a list is gone through for each one that leaves it; beyond, each is looked for."""

_scope_of = itemgetter(*SCOPE_FIELDS)

Field = tuple[str, str | tuple[str, ...]]
"""The name of a field and its value; a namespace is in the lists of all places above it too."""


class Entry(NamedTuple):
    """An item in its place: by time, then by the order of adding; ``added`` is unique, so items never compare.

    ``terms`` are filled when a ranking first asks for them. They go where the entry goes, and are nobody else's.
    """

    created_at: str
    added: int
    item: MemoryItem
    terms: list[str]

    def index_terms(self) -> list[str]:
        """Return the terms of the item, for a ranking. Several threads may ask."""
        if not self.terms:
            from memoranda.ranking import index_terms  # Loaded on use: most programs never rank.

            self.terms[:] = index_terms(self.item.content)
        return self.terms


class Shelf:
    """Entries in order, found by id and by each field of their scope without touching any others."""

    def __init__(self) -> None:
        self._by_id: dict[str, Entry] = {}
        self._all: list[Entry] = []
        self._by_field: dict[Field, list[Entry]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, item_id: str) -> Entry | None:
        """Return the entry of this id."""
        return self._by_id.get(item_id)

    def put(self, entry: Entry) -> None:
        """Add an entry whose id is not on the shelf."""
        self._by_id[entry.item.id] = entry
        for entries in (self._all, *(self._by_field.setdefault(field, []) for field in _fields(entry))):
            # Memories mostly arrive in the order of their time.
            if not entries or entries[-1] < entry:
                entries.append(entry)
            else:
                insort(entries, entry)

    def take(self, entry: Entry) -> None:
        """Remove one entry."""
        self.take_many([entry])

    def take_many(self, gone: Sequence[Entry]) -> None:
        """Remove several entries, which are in order, touching only the stretches of lists where they stand."""
        by_field: dict[Field, list[Entry]] = {}
        for entry in gone:
            del self._by_id[entry.item.id]
            for field in _fields(entry):
                by_field.setdefault(field, []).append(entry)
        if gone:
            _remove(self._all, gone)
        for field, leaving in by_field.items():
            entries = self._by_field[field]
            _remove(entries, leaving)
            if not entries:
                del self._by_field[field]

    def candidates(self, metadata: MemoryMetadata | None) -> list[Entry]:
        """Return the shortest list that holds all entries of a scope, oldest first. It is the shelf's own."""
        shortest = self._all
        if metadata is not None:
            for name in SCOPE_FIELDS:
                value = getattr(metadata, name)
                if value is not None:
                    entries = self._by_field.get((name, value))
                    if entries is None:
                        return []
                    if len(entries) < len(shortest):
                        shortest = entries
            if metadata.namespace:
                entries = self._by_field.get(("namespace", metadata.namespace), [])
                if len(entries) < len(shortest):
                    shortest = entries
        return shortest


def names_at_most_one_field(wanted: Filter) -> bool:
    """Whether a filter asks for one field of a scope or none, and nothing else: all candidates match then."""
    named = metadata_conditions(wanted.metadata)
    return len(named) <= 1 and wanted.conditions == named and all(type(each) in (InScope, Below) for each in named)


def matching(entries: Iterable[Entry], wanted: Filter) -> list[Entry]:
    """Return the entries whose item matches."""
    matches = wanted.matches
    return [entry for entry in entries if matches(entry.item)]


def _fields(entry: Entry) -> list[Field]:
    held = entry.item.metadata.__dict__
    fields: list[Field] = [
        (name, value) for name, value in zip(SCOPE_FIELDS, _scope_of(held), strict=True) if value is not None
    ]
    place = held["namespace"]
    return fields + [("namespace", place[:depth]) for depth in range(1, len(place) + 1)] if place else fields


def _remove(entries: list[Entry], gone: Sequence[Entry]) -> None:
    """Take entries, in order, out of a list in order that has all of them."""
    first = bisect_left(entries, gone[0])
    end = bisect_left(entries, gone[-1], first) + 1
    if end - first == len(gone):
        del entries[first:end]
    elif end - first <= _SPARSE * len(gone):
        numbers = {entry.added for entry in gone}
        entries[first:end] = [entry for entry in entries[first:end] if entry.added not in numbers]
    else:
        for entry in reversed(gone):
            del entries[bisect_left(entries, entry)]
