"""A store from four methods: the base of a backend whose author has an hour.

Every request that comes to its engine becomes calls of small methods of the store: ``_add``, ``_get``, ``_search`` and
``_clear``, and of others that are made from them unless the backend does better.
"""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, TypeVar

from memoranda.errors import IdConflictError, StoreNotFoundError, UnsupportedError, VersionConflictError
from memoranda.items import Changes, MemoryItem, MemoryMetadata, Payload, PayloadChanges
from memoranda.loops import CallsUnderWay, LoopLock, in_slices, offload, uninterrupted
from memoranda.store.base import Store
from memoranda.store.codec import copy_items
from memoranda.store.conditions import Expiry, FieldEquals
from memoranda.store.engine import Engine, Opened, Opening, rank_scope
from memoranda.store.filters import Filter, Order, Page
from memoranda.store.lifetimes import Lifetimes
from memoranda.store.owners import Listing, Owner
from memoranda.store.protocol import Capability, SearchMode
from memoranda.store.ranked import RankedItem
from memoranda.store.requests import (
    AS_ADDED,
    NOTHING_CHANGED,
    Change,
    Form,
    Query,
    Write,
    Written,
    best_of,
    check_expected,
    check_owner,
    next_versions,
)
from memoranda.store.values import Value

T = TypeVar("T")


