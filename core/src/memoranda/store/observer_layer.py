"""The layer of observers: it asks them before items are stored, and tells them what was done."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any

from memoranda.errors import InputError, UnsupportedError, VersionConflictError
from memoranda.items import MemoryItem
from memoranda.store.codec import dump_item
from memoranda.store.engine import Engine, Layer, as_it_is
from memoranda.store.filters import Filter
from memoranda.store.granting import follow_grants
from memoranda.store.observers import Observers
from memoranda.store.protocol import Capability
from memoranda.store.query import Query, items_of_ids
from memoranda.store.values import Value
from memoranda.store.writes import NOTHING_CHANGED, Change, Write, Written

logger = logging.getLogger(__name__)


class ObserverLayer(Layer):
    """Carries the observers of one store or handle, which ``store`` gives: nothing is called without it."""

    name = "observers"

    def __init__(self, inner: Engine, observers: Observers, store: Callable[[], Any]) -> None:
        super().__init__(inner)
        self.observers = observers
        self._store = store

    def stand_on(self, inner: Engine) -> None:
        """Make this the engine inside."""
        super().stand_on(inner)
        if self._prepare_inside is as_it_is:
            self.__dict__["prepare"] = as_it_is

    def prepare(self, item: MemoryItem) -> MemoryItem:
        """Return an item as those inside want it; where observers may still change it, that comes after them."""
        return item if self.observers.active else self._prepare_inside(item)

    def write(self, write: Write) -> Coroutine[Any, Any, Written]:
        """Carry out a write as the observers want it."""
        if write.change is not None:
            return self._changed(write, write.change)
        if not self.observers.active and not write.deletes:
            return self.inner.write(write)
        return self._batch(write)

    async def _batch(self, write: Write) -> Written:
        if write.purge and write.deletes:
            within = Filter(metadata=write.within, archived=None)
            await self._purging(within, write.deletes, False)
        asked = await self._observed(write) if write.adds and self.observers.active else write
        write, written = await self._written(asked)
        if written.changed:
            self.observers.cleared(write.within, written.changed)
            if write.purge:
                await self.observers.wait("purged")
        shown = written.items if write.compared else [item for item in write.adds if item.id not in write.hidden]
        self.observers.added(shown)
        return Written(written.changed, shown)

    async def _written(self, asked: Write) -> tuple[Write, Written]:
        """Write a batch without what observers hide from it, and return it as it was written."""
        write = await self._withholding(asked) if asked.adds and self.observers.active else asked
        if not write.adds and not write.packed and not write.deletes:
            return write, NOTHING_CHANGED
        try:
            return write, await self.inner.write(write)
        except VersionConflictError as error:
            if error.item_id not in write.new or not await self._taken({error.item_id}, write):
                raise
            # Another task took the id since it was looked up. What an observer hides replaces nothing, so look again.
            return await self._written(asked)

    async def _changed(self, write: Write, change: Change) -> Written:
        if change.action == "purge":
            await self._purging(change.wanted, change.ids, change.deleted_only)
        written = await self.inner.write(write)
        if change.action in ("restore", "sweep", "touch", "mark"):
            return written
        # A search for one thing tells nothing if there was none; clearing and purging always tell.
        if written.changed or (change.action != "pop" and change.ids is None) or change.action == "purge":
            self.observers.cleared(change.wanted.metadata, written.changed)
        if change.action == "pop" and change.purge and written.items:
            await self._purging(change.wanted, written.items, False)
            await self.observers.wait("purged")
        elif change.action == "purge":
            await self.observers.wait("purged")
        return written

    async def _purging(self, wanted: Filter, ids: Sequence[str | MemoryItem] | None, deleted_only: bool) -> None:
        """Ask the observers to follow what is about to be purged, or was popped."""
        await follow_grants(self._store().root)
        await self.observers.wait("purging", self._store(), wanted, ids, deleted_only)

    async def _observed(self, write: Write) -> Write:
        """Return the write with its items as the observers want them stored."""
        known, accept = await self._known(write), self._store()._rechecked
        asked = [item if id(item) in known else accept(self._changed_by_observers(item)) for item in write.adds]
        return write.but(adds=[self._prepare_inside(item) for item in asked], owned=False)

    def _changed_by_observers(self, item: MemoryItem) -> MemoryItem:
        changed = self.observers.before_add(item)
        if changed.ttl != item.ttl and changed.expires_at == item.expires_at:
            changed.__dict__["expires_at"] = None  # Its end follows from its new ttl.
        return changed

    async def _known(self, write: Write) -> frozenset[int]:
        """Return which objects are items just as they are stored, that only become archived, or come back.

        Observers have been asked about those. What says so and is not stored like this is new to them.
        """
        named = [
            item for item in write.adds if item.version and (write.compared or item.archived_by not in (None, item.id))
        ]
        if not named:
            return frozenset()
        held = await self.inner.read(items_of_ids(sorted({item.id for item in named})))
        stored = {item.id: item for item in held}
        return frozenset(id(item) for item in named if item.id in stored and _only_moves(item, stored[item.id]))

    async def _withholding(self, write: Write) -> Write:
        """Return the write with what observers hide arriving deleted.

        That replaces nothing: where its id is taken, by a deleted item too, it is left out. Behind each of the others
        comes what an observer shows in its place.
        """
        hidden = self.observers.hidden(write.adds) - write.hidden
        if not hidden:
            return write
        if write.compared:
            raise InputError(f"The item {min(hidden)!r} was not stored: an observer withholds it.", field="id")
        if Capability.ADD_DELETED not in self.capabilities:
            raise UnsupportedError(self._store().label, f"the capability {Capability.ADD_DELETED.value!r}")
        taken = await self._taken(hidden, write)
        if taken:
            logger.warning("Withheld and not stored, since the ids are taken: %s.", ", ".join(sorted(taken)))
        adds: list[MemoryItem] = []
        for item in write.adds:
            if item.id not in hidden:
                adds.append(item)
            elif item.id not in taken:
                adds += [item, *self.observers.stand_ins(item)]
        new = frozenset(hidden - taken)
        # Vectors that came with the batch are those of other items now: the engine makes them anew.
        return write.but(adds=adds, hidden=write.hidden | new, new=new, vectors=None)

    async def _taken(self, ids: Collection[str], write: Write) -> set[str]:
        """Return which of these ids are held by an item that this store or handle reaches, deleted or not."""
        wanted = Filter(metadata=write.within, archived=None, further=(Value("id", False, "$in", sorted(ids)),))
        deleted = Capability.DELETE in self.capabilities
        return {item.id async for item in self.inner.stream(Query(wanted, deleted=deleted))}


def _only_moves(item: MemoryItem, stored: MemoryItem) -> bool:
    """Return True if an item differs from what is stored in what it is archived by, and in nothing else."""
    if item.archived_by == stored.archived_by:
        return False
    changes = {"archived_by": stored.archived_by, "updated_at": stored.updated_at}
    return dump_item(item.model_copy(update=changes)) == dump_item(stored)
