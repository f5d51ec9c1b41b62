"""The in-memory store: the reference for the conformance kit, indexed by every field of a scope."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Hashable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import count, islice
from operator import attrgetter, is_
from typing import NamedTuple

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata, Payload, PayloadChanges
from memoranda.loops import guarded
from memoranda.offloading import (
    AT_ONCE,
    CHANGED_AT_ONCE,
    LETTERS_SIFTED_AT_ONCE,
    SIFTED_AT_ONCE,
    filter_weight,
    in_slices,
    offload,
    ranking_weight,
)
from memoranda.store.base import BaseStore
from memoranda.store.codec import copy_item, stored_copy
from memoranda.store.conditions import Archived, Below, Expiry, InBranch, InScope
from memoranda.store.engine import one_thread_at_a_time
from memoranda.store.entry_index import (
    BY,
    Change,
    Entry,
    EntryIndex,
    EntryList,
    differing,
    matching,
    names_at_most_one_field,
    passing,
)
from memoranda.store.filters import Filter, Order, Page, metadata_matches
from memoranda.store.lifetimes import with_lifetime
from memoranda.store.protocol import BASE_CAPABILITIES, Capability, SearchMode
from memoranda.store.ranked import RankedItem, Ranker, ScopeIndex
from memoranda.store.values import Value
from memoranda.store.window import ONLY_STAYING
from memoranda.store.writes import Write, check_expected, kept, successor
from memoranda.urls import take_options

_ATTEMPTS = 3
"""How often a large batch is made ready aside; where others have changed its items each time, it is done at once."""

_ROOM = 1 << 40
"""How many numbers in the order of adding are left to others while a batch is made ready."""

_MOST_RANKINGS = 128
"""How many scopes keep their ranker's index between two searches."""

_REST_OF_A_RESULT = attrgetter(*(field.name for field in fields(RankedItem)[1:]))
"""All but the item, which is copied. A third of the time of dataclasses.replace()."""


