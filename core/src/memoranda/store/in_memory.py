"""The in-memory store: the reference for the conformance kit, indexed by every field of a scope."""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_left
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain, count, filterfalse, islice
from operator import attrgetter, is_
from typing import Any, NamedTuple, TypeVar

from memoranda.errors import InputError
from memoranda.items import Changes, MemoryItem, MemoryMetadata, Payload
from memoranda.loops import (
    ITEMS_CHANGED_PER_TURN,
    ITEMS_FILTERED_PER_TURN,
    ITEMS_PER_TURN,
    LETTERS_SEARCHED_PER_TURN,
    filter_weight,
    in_slices,
    offload,
    ranking_weight,
    uninterrupted,
)
from memoranda.store.base import Store
from memoranda.store.codec import copy_item, copy_items, stored_copy
from memoranda.store.conditions import Archived, Below, Condition, Created, Expiry, InBranch, InScope, OfUsers
from memoranda.store.engine import Engine, Opened, Opening
from memoranda.store.entry_index import (
    BY,
    Entry,
    EntryIndex,
    EntryList,
    IndexChange,
    differing,
    matching,
    names_at_most_one_field,
    passing,
)
from memoranda.store.filters import Filter, Page, metadata_matches
from memoranda.store.lifetimes import with_lifetime
from memoranda.store.owners import Listing, Owner
from memoranda.store.protocol import BASE_CAPABILITIES, Capability
from memoranda.store.ranked import RankedItem, Ranker, ScopeIndex, ScopeToRank, best_of_all
from memoranda.store.requests import (
    AS_ADDED,
    NOTHING_CHANGED,
    Change,
    Form,
    Query,
    Write,
    Written,
    check_expected,
    next_versions,
    successor,
)
from memoranda.store.values import Value
from memoranda.store.window import ONLY_STAYING
from memoranda.urls import take_options
from memoranda.windowing import stays

T = TypeVar("T")

_ATTEMPTS = 3
"""How often a large batch is made ready aside; where others have changed its items each time, it is done at once."""

_ROOM = 1 << 40
"""How many numbers in the order of adding are left to others while a batch is made ready."""

_MOST_RANKINGS = 128
"""How many scopes keep their ranker's index between two searches."""

_MOST_RANKINGS_BY_TIME = 8
"""How many of these are of scopes that end at a time."""

_TOLD_BY_AN_ENTRY = (InScope, Below, Archived, Created, Expiry, OfUsers, Value)
"""The conditions of scopes whose index is kept."""

_TERMS = attrgetter("terms")
_REST_OF_A_RESULT = attrgetter(*(field.name for field in fields(RankedItem)[1:]))
"""All but the item, which is copied. A third of the time of dataclasses.replace()."""


