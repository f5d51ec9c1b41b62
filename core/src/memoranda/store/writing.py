"""The writing half of the contract: adding, replacing and comparing. See :class:`memoranda.store.Store`."""

from __future__ import annotations

import asyncio
import math
from abc import abstractmethod
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from memoranda.errors import InputError
from memoranda.items import BranchMemory, MemoryItem, MemoryMetadata, sources_of
from memoranda.loops import ITEMS_PER_TURN, LETTERS_SEARCHED_PER_TURN, ROWS_PER_SLICE, in_short_steps, in_slices
from memoranda.shapes import check_text, each, seconds
from memoranda.store.checks import storable
from memoranda.store.codec import copy_item, dump_item, load_item, stored_copy, stored_metadata
from memoranda.store.filters import Filter, check_filter
from memoranda.store.lifecycle import Lifecycle
from memoranda.store.lifetimes import BatchLifetime
from memoranda.store.protocol import Capability
from memoranda.store.records import RECORD_MAKERS, check_record
from memoranda.store.requests import Change, Expected, PackedRows, Packer, Write, conversation_filter


class _MadeFromOthersError(Exception):
    """An item of a large batch was made from others."""


class Writing(Lifecycle):
    """What a store's writing methods promise."""

    @abstractmethod
    def space(self, name: str) -> Writing:
        """Return a handle that is bound to a space."""

    async def add(
        self,
        item: MemoryItem,
        *,
        within: MemoryMetadata | None = None,
        ttl: float | None = None,
        keep_created: bool = False,
        space: str | None = None,
    ) -> None:
        """Store the item. When this returns, it is stored: a persistent store still has it after a crash.

        An id that exists is replaced as a whole and its version goes up by one; it keeps its place in the order of
        adding, and with ``keep_created`` its ``created_at``. An id that was deleted comes back with the new content. An
        id that belongs to another ``user_id``, or to an item outside ``within``, is refused with IdConflictError and
        stays untouched. The caller's item is not changed, and changing it later changes nothing stored.

        ``ttl`` (seconds; capability ``ttl``), or else the item's own ``ttl``, makes the item vanish by itself: from
        that moment on, by the store's ``clock``, it is as if it had been purged. Raises InputError, naming the field,
        for what no store can hold, and for records, which only their makers write: see :mod:`memoranda.store.records`.

        ``space`` stores it in a space instead, as :meth:`memoranda.store.Store.space` allows it.
        """
        self._ensure_open()
        if space is not None:
            await self.space(space).add(item, within=within, ttl=ttl, keep_created=keep_created)
            return
        if within is not None:
            check_filter(within, "within")
        accepted = self._validated(item, None if ttl is None else self._lifetime(ttl))
        bounds = self._within if within is None else within
        living = self._living
        now = living.lifetimes.now(living.clock) if living.lifetimes.in_use else ""
        await self._submit(Write([accepted], bounds, keep_created=keep_created, now=now))

    async def add_many(
        self,
        items: Iterable[MemoryItem],
        *,
        within: MemoryMetadata | None = None,
        ttl: float | None = None,
        deleted: Collection[str] = (),
        keep_created: bool = False,
        space: str | None = None,
    ) -> None:
        """Store several items, in their order, as :meth:`add` does each.

        All are checked before any is written. A store with the capability ``atomic`` writes all or none; another may
        have written the first ones when it raises.

        ``deleted`` holds the ids of those that arrive deleted, as after :meth:`delete`: no search shows them at any
        moment, not even if the process dies in between, and :meth:`restore` shows them. It is for copies of other
        stores, needs the capability ``add_deleted`` and takes no ``ttl``; an id that is not among the items is an
        InputError. Observers may change these items before they are stored, and get no notice of them afterwards.
        """
        self._ensure_open()
        if space is not None:
            place = self.space(space)
            await place.add_many(items, within=within, ttl=ttl, deleted=deleted, keep_created=keep_created)
            return
        check_filter(within, "within")
        given, pack = each(items, "items", "memory items"), self.engine.packer
        if pack is not None and len(given) > ITEMS_PER_TURN and not self._observers and not deleted:
            rows = PackedRows(lambda: self._packed(given, ttl, pack), len(given))
            with suppress(_MadeFromOthersError):  # Layers look at such items, and they see no rows.
                await self._submit(Write(within=within, keep_created=keep_created, packed=rows))
                return
        batch = await self._accepted(given, ttl)
        hidden = self._arriving_deleted(batch, ttl, deleted)
        if batch:
            # The items of a large batch are copies, which the engine may keep as they are unless they change.
            owned = len(batch) > ITEMS_PER_TURN and not keep_created
            await self._submit(Write(batch, within, hidden, keep_created=keep_created, owned=owned))

    async def append(
        self,
        items: Iterable[MemoryItem],
        *,
        after: str | None,
        within: MemoryMetadata | None = None,
        ttl: float | None = None,
    ) -> str:
        """Store a whole turn, if the conversation has not gone on meanwhile, and return the id of its last item.

        The items are new, and of one conversation: one ``user_id`` and one ``session_id``. ``after`` is the id that
        :meth:`head` gave before the turn was thought of, None for a conversation that was empty. If the conversation
        has gone on since, TurnConflictError is raised and nothing is stored: of several who answer the same message
        with ``append``, one is heard, and no two turns are ever mixed. An id that exists is a VersionConflictError.
        """
        self._ensure_open()
        check_filter(within, "within")
        if after is not None:
            check_text(after, "after")
        batch = await self._accepted(items, ttl)
        expected = Expected(conversation_filter(batch), after)
        written = await self._submit(Write(batch, within, fresh=True, expected=expected))
        shown = written.items if self._observers else batch
        return shown[-1].id if shown else after or ""

    async def apply(
        self,
        *,
        adds: Iterable[MemoryItem] = (),
        deletes: Iterable[str] = (),
        within: MemoryMetadata | None = None,
        ttl: float | None = None,
        keep_created: bool = False,
        purge: bool = False,
    ) -> int:
        """Delete some items and store others, all or none, and return how many were deleted.

        The capability ``atomic`` promises all or none. Deleting is what :meth:`clear` does, or with ``purge`` what
        :meth:`purge` does; ids that are not there, or lie outside ``within``, are passed over. Adding is what
        :meth:`add_many` does. An id that is to be both deleted and added is an InputError.
        """
        self._ensure_open()
        check_filter(within, "within")
        batch = await self._accepted(adds, ttl)
        gone = list(dict.fromkeys(check_text(item_id, "deletes") for item_id in each(deletes, "deletes", "ids")))
        if not {item.id for item in batch}.isdisjoint(gone):
            raise InputError("apply() cannot both add and delete the same id.", field="deletes")
        if purge:
            self._require(Capability.PURGE)
        if not batch and not gone:
            return 0
        written = await self._submit(Write(batch, within, deletes=gone, keep_created=keep_created, purge=purge))
        return written.changed

    async def update(self, item: MemoryItem, *, within: MemoryMetadata | None = None) -> MemoryItem:
        """Replace the item if the store still has the version it carries, and return it with its new version.

        Version 0 means that there must be no such item yet. Otherwise raises VersionConflictError and changes nothing;
        an item outside ``within`` raises IdConflictError.
        """
        return (await self._updated([item], within))[0]

    async def update_many(
        self, items: Iterable[MemoryItem], *, within: MemoryMetadata | None = None
    ) -> list[MemoryItem]:
        """Compare-and-set several items: each as :meth:`update` does it, all or none.

        An id that occurs twice is an InputError. On a store without the capability ``atomic`` a crash, but no error of
        its own, may leave the first ones written.
        """
        return await self._updated(items, within)

    async def _updated(self, items: Iterable[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        self._ensure_open()
        check_filter(within, "within")
        batch = await self._accepted(items, None)
        if len({item.id for item in batch}) != len(batch):
            raise InputError("update_many takes each id once.", field="id")
        if not batch:
            return []
        return list((await self._submit(Write(batch, within, compared=True))).items)

    async def touch(
        self, ids: Iterable[str], *, ttl: float | None = None, metadata: MemoryMetadata | None = None
    ) -> int:
        """Let items live ``ttl`` seconds from now on, and return how many of them there were.

        Without ``ttl`` each lives its own ttl once more, and items that have none are left alone; ``math.inf`` lets
        them stay for good. Content, times and version stay as they are. Capability ``ttl``.
        """
        self._ensure_open()
        self._require(Capability.TTL)
        check_filter(metadata)
        wanted = list(dict.fromkeys(check_text(item_id, "ids") for item_id in each(ids, "ids", "ids")))
        if ttl is not None and ttl != math.inf:
            ttl = seconds(ttl, "ttl")
        if not wanted:
            return 0
        within = Filter(metadata=metadata, archived=None)
        touch = Change("touch", within, wanted, ttl=ttl, now=self._living.now())
        return (await self._submit(Write(change=touch))).changed

    async def sweep(self) -> int:
        """Remove expired items for good, and return how many there were. Capability ``ttl``.

        There is no need to call it: expired items are never shown, and later calls sweep them.
        """
        self._ensure_open()
        self._require(Capability.TTL)
        return (await self._submit(Write(change=Change("sweep", self._living.expired())))).changed

    # The way of an item: checked, typed, prepared by the layers, written.

    async def _accepted(self, items: Iterable[MemoryItem], ttl: float | None) -> list[MemoryItem]:
        """Return the items as they will be stored. Large batches are copied and validated in a thread, by slices."""
        given, life = each(items, "items", "memory items"), self._lifetime(ttl)
        if len(given) <= ITEMS_PER_TURN:
            return [self._validated(item, life) for item in given]
        finished = []
        shared: dict[int, MemoryMetadata] = {}
        async for some in in_slices(given, ITEMS_PER_TURN):
            finished += await self._validated_aside(some, shared, life)
        self._ensure_open()
        return finished

    async def _packed(
        self, items: Sequence[MemoryItem], ttl: float | None, pack: Packer
    ) -> AsyncGenerator[list[Any], None]:
        """Yield the rows of a large batch. They are made where the items are validated, so that nothing is copied.

        Raises _MadeFromOthersError for an item that was made from others, and StoreClosedError once closing has begun.
        """
        rows: list[Any] = []
        shared: dict[int, MemoryMetadata] = {}
        life = self._lifetime(ttl)
        async for some in in_short_steps(items):
            texts = [getattr(item, "content", "") for item in some]
            if sum([len(text) for text in texts if isinstance(text, str)]) > LETTERS_SEARCHED_PER_TURN:
                validated = await self._validated_aside(some, shared, life)
            else:
                validated = [self._validated(item, life, copied=True) for item in some]
            if any(map(sources_of, validated)):
                raise _MadeFromOthersError
            rows += pack(validated)
            if len(rows) >= ROWS_PER_SLICE:
                self._ensure_open()
                yield rows
                rows = []
        self._ensure_open()
        yield rows

    async def _validated_aside(
        self, items: Sequence[MemoryItem], shared: dict[int, MemoryMetadata], life: BatchLifetime
    ) -> list[MemoryItem]:
        """Validate in a thread. The caller may change an item meanwhile, so it is a copy that is validated."""
        copies = [_copied(item, shared) if isinstance(item, MemoryItem) else item for item in items]
        return await asyncio.to_thread(lambda: [self._validated(item, life, copied=True) for item in copies])

    def _validated(self, given: MemoryItem, life: BatchLifetime | None, *, copied: bool = False) -> MemoryItem:
        """Return the item checked, of the class that it is read as, and prepared by the layers."""
        item = self._typed(storable(given))
        if item.memory_type in RECORD_MAKERS:
            check_record(item)
        if life is not None or item.ttl is not None or item.expires_at is not None:
            item = (life or self._lifetime(None)).given_to(item)
            self._check_life(item)
        item = self.engine.prepare(item)
        # Where observers are asked before an item is written, the caller may change it meanwhile.
        return copy_item(item) if item is given and not copied and self._observers.active else item

    def _rechecked(self, item: MemoryItem) -> MemoryItem:
        """Return an item that an observer has changed, checked again and prepared."""
        item = BatchLifetime(None, self._living.now).given_to(self._typed(storable(item)))
        self._check_life(item)
        return self.engine.prepare(item)

    def _typed(self, item: MemoryItem) -> MemoryItem:
        """Return the item as the class that it will be read as.

        Every item that a store is given comes by here, so this is where the records of branches are refused.
        """
        if self.wrapper is not None:
            item = self._unwrapped(item)
        given = type(item)
        if given is not self.item_types.get(item.memory_type, MemoryItem):
            item = load_item(dump_item(item), self.item_types)
        if item.memory_type == "branch" or _is_of_branches(given) or _is_of_branches(type(item)):
            raise InputError(
                f"{item.id!r} is the record of a branch, which only fork() makes. To copy a branch from another store, "
                f"call fork(record.parent, at=record.at, record=record).",
                field="memory_type",
            )
        return item

    def _unwrapped(self, item: MemoryItem) -> MemoryItem:
        """Return an item in its form outside the store's wrapper. Raises WrappedStoreError without the wrapper."""
        self._refuse_wrapped()
        assert self.wrapping is not None, "refused otherwise"
        return self.wrapping.unwrapped(item)

    def _lifetime(self, ttl: float | None) -> BatchLifetime:
        """Return the lifetime of the items of one call."""
        if ttl is not None:
            self._require(Capability.TTL)
            ttl = seconds(ttl, "ttl")
        return BatchLifetime(ttl, self._living.now)

    def _arriving_deleted(
        self, batch: Sequence[MemoryItem], ttl: float | None, deleted: Collection[str]
    ) -> frozenset[str]:
        if not deleted:
            return frozenset()
        self._require(Capability.ADD_DELETED)
        if ttl is not None:
            raise InputError("An item that arrives deleted takes no ttl.", field="ttl")
        hidden = frozenset({deleted} if isinstance(deleted, str) else each(deleted, "deleted", "ids"))
        if not hidden <= {item.id for item in batch}:
            raise InputError("deleted names an id that is not among the items.", field="deleted")
        return hidden


async def add_with_vectors(
    store: Writing, items: Iterable[MemoryItem], vectors: Any, *, within: MemoryMetadata | None = None
) -> None:
    """Store several items, as :meth:`Writing.add_many` does, with vectors that the engine then need not make.

    For a store whose engine keeps vectors: they reach it as ``vectors`` of the :class:`~memoranda.store.backend.Write`.
    """
    store._ensure_open()
    check_filter(within, "within")
    batch = await store._accepted(items, None)
    if batch:
        await store._submit(Write(batch, within, owned=len(batch) > ITEMS_PER_TURN, vectors=vectors))


def _copied(item: MemoryItem, shared: dict[int, MemoryMetadata]) -> MemoryItem:
    """Return a copy for a store alone; those of items that share their metadata share it, too."""
    metadata, known = item.metadata, shared.get(id(item.metadata))
    if known is None or known.extra or known.__dict__ != metadata.__dict__:  # Another may have that id by now.
        known = shared[id(metadata)] = stored_metadata(metadata)
    return stored_copy(item, item.version, known)


@cache
def _is_of_branches(cls: type[MemoryItem]) -> bool:
    return issubclass(cls, BranchMemory)