@one_thread_at_a_time
class InMemoryStore(BaseStore):
    """A store that lives as long as the process; ``memory://``.

    Items are copied in and out. Each add and update is stored in one step, so it is atomic; a large batch is made ready
    before that, while others go on. What reads many items sees them as they were when it began, and lets others go on
    meanwhile; ``clear``, ``restore`` and ``purge`` take hundreds at a time, oldest first, and leave what is added
    meanwhile. Ready for use as soon as it is made.
    """

    capabilities = BASE_CAPABILITIES | {
        Capability.ATOMIC,
        Capability.DELETE,
        Capability.ADD_DELETED,
        Capability.PURGE,
        Capability.TTL,
        Capability.FORK,
    }
    needs_init = False

    def __init__(self) -> None:
        super().__init__()
        self._live = EntryIndex()
        self._hidden = EntryIndex()
        self._added = 0
        self._rankings: dict[Hashable, ScopeIndex] = {}
        """What rankings keep of large scopes. It is dropped with each purge, which leaves nothing in memory."""

    @classmethod
    def from_url(cls, url: str) -> InMemoryStore:
        """Return a new, empty store for ``memory://``; the URL has no options."""
        rest, _ = take_options(url, {})
        if rest.partition(":")[2].strip("/"):
            raise InputError("The in-memory store has no name: its URL is 'memory://'.", field="url")
        return cls()

    def __len__(self) -> int:
        return len(self._live)

    def __bool__(self) -> bool:
        return True  # An empty store is still a store.

    @guarded
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        with self._turn:
            item_id = item.id
            held = self._live.get(item_id) or self._hidden.get(item_id)
            if held is None:
                metadata, lists = self._live.owner(item.metadata)
                self._put_new(stored_copy(item, 1, metadata), lists)
            else:
                self._put(successor(held.item, item, within))

    async def _apply(self, write: Write) -> int:
        return (await self._carried_out(write)).removed

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        if len(items) > 1:
            batch = await self._carried_out(Write(items, within), compared=True)
            return await offload(len(items), _item_copies, batch.items)
        live = self._live.get(items[0].id)
        check_expected(items[0], live.item if live else None, within)
        updated = successor(self._stored(items[0].id), items[0], within)
        self._put(updated)
        return [copy_item(updated)]

    async def _carried_out(self, write: Write, *, compared: bool = False) -> _Batch:
        """Write a batch, which is made ready aside if it is large; others may write meanwhile.

        With ``compared``, the version of each item must be the one that is held.
        """
        ids = [*(item.id for item in write.adds), *write.deletes]
        if len(ids) > AT_ONCE >= len(write.adds):
            write = replace(write, adds=_item_copies(write.adds))  # A few of them are still the caller's own.
        left = _ATTEMPTS
        while True:
            self._check_turn(write)  # A turn that comes too late is the first thing to report.
            weight, left = len(ids) if left else 0, left - 1
            seen, first = self._seen(ids), self._added + (_ROOM if weight > AT_ONCE else 1)
            batch = await offload(weight, self._batch, write, seen, first, compared)
            # Nothing can come in between from here on.
            if weight <= AT_ONCE or (self._added < first and all(map(is_, self._seen(ids), seen))):
                break
        self._check_turn(write)
        for index, change in ((self._live, batch.live), (self._hidden, batch.hidden)):
            if change.gone or change.come:
                index.carry_out(change)
        if batch.last >= first:
            self._added = batch.last
        if write.purge and batch.removed:
            self._rankings.clear()
        return batch

    def _check_turn(self, write: Write) -> None:
        if write.expected is not None:
            newest = self._page(write.expected.conversation, Page(1, order="added"))
            write.expected.check(newest[0].item.id if newest else None)

    def _batch(self, write: Write, seen: Sequence[Entry | None], first: int, compared: bool) -> _Batch:
        """Return what a batch comes to; ``seen`` are the entries of its ids, and new ones are numbered from ``first``.

        Raises the conflicts that it meets.
        """
        ids = [*(item.id for item in write.adds), *write.deletes]
        live, hidden = dict(zip(ids, seen, strict=False)), dict(zip(ids, seen[len(ids) :], strict=True))
        held = {item_id: entry for item_id in ids if (entry := live[item_id] or hidden[item_id]) is not None}
        for item in write.adds if compared else ():
            check_expected(item, entry.item if (entry := live[item.id]) else None, write.within)
        stored = {item_id: entry.item for item_id, entry in held.items()}
        items = {item.id: item for item in kept(write, stored.get)}
        numbers = count(first)
        come: list[Entry] = []
        come_hidden: list[Entry] = []
        for item in items.values():
            number = held[item.id].added if item.id in held else next(numbers)
            (come_hidden if item.id in write.hidden else come).append(Entry(item.created_at, number, item, []))
        removed = _deleted(write, live)
        come_hidden += [] if write.purge else removed
        purged = _deleted(write, hidden) if write.purge else []
        gone = [entry for item_id in items if (entry := live[item_id]) is not None]
        gone_hidden = [entry for item_id in items if (entry := hidden[item_id]) is not None]
        return _Batch(
            self._live.planned(gone + removed, come),
            self._hidden.planned(gone_hidden + purged, come_hidden),
            list(items.values()),
            next(numbers) - 1,
            len(removed) + len(purged),
        )

    def _seen(self, ids: Sequence[str]) -> list[Entry | None]:
        """Return the entries of the ids, those that are shown and then those that are hidden."""
        return [*map(self._live.get, ids), *map(self._hidden.get, ids)]

    @guarded  # One look into a dict, at an item that is never changed.
    async def _get(self, item_id: str) -> MemoryItem | None:
        entry = self._live.get(item_id)
        return None if entry is None else copy_item(entry.item)

    async def _get_many(self, ids: Sequence[str]) -> list[MemoryItem]:
        entries = [entry for item_id in ids if (entry := self._live.get(item_id)) is not None]
        return await offload(len(entries), _copies, entries)

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        entries, wanted = self._looked_at(self._live, await self._with_past(wanted))
        as_added = page.order == "added" and isinstance(entries, EntryList) and entries.as_added
        if page.order != "created" and not as_added:
            return await offload(filter_weight(len(entries)), _sorted_copies, entries.copy(), wanted, page)
        limit, at_once = page.end, _sifted_at_once(entries, wanted)
        found = _newest(islice(reversed(entries), at_once), wanted, limit)
        older = entries[: len(entries) - at_once] if len(found) < limit else []
        if older:
            found += await offload(AT_ONCE + 1, _newest, older[::-1], wanted, limit - len(found))
        return await offload(len(found), _copies, found[page.offset :])

    async def _payloads(self, wanted: Filter, page: Page) -> list[Payload]:
        entries, rest = self._looked_at(self._live, await self._with_past(wanted))
        found = await offload(filter_weight(len(entries)), matching, entries.copy(), rest)
        return [Payload.of(entry.item) for entry in _sorted(found, page)]

    async def _payload_changes(self, wanted: Filter, since: object) -> PayloadChanges:
        asked = replace(wanted, further=tuple(each for each in wanted.further if not isinstance(each, Expiry)))
        if self._lifetimes.is_due(self.clock) or await self._with_past(wanted) is not wanted:
            return await super()._payload_changes(wanted, None)
        row = self._live.candidates(wanted.metadata).copy()
        known = since.row if isinstance(since, _SeenPayloads) and since.asked == asked else None
        return await offload(filter_weight(len(row)), _payload_changes, asked, known, row)

    def _page(self, wanted: Filter, page: Page) -> list[Entry]:
        return _sorted(matching(self._live.candidates(wanted.metadata), wanted), page)

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        entries, wanted = self._looked_at(self._live, await self._with_past(wanted))
        row = entries.copy()
        ranker = await self._text_ranker()
        index = self._index_of(wanted.scope(), ranker) if isinstance(entries, EntryList) else ranker.index()
        weight = ranking_weight(len(row), (entry.item.content for entry in row if not entry.terms))
        return await offload(weight, _ranked, query, row, wanted, limit, index)

    def _index_of(self, scope: Filter, ranker: Ranker) -> ScopeIndex:
        """Return the index of a scope: a new one unless the scope depends on the names of its owners alone.

        It depends on time as well until expired items are swept.
        """
        by_name = all(type(each) in (InScope, Below, Archived, Expiry, Value) for each in scope.conditions)
        if not by_name or self._lifetimes.is_due(self.clock):
            return ranker.index()
        key = tuple(each for each in scope.conditions if not isinstance(each, Expiry))
        index = self._rankings.pop(key) if key in self._rankings else ranker.index()
        self._rankings[key] = index  # Last, since it was just used.
        if len(self._rankings) > _MOST_RANKINGS:
            del self._rankings[next(iter(self._rankings))]
        return index

    async def _clear(self, wanted: Filter) -> int:
        return await self._move(await self._chosen(self._live, None, wanted), self._live, self._hidden)

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        indexes = (self._live, self._hidden) if include_deleted else (self._live,)
        wanted = await self._with_past(wanted)
        if names_at_most_one_field(wanted):
            return sum(len(index.candidates(wanted.metadata)) for index in indexes)
        counted = 0
        for entries, rest in [self._looked_at(index, wanted) for index in indexes]:
            counted += len(await offload(filter_weight(len(entries)), matching, entries.copy(), rest))
        return counted

    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        branched = await self._with_past(wanted)
        found, wanted = self._looked_at(self._live, branched)
        entries = found.copy()
        if include_deleted:
            entries = sorted(entries + self._looked_at(self._hidden, branched)[0])
        if order != "created":
            entries.sort(key=BY[order])
        async for some in in_slices(entries, AT_ONCE):
            for entry in some:
                if wanted.matches(entry.item):
                    yield copy_item(entry.item)

    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        entry = self._live.get(item_id)
        if entry is None or not metadata_matches(within, entry.item.metadata):
            return False
        self._live.take([entry])
        self._hidden.put(entry)
        return True

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        return await self._move(await self._chosen(self._hidden, item_id, wanted), self._hidden, self._live)

    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        indexes = (self._hidden,) if deleted_only else (self._hidden, self._live)
        purged = 0
        # All are taken note of now; what is deleted or restored meanwhile is found in the index where it is then.
        candidates = [self._candidates(index, item_id, wanted) for index in indexes]
        for entries in candidates:
            chosen = await offload(filter_weight(len(entries)), matching, entries, wanted)
            async for some in in_slices(chosen, CHANGED_AT_ONCE):
                purged += sum(len(_take(index, some)) for index in indexes)
        if purged:
            self._rankings.clear()
        return purged

    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        newest = self._page(wanted, Page(1, order="added"))
        if not newest:
            return None
        self._live.take(newest)
        if purge:
            self._rankings.clear()
        else:
            self._hidden.put(newest[0])
        return copy_item(newest[0].item)

    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        touched = 0
        for item_id in ids:
            entry = self._live.get(item_id)
            if entry is None or not metadata_matches(within, entry.item.metadata):
                continue
            item, life = entry.item, entry.item.ttl if ttl is None else ttl
            if life is None or (item.expires_at is not None and item.expires_at <= now):
                continue
            self._put(with_lifetime(item, life, now))
            touched += 1
        return touched

    async def _soonest_expiry(self) -> str | None:
        entries = [*self._live.candidates(None), *self._hidden.candidates(None)]
        return await offload(filter_weight(len(entries)), _soonest, entries)

    async def _place(self, item_id: str) -> int | None:
        entry = self._live.get(item_id) or self._hidden.get(item_id)
        return None if entry is None else entry.added

    def _looked_at(self, index: EntryIndex, wanted: Filter) -> tuple[list[Entry], Filter]:
        """Return the entries of an index that may match, oldest first, and what is still to be asked of them.

        The list may be the index's own.
        """
        branch = wanted.further[-1] if wanted.further else None
        if not isinstance(branch, InBranch):
            row = index.candidates(wanted.metadata)
            return (row.staying if branch == ONLY_STAYING else row), wanted
        found = []
        for session, bound in ((branch.session, None), *branch.pasts):
            for entry in index.candidates(MemoryMetadata(session_id=session)):
                if bound is not None and (entry.added > bound or not branch.shares(entry.item)):
                    continue
                if branch.archived is None or self._is_archived(entry, bound) is branch.archived:
                    found.append(entry)
        return sorted(found), replace(wanted, further=wanted.further[:-1])

    def _is_archived(self, entry: Entry, bound: int | None) -> bool:
        """Return True if a summary stands for an item, one of the same past if it is part of one."""
        if entry.item.archived_by is None or bound is None:
            return entry.item.archived_by is not None
        summary = self._live.get(entry.item.archived_by)
        return summary is not None and summary.added <= bound

    async def _chosen(self, index: EntryIndex, item_id: str | None, wanted: Filter) -> list[Entry]:
        """Return the entries of an index that match, oldest first: all, or the one of an id."""
        entries = self._candidates(index, item_id, wanted)
        return await offload(filter_weight(len(entries)), matching, entries, wanted)

    def _candidates(self, index: EntryIndex, item_id: str | None, wanted: Filter) -> list[Entry]:
        """Return the entries of an index that may match, oldest first, as they are now."""
        if item_id is None:
            return index.candidates(wanted.metadata).copy()
        entry = index.get(item_id)
        return [] if entry is None else [entry]

    async def _move(self, chosen: Sequence[Entry], source: EntryIndex, target: EntryIndex) -> int:
        """Take entries from one index to the other and return how many were still there."""
        moved = 0
        async for some in in_slices(chosen, CHANGED_AT_ONCE):
            for entry in _take(source, some):
                target.put(entry)
                moved += 1
        return moved

    def _stored(self, item_id: str) -> MemoryItem | None:
        """Return what is held under the id, hidden or not."""
        entry = self._live.get(item_id) or self._hidden.get(item_id)
        return None if entry is None else entry.item

    def _put(self, item: MemoryItem) -> None:
        """Keep the item instead of the one with its id."""
        for index in (self._live, self._hidden):
            held = index.get(item.id)
            if held is not None:
                entry = Entry(item.created_at, held.added, item, [])
                if index is self._hidden or not index.replace(held, entry):
                    index.take([held])
                    self._live.put(entry)
                return
        self._put_new(item)

    def _put_new(self, item: MemoryItem, lists: Sequence[EntryList] | None = None) -> None:
        """Keep an item whose id is not held; ``lists`` are those of its owner, if they are known."""
        self._added += 1
        self._live.put(Entry(item.created_at, self._added, item, []), lists)