class InMemoryEngine(Engine):
    """Keeps items in indexes, as long as it lasts. ``ranker`` gives what ranks text."""

    capabilities = BASE_CAPABILITIES | {
        Capability.ATOMIC,
        Capability.DELETE,
        Capability.ADD_DELETED,
        Capability.PURGE,
        Capability.TTL,
        Capability.FORK,
    }

    shares_items = True
    reads_staying = True
    ranks_together = True

    def __init__(self, ranker: Callable[[], Awaitable[Ranker]]) -> None:
        self._ranker = ranker
        self._live = EntryIndex()
        self._hidden = EntryIndex()
        self._added = 0
        self._may_expire = False
        self._mark: str | None = None
        self._rankings: dict[tuple[Condition, ...], ScopeIndex] = {}
        """What rankings keep of large scopes. It is dropped with each purge, which leaves nothing in memory."""
        # Held by the thread whose step it is: see uninterrupted().
        self._turn = threading.RLock()

    def __len__(self) -> int:
        return len(self._live)

    async def open(self, opening: Opening) -> Opened:
        """Return what the engine holds. There is nothing to open."""
        return Opened(self._mark, await self._next_expiry())

    # Writing

    async def write(self, write: Write) -> Written:
        """Carry out a write: one item in one step, a large batch after preparing it while other calls go on."""
        if write.change is not None:
            return await self._changed(write.change)
        if write.now and self._may_expire:
            self._remove_expired(write)
        if len(write.adds) == 1 and write.is_plain:
            self._put_one(write.adds[0], write.within)
            return NOTHING_CHANGED
        batch = await self._carried_out(write)
        if not write.compared:
            return Written(batch.removed)
        return Written(0, await offload(len(batch.items), copy_items, batch.items))

    def _remove_expired(self, write: Write) -> None:
        """Remove the items that hold an id of the write and have expired."""
        with self._turn:
            for index in (self._live, self._hidden):
                held = [entry for item_id in set(write.ids) if (entry := index.get(item_id)) is not None]
                expired = [entry for entry in held if (ends := entry.item.expires_at) and ends <= write.now]
                if expired:
                    index.take(sorted(expired))
                    self._rankings.clear()

    def _put_one(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        with self._turn:
            item_id = item.id
            held = self._live.get(item_id) or self._hidden.get(item_id)
            if held is None:
                metadata, lists = self._live.owner(item.metadata)
                self._put_new(stored_copy(item, 1, metadata), lists)
            else:
                self._put(successor(held.item, item, within))

    @uninterrupted
    async def _carried_out(self, write: Write) -> _Batch:
        """Write a batch. A large one is prepared in a thread while others may write."""
        ids = [*(item.id for item in write.adds), *write.deletes]
        if len(ids) > ITEMS_PER_TURN >= len(write.adds):
            write = write.but(adds=copy_items(write.adds))  # A few of them are still the caller's own.
        left = _ATTEMPTS
        while True:
            self._check_turn(write)  # A turn that comes too late is the first thing to report.
            weight, left = len(ids) if left else 0, left - 1
            seen, first = self._seen(ids), self._added + (_ROOM if weight > ITEMS_PER_TURN else 1)
            batch = await offload(weight, self._batch, write, seen, first)
            # Nothing can come in between from here on.
            if weight <= ITEMS_PER_TURN or (self._added < first and all(map(is_, self._seen(ids), seen))):
                break
        self._check_turn(write)
        for index, change in ((self._live, batch.live), (self._hidden, batch.hidden)):
            if change.gone or change.come:
                index.carry_out(change)
        if batch.last >= first:
            self._added = batch.last
        if write.purge and batch.removed:
            self._rankings.clear()
        self._may_expire = self._may_expire or any(item.expires_at for item in batch.items)
        return batch

    def _check_turn(self, write: Write) -> None:
        if write.expected is not None:
            newest = self._page(write.expected.conversation, Page(1, order="added"))
            write.expected.check(newest[0].item.id if newest else None)

    def _batch(self, write: Write, seen: Sequence[Entry | None], first: int) -> _Batch:
        """Prepare a batch; ``seen`` are the entries of its ids, and new ones are numbered from ``first``.

        Raises the conflicts that it meets.
        """
        ids = [*(item.id for item in write.adds), *write.deletes]
        live, hidden = dict(zip(ids, seen, strict=False)), dict(zip(ids, seen[len(ids) :], strict=True))
        held = {item_id: entry for item_id in ids if (entry := live[item_id] or hidden[item_id]) is not None}
        for item in write.adds if write.compared else ():
            check_expected(item, entry.item if (entry := live[item.id]) else None, write.within)
        stored = {item_id: entry.item for item_id, entry in held.items()}
        items = {item.id: item for item in next_versions(write, stored.get)}
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
        """Return the entries of the ids, shown ones before hidden ones."""
        return [*map(self._live.get, ids), *map(self._hidden.get, ids)]

    # Reading

    async def read(self, query: Query[T]) -> list[T]:
        """Return what a query asks for, as it was when the read began."""
        found: Any
        ids = query.ids
        if ids is not None:
            if len(ids) == 1 and query.form == "items":
                entry = self._live.get(ids[0])  # One look into a dict, at an entry that is never changed.
                found = [] if entry is None else [copy_item(entry.item)]
            else:
                found = await self._of_ids(ids, query.form)
        elif query.ranking is not None:
            found = await self._rank(query, query.ranking.text)
        elif query.form == "payloads":
            found = await self._payloads(query.wanted, query.page)
        else:
            found = await self._search(query)
        return found  # type: ignore[no-any-return]  # The form of the query says what it is.

    async def _of_ids(self, ids: Sequence[str], form: Form) -> list[Any]:
        if form == "places":
            places = [self._live.get(item_id) or self._hidden.get(item_id) for item_id in ids]
            return [entry.added for entry in places if entry is not None]
        entries = [entry for item_id in ids if (entry := self._live.get(item_id)) is not None]
        return await offload(len(entries), _copies, entries)

    async def _search(self, query: Query[Any]) -> list[MemoryItem]:
        page = query.page
        limit = page.end
        found: list[Entry] = []
        staying: list[Entry] = []
        with self._turn:  # Only for the look at the index: entries are never changed.
            entries, wanted = self._looked_at(self._live, query.wanted)
            as_added = page.order == "added" and isinstance(entries, EntryList) and entries.as_added
            is_sorted = as_added or page.order == "created"
            if is_sorted:
                at_once = _sifted_at_once(entries, wanted)
                found = _newest(islice(reversed(entries), at_once), wanted, limit)
                older = entries[: len(entries) - at_once] if len(found) < limit else []
                if query.staying and isinstance(entries, EntryList):
                    staying = entries.staying.copy()
            else:
                older = entries.copy()
        if is_sorted:
            if older:
                found += await offload(ITEMS_PER_TURN + 1, _newest, older[::-1], wanted, limit - len(found))
            found = found[page.offset :]
            if staying and len(found) == page.limit:
                found += await offload(filter_weight(len(staying)), _matching_before, found[-1], staying, wanted)
        else:
            found = await offload(filter_weight(len(older)), _sorted_matching, older, query, wanted)
        if query.shared:
            return [entry[2] for entry in found]
        return await offload(len(found), _copies, found)

    @uninterrupted
    async def _payloads(self, wanted: Filter, page: Page) -> list[Payload]:
        entries, rest = self._looked_at(self._live, wanted)
        found = await offload(filter_weight(len(entries)), matching, entries.copy(), rest)
        return [Payload.of(entry.item) for entry in _sorted(found, page)]

    @uninterrupted
    async def changes(self, query: Query[T], since: object) -> Changes[T]:
        """Return how items or payloads differ from what they were at an earlier call."""
        wanted = query.wanted
        if any(isinstance(each, InBranch) for each in wanted.further) or (
            self._may_expire and self._has_expired(wanted)
        ):
            return await Engine.changes(self, query, None)
        asked, _ = wanted.timeless()
        row = self._live.candidates(wanted.metadata).copy()
        known = since.row if isinstance(since, _Seen) and since.asked == asked else None
        shown: Callable[[MemoryItem], Any] = Payload.of if query.form == "payloads" else copy_item
        return await offload(filter_weight(len(row)), _changes, asked, known, row, shown)

    def _page(self, wanted: Filter, page: Page) -> list[Entry]:
        return _sorted(matching(self._live.candidates(wanted.metadata), wanted), page)

    @uninterrupted
    async def _rank(self, query: Query[Any], text: str) -> list[RankedItem]:
        ranker = await self._ranker()
        scopes = [self._to_rank(wanted, ranker) for wanted in (query.wanted, *query.beside)]
        rows = chain.from_iterable([scope.entries for scope in scopes])
        weight = ranking_weight(
            sum([len(scope.entries) for scope in scopes]), (entry.item.content for entry in filterfalse(_TERMS, rows))
        )
        return await offload(weight, _ranked, ranker, text, scopes, query.page.limit, query.shared)

    def _to_rank(self, wanted: Filter, ranker: Ranker) -> ScopeToRank:
        entries, wanted = self._looked_at(self._live, wanted)
        scope = wanted.scope()
        index = self._index_of(scope, ranker) if isinstance(entries, EntryList) else ranker.index()
        # What belongs to the scope is asked only for the rest.
        chosen = None if scope == wanted else wanted.sought()
        return ScopeToRank(index, entries.copy(), scope.matches, chosen)

    def _index_of(self, scope: Filter, ranker: Ranker) -> ScopeIndex:
        """Return the index of a scope: a new one unless an entry alone tells whether it is in the scope.

        Where items may expire, that depends on time as well.
        """
        is_known = all(type(each) in _TOLD_BY_AN_ENTRY for each in scope.conditions)
        if not is_known or (self._may_expire and self._has_expired(scope)):
            return ranker.index()
        key = tuple(each for each in scope.conditions if not isinstance(each, Expiry))
        index = self._rankings.pop(key) if key in self._rankings else ranker.index()
        self._rankings[key] = index  # Last, since it was just used.
        if _ends_at_a_time(key):  # A prompt recalls what came before its conversation, whose beginning moves on.
            bounded = list(filter(_ends_at_a_time, self._rankings))
            if len(bounded) > _MOST_RANKINGS_BY_TIME:
                del self._rankings[bounded[0]]
        if len(self._rankings) > _MOST_RANKINGS:
            del self._rankings[next(iter(self._rankings))]
        return index

    def _has_expired(self, scope: Filter) -> bool:
        """Return True if items of the scope have expired that were not swept yet."""
        now = next((each.now for each in scope.conditions if isinstance(each, Expiry)), "")
        entries = self._live.candidates(scope.metadata)
        return any(entry.item.expires_at and entry.item.expires_at <= now for entry in entries)

    @uninterrupted
    async def count(self, query: Query[MemoryItem]) -> int:
        """Return how many items match."""
        wanted = query.wanted
        indexes = (self._live, self._hidden) if query.deleted else (self._live,)
        if names_at_most_one_field(wanted):
            return sum(len(index.candidates(wanted.metadata)) for index in indexes)
        counted = 0
        for entries, rest in [self._looked_at(index, wanted) for index in indexes]:
            counted += len(await offload(filter_weight(len(entries)), matching, entries.copy(), rest))
        return counted

    @uninterrupted
    async def stream(self, query: Query[MemoryItem]) -> AsyncGenerator[MemoryItem, None]:
        """Yield all items that match, oldest first, as they were when the read began."""
        found, wanted = self._looked_at(self._live, query.wanted)
        entries = found.copy()
        if query.deleted:
            entries = sorted(entries + self._looked_at(self._hidden, query.wanted)[0])
        if query.page.order != "created":
            entries.sort(key=BY[query.page.order])
        async for some in in_slices(entries, ITEMS_PER_TURN):
            for entry in some:
                if wanted.matches(entry.item):
                    yield copy_item(entry.item)

    async def owners(self, listing: Listing, query: Query[MemoryItem]) -> AsyncGenerator[Owner, None]:
        """Yield the owners of the items that match, in order."""
        items = await self._search(query)
        for owner in await offload(len(items), listing.of, items):
            yield owner

    # Changing what is stored

    async def _changed(self, change: Change) -> Written:
        wanted, ids = change.wanted, change.ids
        match change.action:
            case "delete":
                return Written(await self._move(ids, wanted, self._live, self._hidden))
            case "restore":
                return Written(await self._move(ids, wanted, self._hidden, self._live))
            case "touch":
                return Written(await self._touch(ids or (), change))
            case "pop":
                popped: Written = await self._pop(wanted, change.purge)
                return popped
            case "mark":
                self._mark = change.text
                return NOTHING_CHANGED
        purged = await self._purge(ids, wanted, change.deleted_only)
        return Written(purged, next_expiry=await self._next_expiry() if change.action == "sweep" else None)

    @uninterrupted
    async def _purge(self, ids: Sequence[str] | None, wanted: Filter, deleted_only: bool) -> int:
        indexes = (self._hidden,) if deleted_only else (self._hidden, self._live)
        purged = 0
        # All are taken note of now; what is deleted or restored meanwhile is found in the index where it is then.
        candidates = [self._candidates(index, ids, wanted) for index in indexes]
        for entries in candidates:
            chosen = await offload(filter_weight(len(entries)), matching, entries, wanted)
            async for some in in_slices(chosen, ITEMS_CHANGED_PER_TURN):
                purged += sum(len(_take(index, some)) for index in indexes)
        if purged:
            self._rankings.clear()
        return purged

    @uninterrupted
    async def _pop(self, wanted: Filter, purge: bool) -> Written:
        newest = self._page(wanted, Page(1, order="added"))
        if not newest:
            return NOTHING_CHANGED
        self._live.take(newest)
        if purge:
            self._rankings.clear()
        else:
            self._hidden.put(newest[0])
        return Written(1, [copy_item(newest[0].item)])

    @uninterrupted
    async def _touch(self, ids: Sequence[str], change: Change) -> int:
        touched, within = 0, change.wanted.metadata
        for item_id in ids:
            entry = self._live.get(item_id)
            if entry is None or not metadata_matches(within, entry.item.metadata):
                continue
            item, life = entry.item, entry.item.ttl if change.ttl is None else change.ttl
            if life is None or (item.expires_at is not None and item.expires_at <= change.now):
                continue
            self._put(with_lifetime(item, life, change.now))
            touched += 1
        return touched

    @uninterrupted
    async def _move(self, ids: Sequence[str] | None, wanted: Filter, source: EntryIndex, target: EntryIndex) -> int:
        """Take entries that match from one index to the other and return how many were still there."""
        moved, entries = 0, self._candidates(source, ids, wanted)
        chosen = await offload(filter_weight(len(entries)), matching, entries, wanted)
        async for some in in_slices(chosen, ITEMS_CHANGED_PER_TURN):
            for entry in _take(source, some):
                target.put(entry)
                moved += 1
        return moved

    async def _next_expiry(self) -> str | None:
        """Return when the next item expires, hidden ones too; None if none ever does."""
        entries = [*self._live.candidates(None), *self._hidden.candidates(None)] if self._may_expire else []
        return await offload(filter_weight(len(entries)), _soonest, entries)

    def _looked_at(self, index: EntryIndex, wanted: Filter) -> tuple[list[Entry], Filter]:
        """Return the entries of an index that may match, oldest first, and the conditions still to check.

        The list may be the index's own.
        """
        branch = wanted.further[-1] if wanted.further else None
        if type(branch) is not InBranch:
            row = index.candidates(wanted.metadata)
            return (row.staying if branch is ONLY_STAYING else row), wanted
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

    def _candidates(self, index: EntryIndex, ids: Sequence[str] | None, wanted: Filter) -> list[Entry]:
        """Return the entries of an index that may match, oldest first, as they are now."""
        if ids is None:
            return index.candidates(wanted.metadata).copy()
        return sorted([entry for item_id in dict.fromkeys(ids) if (entry := index.get(item_id)) is not None])

    def _put(self, item: MemoryItem) -> None:
        """Keep the item instead of the one with its id."""
        if item.expires_at is not None:
            self._may_expire = True
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
        if item.expires_at is not None:
            self._may_expire = True
        self._live.put(Entry(item.created_at, self._added, item, []), lists)


class InMemoryStore(Store):
    """A store that lives as long as the process; ``memory://``.

    Items are copied in and out. Each add and update is stored in one step, so it is atomic; a large batch is made ready
    before that, while others go on. What reads many items sees them as they were when it began, and lets others go on
    meanwhile; ``clear``, ``restore`` and ``purge`` take hundreds at a time, oldest first, and leave what is added
    meanwhile. Ready for use as soon as it is made.
    """

    capabilities = InMemoryEngine.capabilities
    needs_init = False

    def __init__(self) -> None:
        itself = weakref.proxy(self)
        self._items = InMemoryEngine(lambda: itself._text_ranker())
        super().__init__(self._items)

    @classmethod
    def from_url(cls, url: str) -> InMemoryStore:
        """Return a new, empty store for ``memory://``; the URL has no options."""
        rest, _ = take_options(url, {})
        if rest.partition(":")[2].strip("/"):
            raise InputError("The in-memory store has no name: its URL is 'memory://'.", field="url")
        return cls()

    def __len__(self) -> int:
        return len(self._items)

    def __bool__(self) -> bool:
        return True  # An empty store is still a store.


class _Seen(NamedTuple):
    """What changes were asked for, and the entries among which they were looked for."""

    asked: Filter
    row: list[Entry]


def _changes(
    asked: Filter, known: list[Entry] | None, row: list[Entry], shown: Callable[[MemoryItem], T]
) -> Changes[T]:
    """Return what has changed since a known state of a row. Every change makes a new entry."""
    gone, come = (known, row) if known is None else differing(known, row)
    rows = {entry.added: shown(entry.item) for entry in _sorted(matching(come, asked), Page(order="added"))[::-1]}
    return Changes(_Seen(asked, row), rows, None if gone is None else [entry.added for entry in gone])


class _Batch(NamedTuple):
    """A batch ready to be written: its changes, its items, the last number and the number of removed items."""

    live: IndexChange
    hidden: IndexChange
    items: list[MemoryItem]
    last: int
    removed: int


def _deleted(write: Write, held: Mapping[str, Entry | None]) -> list[Entry]:
    """Return the entries that a batch deletes."""
    there = [entry for item_id in write.deletes if (entry := held[item_id]) is not None]
    return [entry for entry in there if metadata_matches(write.within, entry.item.metadata)]


def _take(index: EntryIndex, entries: Iterable[Entry]) -> list[Entry]:
    """Remove and return the entries that are still in the index; they come in order."""
    there = [entry for entry in entries if index.get(entry.item.id) is entry]
    index.take(there)
    return there


def _ends_at_a_time(conditions: Sequence[Condition]) -> bool:
    return any(type(condition) is Created for condition in conditions)


def _sifted_at_once(entries: Sequence[Entry], wanted: Filter) -> int:
    """Return how many of the newest entries may be filtered in one turn, fewer if long texts are searched."""
    most = min(len(entries), ITEMS_FILTERED_PER_TURN)
    if wanted.query:
        letters = 0
        for position, entry in enumerate(islice(reversed(entries), most)):
            letters += len(entry.item.content)
            if letters > LETTERS_SEARCHED_PER_TURN:
                return position
    return most


def _newest(entries: Iterable[Entry], wanted: Filter, limit: int) -> list[Entry]:
    """Return the first entries that match."""
    return list(islice(passing(entries, wanted), limit))


def _matching_before(first: Entry, entries: Sequence[Entry], wanted: Filter) -> list[Entry]:
    """Return the entries before one of them that match, the newest first."""
    return matching(reversed(entries[: bisect_left(entries, first)]), wanted)


def _soonest(entries: Iterable[Entry]) -> str | None:
    return min((ends for entry in entries if (ends := entry.item.expires_at) is not None), default=None)


def _copies(entries: Iterable[Entry]) -> list[MemoryItem]:
    return [copy_item(entry.item) for entry in entries]


def _sorted(entries: Iterable[Entry], page: Page) -> list[Entry]:
    """Return a page of the entries, newest first."""
    if page.limit == 1 and not page.offset:
        newest = max(entries, key=BY[page.order], default=None)
        return [] if newest is None else [newest]
    return sorted(entries, key=BY[page.order], reverse=True)[page.offset : page.end]


def _sorted_matching(entries: Iterable[Entry], query: Query[Any], wanted: Filter) -> list[Entry]:
    """Return what a query asks for, newest first, of entries for which ``wanted`` is still to be checked."""
    found = matching(entries, wanted)
    page = _sorted(found, query.page)
    if not query.staying or len(page) < query.page.limit:
        return page
    staying = [entry for entry in found if entry.added < page[-1].added and stays(entry.item)]
    return page + _sorted(staying, AS_ADDED)


def _ranked(ranker: Ranker, query: str, scopes: Sequence[ScopeToRank], limit: int, shared: bool) -> list[RankedItem]:
    """Rank the items of scopes, copying only the results."""
    together = getattr(ranker, "rank_together", None)
    if len(scopes) == 1:
        ranked = scopes[0].ranked(query, limit)
    elif together is None:
        ranked = best_of_all([scope.ranked(query, limit) for scope in scopes], limit)
    else:
        ranked = together(query, scopes, limit)
    if shared:
        return ranked
    return [RankedItem(copy_item(found.item), *_REST_OF_A_RESULT(found)) for found in ranked]