class HookedEngine(Engine):
    """The engine of a :class:`BaseStore`: requests become calls of the store's methods."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store
        self._calls = CallsUnderWay()
        self._mark: str | None = None

    @property
    def capabilities(self) -> frozenset[Capability]:  # type: ignore[override]  # read-only here
        """What the store declares."""
        return self._store.capabilities

    async def open(self, opening: Opening) -> Opened:
        """Open the store."""
        store = self._store
        store._read_as = opening.item_types
        if opening.access != "create" and not await store._exists():
            raise StoreNotFoundError(opening.label)
        await store._init()
        try:
            ends = await store._soonest_expiry() if Capability.TTL in store.capabilities else None
            return Opened(self._mark, ends)
        except BaseException:
            await store._close()
            raise

    async def close(self) -> None:
        """Wait for writes under way, and close the store."""
        await self._calls.ended()
        await self._store._close()

    async def exists(self) -> bool:
        """Return what the store finds."""
        return await self._store._exists()

    async def write(self, write: Write) -> Written:
        """Carry out a write, alone where the store reads, compares and writes in several steps."""
        waits = self._store._serialises_writes or self._store._lifetimes.in_use
        if waits and not write.owned:
            write = write.but(adds=copy_items(write.adds))  # The caller may change its items meanwhile.
        with self._calls.call():
            if write.now and write.change is None:
                return await self._in_the_present(write)
            return await self._serialised(write)

    async def _in_the_present(self, write: Write) -> Written:
        """Carry out a write in a store whose items may have expired.

        Another process may have stored an item that expires without this one's knowing, so a conflict is tried again.
        """
        await self._remove_expired(write.ids, write.now)
        try:
            return await self._serialised(write)
        except (IdConflictError, VersionConflictError):
            await self._store._sweep(_expired(write.ids, write.now))
            return await self._serialised(write)

    async def _remove_expired(self, ids: Sequence[str], now: str) -> None:
        """Remove expired items that hold these ids."""
        store, lifetimes = self._store, self._store._lifetimes
        if Capability.PERSISTENT in self.capabilities and lifetimes.is_to_look_again(store.clock):
            lifetimes.note(await store._soonest_expiry())
        if lifetimes.is_due(store.clock):
            await store._sweep(_expired(ids, now))

    async def _serialised(self, write: Write) -> Written:
        if not self._store._serialises_writes:
            return await self._write(write)
        async with self._store._write_lock.held():
            return await self._write(write)

    async def _write(self, write: Write) -> Written:
        store = self._store
        if write.change is not None:
            return await self._changed(write.change)
        if write.compared:
            return Written(0, await store._update_many(write.adds, write.within))
        if len(write.adds) == 1 and write.is_plain:
            await store._add(write.adds[0], write.within)
            return NOTHING_CHANGED
        return Written(await store._apply(write))

    async def _changed(self, change: Change) -> Written:
        store, wanted = self._store, change.wanted
        match change.action:
            case "pop":
                popped = await store._pop(wanted, change.purge)
                return NOTHING_CHANGED if popped is None else Written(1, [popped])
            case "touch":
                return Written(await store._touch(change.ids or (), change.ttl, change.now, wanted.metadata))
            case "sweep":
                return Written(await store._sweep(wanted), next_expiry=await store._soonest_expiry())
            case "mark":
                self._mark = change.text
                return NOTHING_CHANGED
        one = None if change.ids is None else change.ids[0]
        if change.action == "restore":
            return Written(await store._restore(one, wanted))
        if change.action == "purge":
            return Written(await store._purge(one, wanted, change.deleted_only))
        if one is None:
            return Written(await store._clear(wanted))
        if store._lifetimes.in_use:
            await self._remove_expired([one], store._living.now())
        return Written(await store._delete(one, wanted.metadata))

    async def read(self, query: Query[T]) -> list[T]:
        """Return what the store finds."""
        store = self._store
        found: Any
        if query.ids is not None:
            if len(query.ids) == 1 and query.form == "items":
                item = await store._get(query.ids[0])
                found = [] if item is None else [item]
            else:
                found = await self._of_ids(query.ids, query.form)
        elif query.ranking is not None:
            text, mode = query.ranking
            found = await store._rank(text, query.wanted, query.page.limit, mode)
        elif query.form == "payloads":
            found = await store._payloads(query.wanted, query.page)
        else:
            found = await store._search(query.wanted, query.page)
        return found  # type: ignore[no-any-return]  # The form of the query says what it is.

    async def _of_ids(self, ids: Sequence[str], form: Form) -> list[Any]:
        if form == "places":
            found = [await self._store._place(item_id) for item_id in ids]
            return [place for place in found if place is not None]
        return await self._store._get_many(ids) if ids else []

    def stream(self, query: Query[MemoryItem]) -> AsyncGenerator[MemoryItem, None]:
        """Yield what the store yields."""
        return self._store._scan(query.wanted, query.deleted, query.page.order)

    async def count(self, query: Query[MemoryItem]) -> int:
        """Return what the store counts."""
        return await self._store._count(query.wanted, query.deleted)

    def owners(self, listing: Listing, query: Query[MemoryItem]) -> AsyncGenerator[Owner, None]:
        """Yield the owners that the store lists."""
        return self._store._owners(listing, query.wanted)

    async def changes(self, query: Query[T], since: object) -> Changes[T]:
        """Return what the store tells of payloads that have changed; of items it returns all."""
        if query.form != "payloads":
            return await super().changes(query, None)
        changed: Any = await self._store._payload_changes(query.wanted, since)
        return changed  # type: ignore[no-any-return]  # The form of the query says what it is.


class BaseStore(Store):
    """The base of a backend: four methods make a correct store, and further ones a faster one.

    Driver exceptions never leave a backend bare: it translates them to the errors of :mod:`memoranda.errors`.
    """

    def __init__(self) -> None:
        # The default compare-and-set reads, compares and adds, and so does the default batch: a lock keeps other
        # writers out in between. A backend that brings its own of both does not pay for it.
        own = type(self)
        self._serialises_writes = own._update_many is BaseStore._update_many or own._apply is BaseStore._apply
        self._write_lock = LoopLock()
        self._read_as: Callable[[], Mapping[str, type[MemoryItem]]] | None = None
        # Held by the thread whose step it is: see one_thread_at_a_time().
        self._turn = threading.RLock()
        super().__init__(HookedEngine(self))

    @property
    def stored_types(self) -> Mapping[str, type[MemoryItem]]:
        """The classes of stored items: ``item_types``, unless a layer stores items in another form.

        An encrypted fact, for instance, lacks the fields that the class of facts requires.
        """
        return self.item_types if self._read_as is None else self._read_as()

    @property
    def _lifetimes(self) -> Lifetimes:
        """What is known of items that will expire."""
        return self._living.lifetimes

    # What a backend writes

    @abstractmethod
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        """Store one checked item; see :meth:`add`. Take what is needed from it before the first ``await``.

        :func:`successor` gives the item with its next version, or raises the right conflict.
        """

    @abstractmethod
    async def _get(self, item_id: str) -> MemoryItem | None:
        """Return a copy of the item, or None if there is none or it is deleted."""

    @abstractmethod
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        """Return copies of the items for which ``wanted.matches(item)``: this page of them, newest first.

        :meth:`Page.of` sorts and cuts items that come in the order in which they were added.
        """

    @abstractmethod
    async def _clear(self, wanted: Filter) -> int:
        """Remove the items that match and return how many; with the capability ``delete`` they can be restored."""

    # What a backend may override

    async def _exists(self) -> bool:
        """Return True if there is something to open. An engine that has nothing to make is always there."""
        return True

    async def _init(self) -> None:
        """Open the store. If this raises, nothing may be left open."""

    async def _close(self) -> None:
        """Wait for calls under way and release everything."""

    async def _soonest_expiry(self) -> str | None:
        """Return when the next item expires, of all that are stored; None if none ever does."""
        return None

    async def _apply(self, write: Write) -> int:
        """Store a batch and return how many items were deleted; all or none, where the store is ``atomic``.

        What a store with the capability ``add_deleted`` is asked to hide has no default beyond refusing: adding and
        then deleting would show it in between.
        """
        if write.hidden:
            raise UnsupportedError(self.label, Capability.ADD_DELETED)
        if write.expected is not None:
            newest = await self._search(write.expected.conversation, Page(1, order="added"))
            write.expected.check(newest[0].id if newest else None)
        held = {item.id: await self._get(item.id) for item in write.adds}
        adds = next_versions(write, held.get)
        removed = await self._remove_each(write.deletes, write.within, purge=write.purge)
        for item in adds:
            await self._add(item, write.within)
        return removed

    async def _remove_each(self, ids: Sequence[str], within: MemoryMetadata | None, *, purge: bool) -> int:
        if purge or Capability.DELETE in self.capabilities:
            return sum([await self._remove_one(item_id, within, purge=purge) for item_id in ids])
        # A plain _clear() looks at all there is, so it is asked for many at once.
        wanted, removed = Filter(metadata=within, archived=None), 0
        async for some in in_slices(ids, 500):
            removed += await self._clear(wanted.also(Value("id", False, "$in", list(some))))
        return removed

    async def _remove_one(self, item_id: str, within: MemoryMetadata | None, *, purge: bool) -> bool:
        """Remove one item, for good or as :meth:`_clear` does; exactly one of several callers gets True."""
        wanted = Filter(metadata=within, archived=None)
        if purge:
            return await self._purge(item_id, wanted, False) > 0
        if Capability.DELETE in self.capabilities:
            return await self._delete(item_id, within)
        return await self._clear(wanted.also(FieldEquals("id", item_id))) > 0

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        unseen = {}
        for item in items:
            existing = await self._get(item.id)
            check_expected(item, existing, within)
            if existing is None:
                unseen[item.id] = item
        if unseen and Capability.DELETE in self.capabilities:
            # A hidden item holds its id. Its owner is known before anything is written, so that all or none is.
            async for hidden in self._scan(Filter(archived=None), True, "added"):
                if hidden.id in unseen:
                    check_owner(hidden, unseen[hidden.id], within)
        updated = []
        for item in items:
            await self._add(item, within)
            stored = await self._get(item.id)
            if stored is None:
                raise VersionConflictError(item.id, item.version, None)
            updated.append(stored)
        return updated

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        if mode != "text":
            raise UnsupportedError(self.label, f"search mode {mode!r}")
        return await rank_scope(self.bottom, best_of(query, wanted, limit, mode), await self._text_ranker())

    async def _get_many(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return copies of the items that exist, in any order."""
        found = [await self._get(item_id) for item_id in ids]
        return [item for item in found if item is not None]

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        return len(await self._search(wanted, Page()))

    async def _payloads(self, wanted: Filter, page: Page) -> list[Payload]:
        """Return the payloads of what :meth:`_search` finds, if possible without building items."""
        return list(map(Payload.of, await self._search(wanted, page)))

    async def _payload_changes(self, wanted: Filter, since: object) -> PayloadChanges:
        """Return how :meth:`_payloads` differs from what it was; ``since`` is the state of an earlier call, or None.

        A store that cannot tell returns all.
        """
        return PayloadChanges.of_all(reversed(await self._payloads(wanted, AS_ADDED)))

    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        for item in reversed(await self._search(wanted, Page(order=order))):
            yield item

    async def _owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        """Yield the owners of the items that match, in order; see :class:`memoranda.store.backend.Listing`."""
        items = await self._search(wanted, Page())
        for owner in await offload(len(items), listing.of, items):
            yield owner

    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        """Remove the item that was added last of those that match, and return it."""
        while newest := await self._search(wanted, Page(1, order="added")):
            if await self._remove_one(newest[0].id, wanted.metadata, purge=purge):
                return newest[0]
            await asyncio.sleep(0)  # Another call took it: let that one finish, and this one be cancelled.
        return None

    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        """Give the items ``ttl`` seconds from now, or their own ttl once more, and return how many changed.

        Their versions stay. :func:`with_lifetime` gives the item as it is to be stored.
        """
        raise UnsupportedError(self.label, f"the capability {Capability.TTL.value!r}")

    async def _sweep(self, wanted: Filter) -> int:
        """Remove expired items for good: those that match, hidden ones too."""
        if Capability.PURGE in self.capabilities:
            return await self._purge(None, wanted, False)
        return await self._clear(wanted)

    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        raise UnsupportedError(self.label, Capability.DELETE)

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        raise UnsupportedError(self.label, Capability.DELETE)

    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        raise UnsupportedError(self.label, Capability.PURGE)

    async def _place(self, item_id: str) -> int | None:
        """Return the place of an item in the order of adding, deleted or not; None if there is none.

        It is above 0, stays the same as long as the store lasts, and is below those of all items that come later. Only
        asked where the store has the capability ``fork``.
        """
        raise NotImplementedError


def _expired(ids: Sequence[str], now: str) -> Filter:
    """Return a filter for the expired ones of some items."""
    return Filter(archived=None, further=(Expiry(now, expired=True), Value("id", False, "$in", list(ids))))


StoreT = TypeVar("StoreT", bound=BaseStore)


def one_thread_at_a_time(store: type[StoreT]) -> type[StoreT]:
    """Decorate a store whose methods rely on nothing changing between two ``await``, as in a single event loop.

    Each method of the class's own that overrides one of the engine's then runs from one ``await`` to the next while no
    other thread is in one of them, so that several event loops can share the store. A store whose engine has locks or
    threads of its own does without it. A subclass that overrides further methods is decorated again.
    """
    for name, method in list(vars(store).items()):
        if name.startswith("_") and hasattr(BaseStore, name):
            setattr(store, name, uninterrupted(method))
    return store
