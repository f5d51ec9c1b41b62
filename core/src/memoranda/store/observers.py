"""The observers of a store, and how it calls them."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from memoranda.errors import MemoryError, PluginError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.plugins.observers import Observer
from memoranda.store.codec import copy_item

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
