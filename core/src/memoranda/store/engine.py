"""What a backend writes: four small methods, and what is built from them unless the backend does it better.

Public methods check, stamp and tell observers before they come here: see :class:`memoranda.store.base.BaseStore`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, ClassVar, Literal, Self

from memoranda.errors import InputError, StoreClosedError, UnsupportedError, VersionConflictError, shown
from memoranda.items import BUILTIN_TYPES, MemoryItem, MemoryMetadata
from memoranda.ranking.results import RankedItem, Reranker
from memoranda.ranking.scopes import rank_scope, ranking_weight
from memoranda.store.capabilities import BASE_CAPABILITIES, Capability, SearchMode
from memoranda.store.filters import Filter
from memoranda.store.observers import Observers
from memoranda.store.succession import check_expected, check_owner
from memoranda.turns import aside

EVERYTHING = 2**62
"""A limit that means all; it fits every engine's integer."""

_NOBODY_WAITS: AbstractAsyncContextManager[object] = nullcontext()


class Engine(ABC):
    """The backend's side of a store: its state, its declarations, and the methods that reach the engine underneath."""

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
        cls._serialises_writes = cls._update_many is Engine._update_many

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
    async def _search(self, wanted: Filter, limit: int) -> list[MemoryItem]:
        """Return copies of at most ``limit`` (>= 1) items for which ``wanted.matches(item)``, newest first."""

    @abstractmethod
    async def _clear(self, wanted: Filter) -> int:
        """Remove the items that match and return how many; with the capability ``delete`` they can be restored."""

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
        """Store items of which those with the ids in ``deleted`` are deleted from the first moment.

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
        scope = await self._search(wanted.scope(), EVERYTHING)
        return await aside(ranking_weight(scope), rank_scope, query, scope, wanted.matches, limit)

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
        return self._write_lock if self._serialises_writes else _NOBODY_WAITS

    def _prepared(self, item: MemoryItem) -> MemoryItem:
        """Return the item as it is to be stored; a scoped handle stamps it here."""
        return item

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
                f"{shown(mode, text=True)} is no search mode; there are substring, text, semantic and hybrid.",
                field="mode",
            )
        if mode != "substring":
            self._require(Capability(mode))
        return mode
