"""What a store promises: the protocol, its capabilities and the base class that backends build on.

The docstrings of :class:`BaseStore` are the contract. Every sentence in them has a case in the conformance kit
(:mod:`recollect.testing`). A backend writes four small methods, ``_add``, ``_get``, ``_search`` and ``_clear``, and has
a correct store; it overrides further ones to be faster, and declares what it offers beyond the base.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, runtime_checkable

from recollect.capabilities import BASE_CAPABILITIES, Capability, SearchMode
from recollect.errors import InputError, StoreClosedError, UnsupportedError, VersionConflictError
from recollect.items import BUILTIN_TYPES, MemoryItem, MemoryMetadata, MemoryStatus
from recollect.observing import Observer, Observers
from recollect.query import Filter, check_clearing, check_filter, check_limit, metadata_matches
from recollect.ranked import RERANKED, RankedItem, Reranker, rank_scope, ranking_weight, reranked
from recollect.records import check_text, copy_item, dump_item, load_item, storable
from recollect.turns import aside
from recollect.versions import check_expected, check_owner, successor

if TYPE_CHECKING:
    from recollect.scoping import ScopedStore

UNSET: Any = object()
"""The default of scope arguments, since None there is a mistake and not "any"."""

EVERYTHING = 2**62
"""A limit that means all; it fits every engine's integer."""


@runtime_checkable
class MemoryStore(Protocol):
    """The four methods that every store has; see :class:`BaseStore` for what each one promises."""

    async def add(self, item: MemoryItem) -> None: ...

    async def get(self, item_id: str, *, metadata: MemoryMetadata | None = None) -> MemoryItem | None: ...

    async def search(
        self,
        *,
        query: str = "",
        metadata: MemoryMetadata | None = None,
        memory_type: str | None = None,
        status: MemoryStatus | None = None,
        limit: int = 10,
    ) -> list[MemoryItem]: ...

    async def clear(self, *, metadata: MemoryMetadata | None = None) -> int: ...