class _SeenPayloads(NamedTuple):
    """What payloads were asked for, and the entries among which they were looked for."""

    asked: Filter
    row: list[Entry]


def _payload_changes(asked: Filter, known: list[Entry] | None, row: list[Entry]) -> PayloadChanges:
    """Return what has changed since a row was the known one. An entry is another one after every change."""
    gone, come = (known, row) if known is None else differing(known, row)
    rows = {entry.added: Payload.of(entry.item) for entry in _sorted(matching(come, asked), Page(order="added"))[::-1]}
    state = _SeenPayloads(asked, row)
    return PayloadChanges(state, rows, None if gone is None else [entry.added for entry in gone])


class _Batch(NamedTuple):
    """A batch that is ready to be written: what it changes, its items, the last number and how many it removes."""

    live: Change
    hidden: Change
    items: list[MemoryItem]
    last: int
    removed: int


def _deleted(write: Write, held: Mapping[str, Entry | None]) -> list[Entry]:
    """Return what a batch deletes of the entries that are held under its ids."""
    there = [entry for item_id in write.deletes if (entry := held[item_id]) is not None]
    return [entry for entry in there if metadata_matches(write.within, entry.item.metadata)]


def _take(index: EntryIndex, entries: Iterable[Entry]) -> list[Entry]:
    """Take those of the entries, which are in order, that are still in the index, and return them."""
    there = [entry for entry in entries if index.get(entry.item.id) is entry]
    index.take(there)
    return there


