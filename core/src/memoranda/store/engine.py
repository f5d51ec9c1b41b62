"""What a backend writes: four small methods, and what is built from them unless the backend does it better.

Public methods check, stamp and tell observers before they come here: see :class:`memoranda.store.base.BaseStore`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, ClassVar, Literal, Self, TypeVar

from memoranda.errors import (
    InputError,
    MemoryError,
    PluginNotFoundError,
    StoreClosedError,
    StoreNotFoundError,
    UnsupportedError,
    VersionConflictError,
    WrappedStoreError,
    quoted,
)
from memoranda.items import BUILTIN_TYPES, MemoryItem, MemoryMetadata, Payload, PayloadChanges
from memoranda.loops import CallsUnderWay, LoopLock, undivided
from memoranda.offloading import in_slices, offload, ranking_weight
from memoranda.store.conditions import Condition, Expiry, FieldEquals
from memoranda.store.filters import Filter, Order, Page, check_order
from memoranda.store.lifetimes import Lifetimes, end_of_life
from memoranda.store.observers import Observers
from memoranda.store.owners import Listing, Owner
from memoranda.store.protocol import BASE_CAPABILITIES, Access, Capability, SearchMode
from memoranda.store.ranked import RankedItem, Ranker, Reranker, installed_ranker, rank_items
from memoranda.store.values import Value
from memoranda.store.writes import Packer, Write, check_expected, check_owner, kept

SWEEP_AGAIN = 60.0
"""After how many seconds a sweep that failed is tried again."""

logger = logging.getLogger(__name__)

NO_LOCK: AbstractAsyncContextManager[object] = nullcontext()
"""What :meth:`Engine._alone` returns where no writer needs to be kept out."""


class Engine(ABC):
    """The backend's side of a store: its state, its declarations, and the methods that reach the engine underneath."""

    capabilities: frozenset[Capability] = BASE_CAPABILITIES
    """What this store can do. A class or an instance replaces it with ``BASE_CAPABILITIES | {...}``."""

    item_types: Mapping[str, type[MemoryItem]] = BUILTIN_TYPES
    """The classes that stored items are read as, by ``memory_type``; others are read as MemoryItem."""

    ranker: Ranker | None = None
    """Ranks text, in a store without an index of its own; None is the installed one."""

    reranker: Reranker | None = None
    """Reorders the best results of every ranked search, where one is set."""

    default_mode: ClassVar[SearchMode] = "substring"
    """What ``search(mode=None)`` means."""

    default_order: ClassVar[Order] = "created"
    """What ``search(order=None)`` and ``scan(order=None)`` mean."""

    needs_init: ClassVar[bool] = True
    """True if the store must be opened by ``init()`` or ``async with`` before its first use."""

    clock: Callable[[], float] = staticmethod(time.time)
    """Tells the present, in seconds of Unix time, by which items expire."""

    access: Access = "create"
    """What the store is opened for; set before that, as :func:`memoranda.open` does. Where it is ``read``, nothing is
    written, not even tables or indexes, and every call that would write is an UnsupportedError."""

    wrapper: str | None = None
    """The prefix of the wrapper that this store is opened for, such as ``"encrypted"``: what is added comes through it
    alone. None for a store that is used as it is."""

    _label = ""
    _mark_text: str | None = None
    _bounded: ClassVar[bool] = False

    def __init__(self) -> None:
        # The default compare-and-set reads, compares and adds, and so does the default batch: a lock keeps other
        # writers out in between. A backend that brings its own of both does not pay for it.
        own = type(self)
        self._serialises_writes = own._update_many is Engine._update_many or own._apply is Engine._apply
        self._state: Literal["new", "open", "closed"] = "new" if self.needs_init else "open"
        self._observers = Observers()
        self._lifetimes = Lifetimes()
        self._writes = CallsUnderWay()
        self._sweeping: asyncio.Task[None] | None = None
        self._make_locks()

    def _make_locks(self) -> None:
        self._write_lock = LoopLock()
        self._lifecycle_lock = LoopLock()
        # Held by the thread whose step it is: see one_thread_at_a_time().
        self._turn = threading.RLock()
        self._handles: weakref.WeakSet[Engine] = weakref.WeakSet()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def label(self) -> str:
        """How messages name this store: the URL that it was opened with, without its secrets, or else its repr."""
        return self._label or repr(self)

    # Lifecycle

    async def init(self) -> None:
        """Open the store and create what it needs. Calling it again while open does nothing.

        It is open for every event loop of the process then. A closed store may be opened again. Raises
        StoreUnavailableError when the engine cannot be reached, SchemaTooNewError before anything is touched when a
        later release wrote it, StoreNotFoundError when there is none and :attr:`access` does not allow making one, and
        WrappedStoreError when it is only to be opened with a wrapper, such as encryption.
        """
        async with self._lifecycle_lock.held():
            if self._state != "open" or not self.needs_init:
                if self._state != "open" and self.access != "create" and not await self._exists():
                    raise StoreNotFoundError(self.label, await self._alike())
                await self._init()
                await self._check_wrapper()
                if Capability.TTL in self.capabilities:
                    # Of what others keep there, one cannot know whether it will expire.
                    self._lifetimes.in_use = Capability.PERSISTENT in self.capabilities
                    self._lifetimes.swept(await self._soonest_expiry())
                self._state = "open"

    async def _check_wrapper(self) -> None:
        """Raise WrappedStoreError, with everything released, if the store says that it is opened with a wrapper."""
        mark = None if self.wrapper is not None else await self._mark()
        if mark is not None:
            self._state = "closed"
            await self._close()
            raise WrappedStoreError(self.label, mark["prefix"])

    async def close(self) -> None:
        """Wait for calls under way, then release everything, in whichever loops. Calling it again does nothing.

        A loop that takes no turn for ten seconds is not waited for: its calls raise StoreClosedError when it goes on.
        """
        async with self._lifecycle_lock.held(by_force=True):
            was_open, self._state = self._state == "open", "closed"
            if not was_open:
                return
            sweeping = self._sweeping
            if sweeping is not None and sweeping.get_loop() is asyncio.get_running_loop():
                await asyncio.wait([sweeping])
            await self._writes.ended()
            await self._close()

    async def exists(self) -> bool:
        """Return True if there is such a store, opened or not; nothing is made by asking.

        Raises StoreUnavailableError when the engine cannot be reached, and whatever else opening it would raise.
        """
        return self._state == "open" or await self._exists()

    def _expect_opening(self) -> None:
        """Refuse calls until ``init()`` or ``async with``, also where the engine is ready at once."""
        self._state = "new"

    async def __aenter__(self) -> Self:
        await self.init()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

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

    async def _alike(self) -> Sequence[str]:
        """Return the URLs of stores beside this one, which is not there, whose names look like its name."""
        return ()

    async def _init(self) -> None:  # noqa: B027 - optional: not every engine needs opening
        """Open the engine. If this raises, nothing may be left open."""

    async def _close(self) -> None:  # noqa: B027 - as above
        """Wait for calls under way and release the engine."""

    async def _mark(self) -> dict[str, Any] | None:
        """Return what a wrapper has noted in the store: its ``prefix``, and what else it needs to know; None if none.

        It is no item, so that nothing that is read or removed reaches it.
        """
        text = await self._read_mark()
        return None if text is None else json.loads(text)

    async def _set_mark(self, mark: Mapping[str, Any] | None) -> None:
        """Note that the store is only to be opened with a wrapper; None takes that back."""
        await self._write_mark(None if mark is None else json.dumps(mark, sort_keys=True))

    async def _read_mark(self) -> str | None:
        """Return the text that :meth:`_write_mark` was given last; a persistent engine keeps it with its items."""
        return self._mark_text

    async def _write_mark(self, text: str | None) -> None:
        """Keep a text beside the items, or remove it."""
        self._mark_text = text

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
        adds = kept(write, held.get)
        removed = await self._remove_each(write.deletes, write.within, purge=write.purge)
        for item in adds:
            await self._add(item, write.within)
        return removed

    def _packer(self) -> Packer | None:
        """Return what makes a list of rows of checked items, each with the id first; None where items are stored whole.

        With it, large batches of adds reach :meth:`_apply` as ``write.packed``, and no item is copied.
        """
        return None

    async def _remove_each(self, ids: Sequence[str], within: MemoryMetadata | None, *, purge: bool) -> int:
        if purge or Capability.DELETE in self.capabilities:
            return sum([await self._remove_one(item_id, within, purge=purge) for item_id in ids])
        # A plain _clear() looks at all there is, so it is asked for many at once.
        wanted, removed = Filter(metadata=within, archived=None), 0
        async for some in in_slices(ids, 500):
            removed += await self._clear(wanted.also(Value("id", False, "$in", list(some))))
        return removed

    async def _remove_one(self, item_id: str, within: MemoryMetadata | None, *, purge: bool) -> bool:
        """Remove one item, for good or as :meth:`_clear` does; return True to exactly one of several callers."""
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
        # The whole scope is read: neighbours count whatever their type, so the other filters come after the ranking.
        scope = await self._search(wanted.scope(), Page())
        sought = wanted.sought()
        chosen = sought if sought.conditions else None
        index = (await self._text_ranker()).index()
        weight = ranking_weight(len(scope), (item.content for item in scope))
        return await offload(weight, rank_items, index, query, scope, chosen, limit)

    async def _text_ranker(self) -> Ranker:
        """Return this store's ranker. Raises UnsupportedError, saying what to install, if there is none."""
        if self.ranker is None:
            try:
                self.ranker = await asyncio.to_thread(installed_ranker)  # Importing one takes a while.
            except PluginNotFoundError as error:
                what = "ranked search without a ranker"
                raise UnsupportedError(self.label, what, remedy=error.remedy) from error
        return self.ranker

    async def _get_many(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return copies of those of the items that are there, in any order."""
        found = [await self._get(item_id) for item_id in ids]
        return [item for item in found if item is not None]

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        return len(await self._search(wanted, Page()))

    async def _payloads(self, wanted: Filter, page: Page) -> list[Payload]:
        """Return what :meth:`_search` finds, without making items of it where that can be."""
        return list(map(Payload.of, await self._search(wanted, page)))

    async def _payload_changes(self, wanted: Filter, since: object) -> PayloadChanges:
        """Return how :meth:`_payloads` differs from what it was; ``since`` is the state of an earlier call, or None.

        A store that cannot tell returns all.
        """
        rows = (await self._payloads(wanted, Page(order="added")))[::-1]
        return PayloadChanges(None, dict(enumerate(rows)), None)

    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        for item in reversed(await self._search(wanted, Page(order=order))):
            yield item

    def _one_state(self) -> AbstractAsyncContextManager[bool]:
        """Return a context in which every read of this task sees one state; it gives False if that cannot be had."""
        return nullcontext(False)

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

    async def _sweep_anywhere(self, wanted: Filter) -> int:
        """Do what :meth:`_sweep` does, outside of a handle's scope too: an expired item owns nothing any more."""
        return await self._sweep(wanted)

    async def _soonest_expiry(self) -> str | None:
        """Return when the next item expires, of all that are stored; None if none ever does."""
        return None

    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        raise UnsupportedError(self.label, Capability.DELETE)

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        raise UnsupportedError(self.label, Capability.DELETE)

    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        raise UnsupportedError(self.label, Capability.PURGE)

    async def _lineage(self, session_id: str, item: MemoryItem) -> dict[str, int]:
        raise UnsupportedError(self.label, Capability.FORK)

    async def _portable(self, item: MemoryItem, wanted: Filter, include_deleted: bool) -> MemoryItem:
        raise UnsupportedError(self.label, Capability.FORK)

    # Lifetimes

    def _now(self) -> str | None:
        """Return the present, or None where nothing ever expires."""
        return self._lifetimes.now(self.clock) if self._lifetimes.in_use else None

    async def _make_room(self, ids: Sequence[str]) -> None:
        """Remove the items of these ids that have expired, if any may have: their ids are free."""
        if Capability.PERSISTENT in self.capabilities and self._lifetimes.is_to_look_again(self.clock):
            self._lifetimes.note(await self._soonest_expiry())
        if self._lifetimes.is_due(self.clock):
            await self._sweep_ids(ids)

    def _expired(self, *further: Condition, metadata: MemoryMetadata | None = None) -> Filter:
        """Return the filter of what has expired, archived or not."""
        over = Expiry(self._lifetimes.now(self.clock), expired=True)
        return Filter(metadata=metadata, archived=None, further=(over, *further))

    async def _sweep_ids(self, ids: Sequence[str]) -> int:
        return await self._sweep_anywhere(self._expired(Value("id", False, "$in", list(ids))))

    def _sweep_aside(self) -> None:
        """Remove what has expired while others go on, unless that is under way."""
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep_all())

    async def _sweep_all(self) -> None:
        try:
            await self._sweep(self._expired())
            self._lifetimes.swept(await self._soonest_expiry())
        except MemoryError as error:
            # No caller waits for it, and expired items are not shown; a later call tries again.
            logger.debug("Expired items were not removed: %s.", type(error).__name__)
            self._lifetimes.swept(end_of_life(self._lifetimes.now(self.clock), SWEEP_AGAIN))

    # Checks

    def _alone(self) -> AbstractAsyncContextManager[object]:
        """Return what keeps other writers out where the compare-and-set is the default one, and nothing elsewhere.

        Everything that writes comes by here, so that this is where a store that is open for reading refuses.
        """
        if self.access == "read":
            raise UnsupportedError(self.label, "writing", remedy="It was opened for reading only.")
        return self._write_lock.held() if self._serialises_writes else NO_LOCK

    def derived_id(self, text: str, *, digits: int = 32) -> str:
        """Return an id of hexadecimal digits that is made from a text: the same for the same text.

        Ids stay readable in an encrypted store, so that one that is made from what is said must not confirm a guess. An
        encrypted store makes them with a key of its ring, of 32 digits at most; every other store has nothing to hide,
        and hashes the text.
        """
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]

    def _stamped(self, item: MemoryItem) -> MemoryItem:
        """Return the item as it is to be stored; a scoped handle stamps it here.

        Every item that is given to a store or to a handle comes by here, so this is where the store that a wrapper
        stands around refuses them.
        """
        if self.wrapper is not None:
            raise WrappedStoreError(self.label, self.wrapper)
        return item

    def _bounds(self, metadata: MemoryMetadata | None) -> MemoryMetadata | None:
        """Return the filter that observers see; a scoped handle adds its scope here."""
        return metadata

    def _ensure_open(self) -> None:
        if self._state != "open":
            raise StoreClosedError(self.label, opened=self._state == "closed")
        if self._lifetimes.in_use and self.access != "read" and self._lifetimes.is_to_sweep(self.clock):
            self._sweep_aside()

    def _filter(self, **named: Any) -> Filter:
        """Return the checked filter that these arguments name, without what has expired."""
        named["now"] = self._now()
        return Filter.of(**named)

    def _require(self, capability: Capability) -> None:
        if capability not in self.capabilities:
            raise UnsupportedError(self.label, f"the capability {capability.value!r}")

    def _order(self, order: Order | None) -> Order:
        return self.default_order if order is None else check_order(order)

    def _checked_mode(self, mode: SearchMode | None) -> SearchMode:
        if mode is None:
            return self.default_mode
        if mode not in ("substring", "text", "semantic", "hybrid"):
            raise InputError(
                f"{quoted(mode, text=True)} is no search mode; there are substring, text, semantic and hybrid.",
                field="mode",
            )
        if mode != "substring":
            self._require(Capability(mode))
        return mode


EngineT = TypeVar("EngineT", bound=Engine)


def one_thread_at_a_time(store: type[EngineT]) -> type[EngineT]:
    """Decorate a store whose methods count on nothing changing between two ``await``, as code in one event loop may.

    Each method of the class's own that overrides one of the engine's then runs from one ``await`` to the next while no
    other thread is in one of them, so that several event loops can share the store. A store whose engine has locks or
    threads of its own does without it. A subclass that overrides further methods is decorated again.
    """
    for name, method in list(vars(store).items()):
        if name.startswith("_") and hasattr(Engine, name):
            setattr(store, name, undivided(method))
    return store
