"""Where the in-memory store keeps its entries: in order, by id, and by each field of their scope."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from operator import is_
from typing import Any, NamedTuple

from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata, ids_of
from memoranda.loops import ITEMS_PER_TURN
from memoranda.store.codec import stored_metadata
from memoranda.store.conditions import Below, InScope, metadata_conditions
from memoranda.store.filters import Filter, Order, metadata_matches
from memoranda.store.ranked import Entry as Entry
from memoranda.windowing import STAYING, stays

_MOST_OWNERS = 10_000
"""How many owners' lists are remembered: the next item of one of them is put there without looking for them."""

_SPARSE = 64
"""Up to how many entries a list is gone through for each one that leaves it; beyond, each is looked for."""

_COMPARED = 4_096
"""How many entries are compared at once, in which time no other thread has its turn."""


BY: dict[Order, Callable[[Entry], tuple[str, int]]] = {
    "created": lambda entry: (entry.created_at, entry.added),
    "added": lambda entry: ("", entry.added),
    "updated": lambda entry: (entry.item.updated_at, entry.added),
}
"""What entries are sorted by, for each order."""


class EntryList(list[Entry]):
    """Entries in order, with what a window over a conversation asks of them."""

    __slots__ = ("as_added", "staying")

    def __init__(self) -> None:
        self.as_added = True
        """True if they are in the order of their adding too, as they are unless a time was set back."""
        self.staying: list[Entry] = []
        """Those that every window shows: see :func:`memoranda.windowing.stays`."""

    def insert_in_order(self, entry: Entry) -> None:
        """Add an entry in its place, which is mostly the end."""
        if not self or (self[-1].added < entry.added and self[-1].created_at <= entry.created_at):
            self.append(entry)
            return
        at = bisect_left(self, entry)
        around = [*self[max(at - 1, 0) : at], entry, *self[at : at + 1]]
        self.as_added = self.as_added and all(one.added < other.added for one, other in pairwise(around))
        self.insert(at, entry)

    def splice(self, change: Splice) -> bool:
        """Replace a part of the list; return False if that part has changed meanwhile."""
        at, end = bisect_left(self, change.first), bisect_left(self, change.end)
        was, now = change.was, change.now
        if end - at != len(was) or not all(map(is_, islice(self, at, end), was)):
            return False
        if now and self.as_added:
            numbers = [entry.added for entry in [*self[max(at - 1, 0) : at], now[0], now[-1], *self[end : end + 1]]]
            self.as_added = change.as_added and numbers == sorted(numbers)
        self[at:end] = now
        first, last = bisect_left(self.staying, change.first), bisect_left(self.staying, change.end)
        self.staying[first:last] = change.staying
        return True

    def take(self, gone: Sequence[Entry]) -> None:
        """Remove entries, which are in order and all there, touching only the range where they stand."""
        _remove(self, gone)
        if staying := [entry for entry in gone if stays(entry.item)]:
            _remove(self.staying, staying)