def _sifted_at_once(entries: Sequence[Entry], wanted: Filter) -> int:
    """Return how many of the newest entries may be asked in one turn; where texts are searched, long ones count."""
    most = min(len(entries), SIFTED_AT_ONCE)
    if wanted.folded:
        letters = 0
        for position, entry in enumerate(islice(reversed(entries), most)):
            letters += len(entry.item.content)
            if letters > LETTERS_SIFTED_AT_ONCE:
                return position
    return most


def _newest(entries: Iterable[Entry], wanted: Filter, limit: int) -> list[Entry]:
    """Return the first entries that match."""
    return list(islice(passing(entries, wanted), limit))


def _soonest(entries: Iterable[Entry]) -> str | None:
    return min((ends for entry in entries if (ends := entry.item.expires_at) is not None), default=None)


def _item_copies(items: Iterable[MemoryItem]) -> list[MemoryItem]:
    return [copy_item(item) for item in items]


def _copies(entries: Iterable[Entry]) -> list[MemoryItem]:
    return [copy_item(entry.item) for entry in entries]


def _sorted(entries: Iterable[Entry], page: Page) -> list[Entry]:
    """Return a page of entries, newest first."""
    if page.limit == 1 and not page.offset:
        newest = max(entries, key=BY[page.order], default=None)
        return [] if newest is None else [newest]
    return sorted(entries, key=BY[page.order], reverse=True)[page.offset : page.end]


def _sorted_copies(entries: Iterable[Entry], wanted: Filter, page: Page) -> list[MemoryItem]:
    return _copies(_sorted(matching(entries, wanted), page))


def _ranked(query: str, row: Sequence[Entry], wanted: Filter, limit: int, index: ScopeIndex) -> list[RankedItem]:
    """Rank what a scope held, oldest first, as the base class does it; but only what is found needs to be copied."""
    scope = wanted.scope()
    # What belongs to the scope is asked only for the rest.
    chosen = None if scope == wanted else wanted.sought()
    ranked = index.rank(query, row, belongs=scope.matches, wanted=chosen, limit=limit)
    return [RankedItem(copy_item(found.item), *_REST_OF_A_RESULT(found)) for found in ranked]