class BaseStore(ABC):
    """The base of every backend.

    Public methods check their arguments, tell the observers and call the method of the same name with an underscore,
    which is the backend's. Driver exceptions never leave a backend bare: it translates them to the errors of
    :mod:`recollect.errors`. After :meth:`close`, every call raises StoreClosedError.
    """

    capabilities: frozenset[Capability] = BASE_CAPABILITIES
    """What this store can do. A class or an instance replaces it with ``BASE_CAPABILITIES | {...}``."""

    item_types: Mapping[str, type[MemoryItem]] = BUILTIN_TYPES
    """The classes that stored items are read as, by ``memory_type``; others are read as MemoryItem."""

    reranker: Reranker | None = None
    """Reorders the best results of every ranked search, where one is set."""

    default_mode: ClassVar[SearchMode] = "substring"
    """What ``search(mode=None)`` means."""

    needs_init: ClassVar[bool] = True
    """Whether the store must be opened by ``init()`` or ``async with`` before its first use."""

    _serialises_writes: bool = True
    _bounded: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # The default compare-and-set reads, compares and adds; a lock keeps other writers out in between. A backend
        # that brings its own compare-and-set does not pay for it.
        cls._serialises_writes = cls._update_many is BaseStore._update_many

    def __init__(self) -> None:
        self._state: Literal["new", "open", "closed"] = "new" if self.needs_init else "open"
        self._observers = Observers()
        self._write_lock = asyncio.Lock()
        self._lifecycle_lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    # Lifecycle

    async def init(self) -> None:
        """Open the store and create what it needs. Calling it again while open does nothing.

        A closed store may be opened again. Raises StoreUnavailableError when the engine cannot be reached,
        SchemaTooNewError before anything is touched when a later release wrote it.
        """
        async with self._lifecycle_lock:
            if self._state != "open" or not self.needs_init:
                await self._init()
                self._state = "open"

    async def close(self) -> None:
        """Wait for calls under way, then release everything. Calling it again does nothing."""
        async with self._lifecycle_lock:
            if self._state != "open":
                self._state = "closed"
                return
            self._state = "closed"
            await self._close()

    async def __aenter__(self) -> Self:
        await self.init()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def observe(self, observer: Observer) -> None:
        """Tell this observer of what is added, searched and removed from now on; it may change items before adding."""
        self._observers.register(observer)

    def scoped(
        self, *, user_id: str = UNSET, session_id: str = UNSET, task_id: str = UNSET, agent_id: str = UNSET
    ) -> ScopedStore:
        """Return a handle that is bound to a scope: see :class:`recollect.scoping.ScopedStore`.

        Raises InputError without any field, and for a field that is None: a user that was not found is not "any".
        """
        from recollect.scoping import scope_metadata  # The handle is itself a store.

        return self._scoped(scope_metadata(user_id=user_id, session_id=session_id, task_id=task_id, agent_id=agent_id))

    def _scoped(self, scope: MemoryMetadata) -> ScopedStore:
        """Return the handle; a store whose searches are a view of its own gives one that shows the same view."""
        from recollect.scoping import ScopedStore

        return ScopedStore(self, scope)

    # Writing

    async def add(self, item: MemoryItem, *, within: MemoryMetadata | None = None, ttl: float | None = None) -> None:
        """Store the item. When this returns, it is stored: a persistent store still has it after a crash.

        An id that exists is replaced as a whole and its version goes up by one; it keeps its place among items of the
        same time. An id that was deleted comes back with the new content. An id that belongs to another ``user_id``, or
        to an item outside ``within``, is refused with IdConflictError and stays untouched. The caller's item is not
        changed, and changing it later changes nothing stored. ``ttl`` (seconds; stores with that capability) makes the
        item vanish by itself. Raises InputError, naming the field, for what no store can hold.
        """
        self._ensure_open()
        if ttl is not None:
            await self.add_many([item], within=within, ttl=ttl)
            return
        check_filter(within, "within")
        (item,) = self._accepted([item])
        if self._serialises_writes:
            async with self._write_lock:
                await self._add(item, within)
        else:
            await self._add(item, within)
        if self._observers:
            self._observers.added([item])

    async def add_many(
        self,
        items: Iterable[MemoryItem],
        *,
        within: MemoryMetadata | None = None,
        ttl: float | None = None,
        deleted: Collection[str] = (),
    ) -> None:
        """Store several items, in their order, as :meth:`add` does each.

        All are checked before any is written. A store with the capability ``atomic`` writes all or none; another may
        have written the first ones when it raises.

        ``deleted`` holds the ids of those that arrive hidden, as after :meth:`delete`: nobody sees them at any moment,
        not even if the process dies in between, and :meth:`restore` shows them. It is for copies of other stores, needs
        the capability ``add_deleted`` and takes no ``ttl``; an id that is not among the items is an InputError.
        Observers may change these items before they are stored, and are not told of them afterwards.
        """
        self._ensure_open()
        if ttl is not None:
            self._require(Capability.TTL)
            if not (isinstance(ttl, (int, float)) and 0 < ttl < float("inf")):
                raise InputError(f"ttl must be a number of seconds above 0, not {ttl!r}.", field="ttl")
        check_filter(within, "within")
        batch = self._accepted(items)
        if deleted:
            await self._add_with_deleted(batch, within, ttl, deleted)
            return
        if not batch:
            return
        if self._serialises_writes:
            async with self._write_lock:
                await self._add_many(batch, within, ttl)
        else:
            await self._add_many(batch, within, ttl)
        if self._observers:
            self._observers.added(batch)

    async def _add_with_deleted(
        self, batch: list[MemoryItem], within: MemoryMetadata | None, ttl: float | None, deleted: Collection[str]
    ) -> None:
        self._require(Capability.ADD_DELETED)
        if ttl is not None:
            raise InputError("An item that arrives deleted takes no ttl.", field="ttl")
        hidden = frozenset({deleted} if isinstance(deleted, str) else deleted)
        if not hidden <= {item.id for item in batch}:
            raise InputError("deleted names an id that is not among the items.", field="deleted")
        async with self._alone():
            await self._add_deleted(batch, within, hidden)
        shown = [item for item in batch if item.id not in hidden]
        if self._observers and shown:
            self._observers.added(shown)

    async def update(self, item: MemoryItem, *, within: MemoryMetadata | None = None) -> MemoryItem:
        """Replace the item if the store still has the version it carries, and return it with its new version.

        Version 0 means that there must be no such item yet. Otherwise raises VersionConflictError and changes nothing;
        an item outside ``within`` raises IdConflictError.
        """
        return (await self.update_many([item], within=within))[0]

    async def update_many(
        self, items: Iterable[MemoryItem], *, within: MemoryMetadata | None = None
    ) -> list[MemoryItem]:
        """Compare-and-set several items: each as :meth:`update` does it, all or none.

        An id that occurs twice is an InputError. On a store without the capability ``atomic`` a crash, but no error of
        its own, may leave the first ones written.
        """
        self._ensure_open()
        check_filter(within, "within")
        batch = self._accepted(items)
        if len({item.id for item in batch}) != len(batch):
            raise InputError("update_many takes each id once.", field="id")
        if not batch:
            return []
        if self._serialises_writes:
            async with self._write_lock:
                updated = await self._update_many(batch, within)
        else:
            updated = await self._update_many(batch, within)
        if self._observers:
            self._observers.added(updated)
        return updated

    # Reading

    async def get(self, item_id: str, *, metadata: MemoryMetadata | None = None) -> MemoryItem | None:
        """Return the item of this id, or None if there is none, it was removed, or it does not match ``metadata``.

        Without ``metadata`` whoever knows an id reads the item; a scoped handle or a filter closes that door. Archived
        items are returned. The item is the caller's own copy and carries the version the store gave it.
        """
        self._ensure_open()
        check_text(item_id, "item_id")
        if metadata is not None:
            check_filter(metadata)
        item = await self._get(item_id)
        if item is None or not metadata_matches(metadata, item.metadata):
            return None
        return item

    async def search(
        self,
        *,
        query: str = "",
        metadata: MemoryMetadata | None = None,
        memory_type: str | None = None,
        status: MemoryStatus | None = None,
        limit: int = 10,
        mode: SearchMode | None = None,
    ) -> list[MemoryItem]:
        """Return the items that match every filter, newest first; of equal time, the last added first.

        ``query`` is a literal substring of the content, compared by Unicode case folding; the empty text matches all.
        With a ``mode`` other than ``"substring"`` the query is a question instead, and items come best first: see
        :meth:`search_ranked`. Archived items are not shown. ``limit`` is the most to return: 0 returns nothing, one
        beyond the number of items returns all, a negative one is an InputError.
        """
        self._ensure_open()
        mode = self._checked_mode(mode)
        check_limit(limit)
        if mode != "substring" and query:
            ranked = await self.search_ranked(
                query=query, metadata=metadata, memory_type=memory_type, status=status, limit=limit, mode=mode
            )
            return [found.item for found in ranked]
        wanted = Filter.of(query=query, metadata=metadata, memory_type=memory_type, status=status)
        found = await self._search(wanted, min(limit, EVERYTHING)) if limit else []
        if self._observers:
            self._observers.searched(query, found)
        return found

    async def search_ranked(
        self,
        *,
        query: str,
        metadata: MemoryMetadata | None = None,
        memory_type: str | None = None,
        status: MemoryStatus | None = None,
        limit: int = 10,
        mode: SearchMode | None = None,
    ) -> list[RankedItem]:
        """Return the items that answer the query best, best first, each with its score and what made it.

        ``mode`` is ``"text"`` (words, weighted by how rare they are, with the neighbouring turns), ``"semantic"``
        (embeddings) or ``"hybrid"`` (both); None is the store's own default, or text where that is substring. Filters
        and ``limit`` are those of :meth:`search`; items with no relation to the query are left out of a text ranking.
        Raises UnsupportedError for a mode that this store does not have, InputError for an empty query.
        """
        self._ensure_open()
        mode = self._checked_mode(mode)
        if mode == "substring":
            mode = "text"
        self._require(Capability(mode))
        check_limit(limit)
        if not check_text(query, "query"):
            raise InputError("A ranked search needs a query.", field="query")
        wanted = Filter.of(metadata=metadata, memory_type=memory_type, status=status)
        if limit and self.reranker is not None:
            ranked = await self._rank(query, wanted, min(max(limit, RERANKED), EVERYTHING), mode)
            ranked = (await reranked(self.reranker, query, ranked))[:limit]
        else:
            ranked = await self._rank(query, wanted, min(limit, EVERYTHING), mode) if limit else []
        if self._observers:
            self._observers.searched(query, [found.item for found in ranked])
        return ranked

    async def count(self, *, include_deleted: bool = False, metadata: MemoryMetadata | None = None) -> int:
        """Return the number of items, archived ones included; with ``include_deleted`` also those that are hidden."""
        self._ensure_open()
        return await self._count(Filter.of(metadata=metadata, archived=None), include_deleted)

    async def scan(
        self,
        *,
        metadata: MemoryMetadata | None = None,
        memory_type: str | None = None,
        status: MemoryStatus | None = None,
        archived: bool | None = None,
        include_deleted: bool = False,
    ) -> AsyncGenerator[MemoryItem, None]:
        """Yield every item that matches, archived ones too, oldest first; of equal time, the first added first.

        Memory use does not grow with the number of items on a store that streams. Items that are there for the whole
        scan are yielded exactly once; others may or may not be. ``include_deleted`` needs the capability ``delete``.
        """
        self._ensure_open()
        if include_deleted:
            self._require(Capability.DELETE)
        wanted = Filter.of(metadata=metadata, memory_type=memory_type, status=status, archived=archived)
        async for item in self._scan(wanted, include_deleted):
            yield item

    # Removing

    async def clear(self, *, metadata: MemoryMetadata | None = None) -> int:
        """Remove the items that match, archived ones too, and return how many; without a filter, all of them.

        A store with the capability ``delete`` only hides them, and :meth:`restore` brings them back. An empty
        ``MemoryMetadata()`` is an InputError.
        """
        self._ensure_open()
        check_clearing(metadata)
        wanted = Filter.of(metadata=metadata, archived=None)
        async with self._alone():
            removed = await self._clear(wanted)
        if self._observers:
            self._observers.cleared(self._bounds(metadata), removed)
        return removed

    async def delete(self, item_id: str, *, metadata: MemoryMetadata | None = None) -> bool:
        """Hide the item and return whether there was one that matches. It can be restored. Capability ``delete``."""
        self._ensure_open()
        self._require(Capability.DELETE)
        check_text(item_id, "item_id")
        check_filter(metadata)
        async with self._alone():
            deleted = await self._delete(item_id, metadata)
        if self._observers and deleted:
            self._observers.cleared(self._bounds(metadata), 1)
        return deleted

    async def restore(self, item_id: str | None = None, *, metadata: MemoryMetadata | None = None) -> int:
        """Bring back what :meth:`delete` or :meth:`clear` hid and return how many: one id, or all that match.

        Content and version are as they were. Capability ``delete``.
        """
        self._ensure_open()
        self._require(Capability.DELETE)
        if item_id is not None:
            check_text(item_id, "item_id")
        wanted = Filter.of(metadata=metadata, archived=None)
        async with self._alone():
            return await self._restore(item_id, wanted)

    async def purge(
        self,
        item_id: str | None = None,
        *,
        metadata: MemoryMetadata | None = None,
        deleted_only: bool = False,
    ) -> int:
        """Remove items for good, hidden ones too, with every trace in every index, and return how many.

        Name an id, a filter, or ``deleted_only`` to empty the bin; none of the three is an InputError, and so is an
        empty ``MemoryMetadata()``. A purged id can be used again by anyone. Capability ``purge``.
        """
        self._ensure_open()
        self._require(Capability.PURGE)
        check_clearing(metadata)
        if item_id is None and metadata is None and not deleted_only and not self._bounded:
            raise InputError("purge() needs an item id, a metadata filter, or deleted_only=True.", field="metadata")
        if item_id is not None:
            check_text(item_id, "item_id")
        wanted = Filter.of(metadata=metadata, archived=None)
        async with self._alone():
            purged = await self._purge(item_id, wanted, deleted_only)
        if self._observers:
            self._observers.cleared(self._bounds(metadata), purged)
        return purged

    # What a backend writes

    @abstractmethod
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        """Store one checked item; see :meth:`add`. Take what is needed from it before the first ``await``.

        :func:`successor` gives the item with its next version, or raises the right conflict.
        """

    @abstractmethod
    async def _get(self, item_id: str) -> MemoryItem | None:
        """Return a copy of the item that is not hidden, or None."""

    @abstractmethod
    async def _search(self, wanted: Filter, limit: int) -> list[MemoryItem]:
        """Return copies of at most ``limit`` (>= 1) items for which ``wanted.matches(item)``, newest first."""

    @abstractmethod
    async def _clear(self, wanted: Filter) -> int:
        """Remove (or hide, with the capability ``delete``) the items that match and return how many."""

    # What a backend may override

    async def _init(self) -> None:  # noqa: B027 - optional: not every engine needs opening
        """Open the engine. If this raises, nothing may be left open."""

    async def _close(self) -> None:  # noqa: B027 - as above
        """Wait for calls under way and release the engine."""

    async def _add_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None, ttl: float | None) -> None:
        for item in items:
            await self._add(item, within)

    async def _add_deleted(
        self, items: Sequence[MemoryItem], within: MemoryMetadata | None, deleted: frozenset[str]
    ) -> None:
        """Store items of which those with the ids in ``deleted`` are hidden from the first moment.

        There is no default beyond refusing: adding and then deleting would show them in between.
        """
        raise UnsupportedError(repr(self), Capability.ADD_DELETED)

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        unseen = {}
        for item in items:
            existing = await self._get(item.id)
            check_expected(item, existing, within)
            if existing is None:
                unseen[item.id] = item
        if unseen and Capability.DELETE in self.capabilities:
            # A hidden item holds its id. Its owner is known before anything is written, so that all or none is.
            async for hidden in self._scan(Filter(archived=None), True):
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
            raise UnsupportedError(repr(self), f"search mode {mode!r}")
        # The whole scope is read: neighbours count whatever their type, so the other filters come after the ranking.
        scope = await self._search(Filter(metadata=wanted.metadata, archived=wanted.archived), EVERYTHING)
        return await aside(ranking_weight(scope), rank_scope, query, scope, wanted, limit)

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        return len(await self._search(wanted, EVERYTHING))

    async def _scan(self, wanted: Filter, include_deleted: bool) -> AsyncGenerator[MemoryItem, None]:
        for item in reversed(await self._search(wanted, EVERYTHING)):
            yield item

    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        raise UnsupportedError(repr(self), Capability.DELETE)

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        raise UnsupportedError(repr(self), Capability.DELETE)

    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        raise UnsupportedError(repr(self), Capability.PURGE)

    # Checks

    def _alone(self) -> AbstractAsyncContextManager[object]:
        """Return what keeps other writers out where the compare-and-set is the default one, and nothing elsewhere."""
        return self._write_lock if self._serialises_writes else nullcontext()

    def _prepared(self, item: MemoryItem) -> MemoryItem:
        """Return the item as it is to be stored; a scoped handle stamps it here."""
        return item

    def _accepted(self, items: Iterable[MemoryItem]) -> list[MemoryItem]:
        """Return the items ready to be stored: checked, stamped, and as the observers want them."""
        accepted = []
        for given in items:
            item = self._prepared(self._as_read(storable(given)))
            # Where a write waits for others, the caller may change the item meanwhile.
            accepted.append(copy_item(item) if item is given and self._serialises_writes else item)
        if self._observers:
            accepted = [self._observers.before_add(item) for item in accepted]
            accepted = [storable(item) for item in accepted]
            accepted = [self._prepared(self._as_read(item)) for item in accepted]
        return accepted

    def _as_read(self, item: MemoryItem) -> MemoryItem:
        """Return the item as the class it will be read as, so that nothing is stored that could not be read."""
        if type(item) is self.item_types.get(item.memory_type, MemoryItem):
            return item
        return load_item(dump_item(item), self.item_types)

    def _bounds(self, metadata: MemoryMetadata | None) -> MemoryMetadata | None:
        """Return what a filter comes down to, as observers are told it; a scoped handle adds its scope here."""
        return metadata

    def _ensure_open(self) -> None:
        if self._state != "open":
            raise StoreClosedError(repr(self), opened=self._state == "closed")

    def _require(self, capability: Capability) -> None:
        if capability not in self.capabilities:
            raise UnsupportedError(repr(self), f"the capability {capability.value!r}")

    def _checked_mode(self, mode: SearchMode | None) -> SearchMode:
        if mode is None:
            return self.default_mode
        if mode not in ("substring", "text", "semantic", "hybrid"):
            raise InputError(
                f"{mode!r} is no search mode; there are substring, text, semantic and hybrid.", field="mode"
            )
        if mode != "substring":
            self._require(Capability(mode))
        return mode


__all__ = [
    "BASE_CAPABILITIES",
    "EVERYTHING",
    "UNSET",
    "BaseStore",
    "Capability",
    "MemoryStore",
    "RankedItem",
    "Reranker",
    "SearchMode",
    "check_expected",
    "successor",
]