class EntryIndex:
    """Entries in order, found by id and by each field of their scope without touching any others."""

    def __init__(self) -> None:
        self._by_id: dict[str, Entry] = {}
        self.get = self._by_id.get
        """Returns the entry of an id, or None."""
        self._all = EntryList()
        self._scopes: list[tuple[str, dict[Any, EntryList]]] = [(name, {}) for name in SCOPE_FIELDS]
        self._places: dict[Any, EntryList] = {}
        """The entries of each namespace and of all that lie below it."""
        self._owners: dict[tuple[str | None, ...], tuple[MemoryMetadata, Sequence[EntryList]]] = {}
        """The kept metadata and the lists of owners that have ids alone; of no list that is gone."""
        self._rows: dict[str, dict[Any, EntryList]] = dict(self._scopes)
        self._rows |= {"namespace": self._places, "": {None: self._all}}

    def __len__(self) -> int:
        return len(self._by_id)

    def owner(self, metadata: MemoryMetadata) -> tuple[MemoryMetadata, Sequence[EntryList]]:
        """Return the metadata to keep for an item of this owner, and the lists that its entry belongs to."""
        held = metadata.__dict__
        if held["namespace"] or held["extra"]:
            return stored_metadata(metadata), self._lists_of(held)
        ids = ids_of(held)
        known = self._owners.get(ids)
        if known is None:
            if len(self._owners) >= _MOST_OWNERS:
                self._owners.clear()
            known = self._owners[ids] = stored_metadata(metadata), self._lists_of(held)
        return known

    def _lists_of(self, held: Mapping[str, Any]) -> list[EntryList]:
        """Return the lists that entries of these fields of metadata belong to, with new ones where there are none."""
        lists = [self._all]
        named = [(held[name], by_value) for name, by_value in self._scopes if held[name] is not None]
        for value, by_value in (*named, *((place, self._places) for place in _above(held["namespace"]))):
            if value not in by_value:
                by_value[value] = EntryList()
            lists.append(by_value[value])
        return lists

    def put(self, entry: Entry, lists: Sequence[EntryList] | None = None) -> None:
        """Add an entry whose id is not in the index; ``lists`` are those of its owner, if they are known."""
        created, added, item, _ = entry
        fields = item.__dict__
        self._by_id[fields["id"]] = entry
        if lists is None:
            lists = self._lists_of(fields["metadata"].__dict__)
        # Memories mostly arrive in the order of their time, and new ones have the highest number. What comes last of
        # all comes last in each list, at which one need not look then.
        entries = self._all
        if entries.as_added and (not entries or ((last := entries[-1])[1] < added and last[0] <= created)):
            for each in lists:
                each.append(entry)
        else:
            for each in lists:
                each.insert_in_order(entry)
        if fields["memory_type"] in STAYING:
            for each in lists:
                insort(each.staying, entry)

    def replace(self, old: Entry, new: Entry) -> bool:
        """Replace an entry in place; return False unless id, owner, type and time are the same."""
        if not fits(old, new.item):
            return False
        item = new.item
        self._by_id[item.id] = new
        for row in self._lists_of(item.metadata.__dict__):
            row[bisect_left(row, old)] = new
            if stays(item):
                row.staying[bisect_left(row.staying, old)] = new
        return True

    def planned(self, gone: Sequence[Entry], come: Sequence[Entry]) -> IndexChange:
        """Plan the removal of some entries and the addition of others, which may have the same ids.

        It may take its time in another thread: :meth:`carry_out` looks whether rows are still what they were here. A
        few entries are worth no plan.
        """
        rows = {}
        if len(gone) + len(come) > ITEMS_PER_TURN:
            leaving, coming = _by_row(gone), _by_row(come)
            for name in leaving.keys() | coming.keys():
                rows[name] = self._splice(name, leaving.get(name, []), coming.get(name, []))
        return IndexChange(gone, {entry.item.id: entry for entry in come}, rows)

    def carry_out(self, change: IndexChange) -> None:
        """Make a planned change. The index must have all entries that leave, and no other entry with a new id."""
        gone, come, rows = change
        if not rows:
            leave = [entry for entry in gone if not ((new := come.get(entry.item.id)) and self.replace(entry, new))]
            if leave:
                self.take(sorted(leave))
            for entry in come.values():
                if self._by_id.get(entry.item.id) is not entry:
                    self.put(entry)
            return
        for entry in gone:
            del self._by_id[entry.item.id]
        self._by_id.update(come)
        for name, splice in rows.items():
            row = self._rows[name[0]].setdefault(name[1], EntryList())
            if not row.splice(splice):
                row.splice(self._splice(name, splice.gone, splice.come))
            if not row and name[0]:
                del self._rows[name[0]][name[1]]
                self._owners.clear()

    def _splice(self, name: ListName, gone: list[Entry], come: list[Entry]) -> Splice:
        places = [entry[:2] for entry in (*gone, *come)]
        first, last = min(places), max(places)
        end = (last[0], last[1] + 1)
        row = self._rows[name[0]].get(name[1], EntryList())
        was = row[bisect_left(row, first) : bisect_left(row, end)]
        numbers = {entry.added for entry in gone}
        now = sorted([*[entry for entry in was if entry.added not in numbers], *come])
        added = [entry.added for entry in now]
        staying = [entry for entry in now if stays(entry.item)]
        return Splice(gone, come, first, end, was, now, added == sorted(added), staying)

    def take(self, gone: Sequence[Entry]) -> None:
        """Remove entries, which are in order."""
        for entry in gone:
            del self._by_id[entry.item.id]
        for (name, value), entries in _by_row(gone).items():
            row = self._rows[name][value]
            row.take(entries)
            if not row and name:
                del self._rows[name][value]
                self._owners.clear()

    def candidates(self, metadata: MemoryMetadata | None) -> EntryList:
        """Return the shortest row that holds all entries of a scope, oldest first. It is the index's own."""
        shortest = self._all
        if metadata is not None:
            held = metadata.__dict__
            for name, by_value in self._scopes:
                value = held[name]
                if value is not None:
                    row = by_value.get(value)
                    if row is None:
                        return EntryList()
                    if len(row) < len(shortest):
                        shortest = row
            if metadata.namespace:
                row = self._places.get(metadata.namespace, EntryList())
                if len(row) < len(shortest):
                    shortest = row
        return shortest


