"""Where the in-memory store keeps its entries: in order, by id, and by each field of their scope."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.ranking.entries import Entry as Entry
from memoranda.store.conditions import Below, InScope, metadata_conditions
from memoranda.store.filters import Filter
from memoranda.store.pages import Order
from memoranda.windowing import stays

_SPARSE = 64
"""Up to how many entries a list is gone through for each one that leaves it; beyond, each is looked for."""


BY: dict[Order, Callable[[Entry], tuple[str, int]]] = {
    "created": lambda entry: (entry.created_at, entry.added),
    "added": lambda entry: ("", entry.added),
    "updated": lambda entry: (entry.item.updated_at, entry.added),
}
"""What entries are sorted by, for each order."""


class Row(list[Entry]):
    """Entries in order, with what a window over a conversation asks of them."""

    __slots__ = ("as_added", "staying")

    def __init__(self) -> None:
        self.as_added = True
        """Whether they are in the order of their adding too, as they are unless a time was set back."""
        self.staying: list[Entry] = []
        """Those that every window shows: see :func:`memoranda.windowing.stays`."""

    def insert_in_order(self, entry: Entry) -> None:
        """Add an entry that does not simply go to the end."""
        at = bisect_left(self, entry)
        around = [*self[max(at - 1, 0) : at], entry, *self[at : at + 1]]
        self.as_added = self.as_added and all(one.added < other.added for one, other in pairwise(around))
        self.insert(at, entry)

    def take(self, gone: Sequence[Entry]) -> None:
        """Remove entries, which are in order and all there, touching only the stretch where they stand."""
        _remove(self, gone)
        if staying := [entry for entry in gone if stays(entry.item)]:
            _remove(self.staying, staying)


class Shelf:
    """Entries in order, found by id and by each field of their scope without touching any others."""

    def __init__(self) -> None:
        self._by_id: dict[str, Entry] = {}
        self._all = Row()
        self._scopes: list[tuple[str, dict[str, Row]]] = [(name, {}) for name in SCOPE_FIELDS]
        self._sessions = dict(self._scopes)["session_id"]
        self._places: dict[tuple[str, ...], Row] = {}
        """The entries of each namespace and of all that lie below it."""
        self._rows: dict[str, dict[Any, Row]] = dict(self._scopes)
        self._rows |= {"namespace": self._places, "": {None: self._all}}

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, item_id: str) -> Entry | None:
        """Return the entry of this id."""
        return self._by_id.get(item_id)

    def has_none(self, ids: Iterable[str]) -> bool:
        """Whether none of these ids is on the shelf."""
        return self._by_id.keys().isdisjoint(ids)

    def put(self, entry: Entry) -> None:
        """Add an entry whose id is not on the shelf."""
        item = entry.item
        self._by_id[item.id] = entry
        rows = [self._all]
        held = item.metadata.__dict__
        for name, by_value in self._scopes:
            value = held[name]
            if value is not None:
                row = by_value.get(value)
                if row is None:
                    row = by_value[value] = Row()
                rows.append(row)
        if held["namespace"]:
            rows += [self._places.setdefault(place, Row()) for place in _above(held["namespace"])]
        for row in rows:
            # Memories mostly arrive in the order of their time, and new ones have the highest number.
            if not row or (row[-1] < entry and row[-1][1] < entry[1]):
                row.append(entry)
            else:
                row.insert_in_order(entry)
        if stays(item):
            for row in rows:
                insort(row.staying, entry)

    def replace(self, old: Entry, new: Entry) -> bool:
        """Put an entry where another is, and return whether that could be: it has the same id, owner, type and time."""
        if not fits(old, new.item):
            return False
        item = new.item
        held = item.metadata.__dict__
        self._by_id[item.id] = new
        rows = [self._all, *[by_value[held[name]] for name, by_value in self._scopes if held[name] is not None]]
        rows += [self._places[place] for place in _above(held["namespace"])]
        for row in rows:
            row[bisect_left(row, old)] = new
            if stays(item):
                row.staying[bisect_left(row.staying, old)] = new
        return True

    def take(self, entry: Entry) -> None:
        """Remove one entry."""
        self.take_many([entry])

    def put_many(self, arrivals: Arrivals) -> None:
        """Add entries that were added later than all others; none has an id that is on the shelf."""
        self._by_id.update(arrivals.by_id)
        for (name, value), (entries, as_added, staying) in arrivals.rows.items():
            row = self._rows[name].setdefault(value, Row())
            in_order = not row or row[-1] < entries[0]
            row.as_added = row.as_added and as_added and in_order
            row.extend(entries)
            if not in_order:
                row.sort()
            for entry in staying:
                insort(row.staying, entry)

    def replace_many(self, arrivals: Arrivals) -> None:
        """Put entries where others are, as :meth:`replace` does each."""
        self._by_id.update(arrivals.by_id)
        for (name, value), (entries, _, staying) in arrivals.rows.items():
            row = self._rows[name][value]
            _exchange(row, entries)
            _exchange(row.staying, staying)

    def take_many(self, gone: Sequence[Entry]) -> None:
        """Remove several entries, which are in order."""
        for entry in gone:
            del self._by_id[entry.item.id]
        if gone:
            self._all.take(gone)
        for (name, value), entries in _by_row(gone).items():
            row = self._rows[name][value]
            row.take(entries)
            if not row:
                del self._rows[name][value]

    def candidates(self, metadata: MemoryMetadata | None) -> Row:
        """Return the shortest row that holds all entries of a scope, oldest first. It is the shelf's own."""
        shortest = self._all
        if metadata is not None:
            held = metadata.__dict__
            for name, by_value in self._scopes:
                value = held[name]
                if value is not None:
                    row = by_value.get(value)
                    if row is None:
                        return Row()
                    if len(row) < len(shortest):
                        shortest = row
            if metadata.namespace:
                row = self._places.get(metadata.namespace, Row())
                if len(row) < len(shortest):
                    shortest = row
        return shortest

    def kin(self, metadata: MemoryMetadata) -> MemoryMetadata | None:
        """Return the metadata of the last entry of a session, or None: mostly that of the next one."""
        row = self._sessions.get(metadata.session_id or "")
        return row[-1].item.metadata if row else None


