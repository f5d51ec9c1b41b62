"""The observers of a store, how it calls them, and the layer that asks them about what is read and written."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from typing import Any

from memoranda.errors import InputError, MemoryError, PluginError, UnsupportedError, VersionConflictError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.plugins.observers import Observer
from memoranda.store.codec import copy_item, dump_item
from memoranda.store.engine import Engine, Layer, as_it_is
from memoranda.store.filters import Filter
from memoranda.store.granting import follow_grants
from memoranda.store.protocol import Capability
from memoranda.store.requests import NOTHING_CHANGED, Change, Query, Write, Written, items_of_ids
from memoranda.store.values import Value

logger = logging.getLogger(__name__)


class Observers:
    """The observers of one store, in the order of their registration.

    Those of a scoped handle come after all of ``outer``, its store's, which never hear of them.
    """

    def __init__(self, outer: Observers | None = None) -> None:
        self._outer = outer
        self._observers: list[Observer] = []
        self._handles: weakref.WeakSet[Observers] | None = None
        self.active: bool = outer is not None and outer.active
        """True if one of them hears of more than removals. Every write looks at it, so that it is no property."""
        if outer is not None and not self.active:
            outer._handles = weakref.WeakSet() if outer._handles is None else outer._handles
            outer._handles.add(self)

    def __bool__(self) -> bool:
        return self.active

    def __iter__(self) -> Iterator[Observer]:
        every, outer = self._observers, self._outer
        while outer is not None:
            every, outer = [*outer._observers, *every], outer._outer
        return iter(every)

    def register(self, observer: Observer) -> None:
        """Add an observer after those that are there."""
        self._observers.append(observer)
        if not getattr(observer, "only_removals", False):
            self._activate()

    def _activate(self) -> None:
        self.active = True
        for handle in self._handles or ():
            handle._activate()

    def attach(self, store: object) -> None:
        """Give the store, or a handle of it, to all that ask for it."""
        self._tell(lambda observer: getattr(observer, "attached", lambda store: None)(store))

    def before_add(self, item: MemoryItem) -> MemoryItem:
        """Return the item as the observers want it stored; its id and owner are not theirs to change."""
        changed = copy_item(item)
        for observer in self:
            try:
                changed = observer.before_add(changed)
            except MemoryError:
                raise
            except Exception as error:
                raise PluginError(
                    f"The observer {type(observer).__name__} failed on the item {item.id!r}, which was not stored: "
                    f"{type(error).__name__}."
                ) from error
        owner = (item.id, item.metadata.user_id)
        if not isinstance(changed, MemoryItem) or (changed.id, changed.metadata.user_id) != owner:
            raise PluginError(f"An observer changed the id or owner of the item {item.id!r}, which was not stored.")
        return changed

    def hidden(self, items: Sequence[MemoryItem]) -> set[str]:
        """Return the ids of the items that an observer hides."""
        hiding = [observer for observer in self if hasattr(observer, "hides")]  # Some are of a class of their own.
        return {item.id for item in items if any(observer.hides(item) for observer in hiding)}

    def stand_ins(self, item: MemoryItem) -> list[MemoryItem]:
        """Return what observers show in the place of an item that they hide."""
        asked = [observer.stand_in(item) for observer in self if hasattr(observer, "stand_in")]
        return [shown for shown in asked if shown is not None]

    def added(self, items: Sequence[MemoryItem]) -> None:
        """Tell all of stored items."""
        if items and self:
            self._tell(lambda observer: observer.added([copy_item(item) for item in items]))

    def searched(self, query: str, items: Sequence[MemoryItem]) -> None:
        """Tell of a search all that listen to searches: each is given copies of its own."""

        def tell(observer: Observer) -> None:
            if getattr(type(observer), "searched", None) is not Observer.searched:
                observer.searched(query, [copy_item(item) for item in items])

        if self.active:
            self._tell(tell)

    def cleared(self, metadata: MemoryMetadata | None, removed: int) -> None:
        """Tell all of a removal."""
        self._tell(lambda observer: observer.cleared(metadata, removed))

    async def wait(self, hook: str, *given: Any) -> None:
        """Wait for observers that have a method of this name: ``purging`` before a purge, ``purged`` after it."""
        for method in [getattr(observer, hook) for observer in self if hasattr(observer, hook)]:
            await method(*given)

    def _tell(self, call: Callable[[Observer], Any]) -> None:
        for observer in self:
            try:
                call(observer)
            except Exception as error:  # an observer's mistake must not undo or hide the store's work
                # The traceback may quote memory content, so it is kept for DEBUG.
                logger.error("The observer %s failed: %s.", type(observer).__name__, type(error).__name__)
                logger.debug("What the observer raised:", exc_info=error)


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
        if not write.adds and write.packed is None and not write.deletes:
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