def fits(held: Entry, item: MemoryItem) -> bool:
    """Return True if an item can replace the entry with its id in place."""
    was = held.item
    return (
        held.created_at == item.created_at
        and was.memory_type == item.memory_type
        and was.metadata.__dict__ == item.metadata.__dict__
    )


ListName = tuple[str, Any]
"""The name of a scope's field, or ``namespace``, and its value; the row of all has an empty one."""


class Splice(NamedTuple):
    """A range of a row in which some entries are replaced by others.

    It holds what was there and what is to be there, whether that is in the order of adding, and which of it stays in
    every window.
    """

    gone: list[Entry]
    come: list[Entry]
    first: tuple[str, int]
    end: tuple[str, int]
    was: list[Entry]
    now: list[Entry]
    as_added: bool
    staying: list[Entry]


class IndexChange(NamedTuple):
    """The entries that leave an index and those that join it, with the effect on each row."""

    gone: Sequence[Entry]
    come: dict[str, Entry]
    rows: dict[ListName, Splice]


def _by_row(entries: Sequence[Entry]) -> dict[ListName, list[Entry]]:
    """Group entries by the rows that they belong to, in order."""
    rows: dict[ListName, list[Entry]] = {("", None): list(entries)} if entries else {}
    for entry in entries:
        held = entry.item.metadata.__dict__
        for name in SCOPE_FIELDS:
            if held[name] is not None:
                rows.setdefault((name, held[name]), []).append(entry)
        for place in _above(held["namespace"]):
            rows.setdefault(("namespace", place), []).append(entry)
    return rows


def names_at_most_one_field(wanted: Filter) -> bool:
    """Return True if a filter has at most one scope field and nothing else, so that all candidates match."""
    named = metadata_conditions(wanted.metadata)
    return len(named) <= 1 and wanted.conditions == named and all(type(each) in (InScope, Below) for each in named)


def passing(entries: Iterable[Entry], wanted: Filter) -> Iterator[Entry]:
    """Yield the entries whose item matches."""
    # Neighbours mostly share their metadata, of which it is asked only once then.
    only_shown, tests, owner = wanted.archived is False, wanted.tests, None
    for entry in entries:
        item = entry[2]
        held = item.__dict__
        if only_shown and held["archived_by"] is not None:
            continue
        if held["metadata"] is not owner:
            if not metadata_matches(wanted.metadata, held["metadata"]):
                continue
            owner = held["metadata"]
        for passes in tests:
            if not passes(item):
                break
        else:
            yield entry


def matching(entries: Iterable[Entry], wanted: Filter) -> list[Entry]:
    """Return the entries whose item matches."""
    return list(passing(entries, wanted))


def differing(one: Sequence[Entry], other: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """Return the entries that only the first row has, and those that only the second has, in order."""
    if len(one) <= len(other) and all(map(is_, one, other)):  # Mostly nothing has changed, or something was added.
        return [], list(islice(other, len(one), None))
    start = _alike(one, other)
    was, now = one[start:], other[start:]
    end = _alike(was[::-1], now[::-1])
    was, now = was[: len(was) - end], now[: len(now) - end]
    known, there = set(map(id, was)), set(map(id, now))
    return [each for each in was if id(each) not in there], [each for each in now if id(each) not in known]


def _alike(one: Sequence[Entry], other: Sequence[Entry]) -> int:
    """Return the number of equal entries at the beginning of both."""
    start, most = 0, min(len(one), len(other))
    while start < most and all(map(is_, one[start : start + _COMPARED], other[start : start + _COMPARED])):
        start += _COMPARED
    while start < most and one[start] is other[start]:
        start += 1
    return min(start, most)


def _above(namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return a place and all places above it, without the root."""
    return [namespace[:depth] for depth in range(1, len(namespace) + 1)]


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