def fits(held: Entry, item: MemoryItem) -> bool:
    """Whether an item belongs into the very places of an entry that has its id."""
    was = held.item
    return (
        held.created_at == item.created_at
        and was.memory_type == item.memory_type
        and was.metadata.__dict__ == item.metadata.__dict__
    )


class Arrivals(NamedTuple):
    """Entries, ready to be put on a shelf at once; made aside, which may take its time."""

    by_id: dict[str, Entry]
    rows: dict[tuple[str, Any], tuple[list[Entry], bool, list[Entry]]]
    """What each row gets, in order, whether that is the order of adding, and which of it stays in every window."""


def arranged(entries: Sequence[Entry]) -> Arrivals:
    """Return entries, each with a number of its own, by their ids and by the rows that they belong to."""
    rows = {}
    for key, listed in {**_by_row(entries), ("", None): entries}.items():
        ordered = sorted(listed)
        rows[key] = ordered, ordered == listed, [entry for entry in ordered if stays(entry.item)]
    return Arrivals({entry.item.id: entry for entry in entries}, rows)


def _by_row(entries: Iterable[Entry]) -> dict[tuple[str, Any], list[Entry]]:
    """Return the names of the rows that entries belong to, and what each has of them, in their order."""
    rows: dict[tuple[str, Any], list[Entry]] = {}
    for entry in entries:
        held = entry.item.metadata.__dict__
        for name in SCOPE_FIELDS:
            if held[name] is not None:
                rows.setdefault((name, held[name]), []).append(entry)
        for place in _above(held["namespace"]):
            rows.setdefault(("namespace", place), []).append(entry)
    return rows


def names_at_most_one_field(wanted: Filter) -> bool:
    """Whether a filter asks for one field of a scope or none, and nothing else: all candidates match then."""
    named = metadata_conditions(wanted.metadata)
    return len(named) <= 1 and wanted.conditions == named and all(type(each) in (InScope, Below) for each in named)


def matching(entries: Iterable[Entry], wanted: Filter) -> list[Entry]:
    """Return the entries whose item matches."""
    matches = wanted.matches
    return [entry for entry in entries if matches(entry.item)]


def _above(namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return a place and all places above it, without the root."""
    return [namespace[:depth] for depth in range(1, len(namespace) + 1)]


def _exchange(entries: list[Entry], new: Sequence[Entry]) -> None:
    """Put new entries into the places that others of their times and numbers have in a list in order."""
    if len(new) * _SPARSE < len(entries):
        for entry in new:
            entries[bisect_left(entries, BY["created"](entry), key=BY["created"])] = entry
        return
    by_number = {entry.added: entry for entry in new}
    entries[:] = [by_number.get(entry[1], entry) for entry in entries]


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
