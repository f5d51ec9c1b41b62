"""Observers: plugins that are called for what a store does, and may change an item before it is stored."""

from __future__ import annotations

from collections.abc import Sequence

from memoranda.errors import PluginError
from memoranda.items import MemoryItem, MemoryMetadata


class Observer:
    """Called for what a store does. Override the methods you need; those here do nothing.

    A failure in :meth:`before_add` refuses the add: an observer that redacts must not be skipped. A failure in the
    others is logged and changes nothing, since the store has already done its work. One that waits for :meth:`cleared`
    alone sets ``only_removals = True``: a store is as fast as without it. A purge waits for an async ``purged()``, and
    before it for ``purging(store, wanted, ids, deleted_only)``, with the item itself if it is gone already. One with a
    method ``attached(store)`` is given the store and each handle of it, as ``memoranda_otel.measuring`` needs
    them. One that knows something of users has async ``known(handle, owner, *, tokens, counter, min_trust, at)`` and
    ``outdated(handle, owner, ids, *, min_trust, at)``: they answer :meth:`memoranda.store.Store.known` and
    ``outdated``.
    """

    def before_add(self, item: MemoryItem) -> MemoryItem:
        """Return the item to store instead of this one, or the item itself. It is a copy and may be changed."""
        return item

    def hides(self, item: MemoryItem) -> bool:
        """Return True for an item, as :meth:`before_add` returned it, that must not be seen: it arrives deleted."""
        return False

    def stand_in(self, item: MemoryItem) -> MemoryItem | None:
        """Return an item of another id that is shown in the place of one that this observer hides, None for none."""
        return None

    def added(self, items: Sequence[MemoryItem]) -> None:
        """Called after these items were stored."""

    def searched(self, query: str, items: Sequence[MemoryItem]) -> None:
        """Called after a search returned these items."""

    def cleared(self, metadata: MemoryMetadata | None, removed: int) -> None:
        """Called after this many items were removed."""


class MissingObserver(Observer):
    """Stands in for a required observer that could not be made: nothing is stored without it."""

    def __init__(self, name: str, reason: str) -> None:
        self._name = name
        self._reason = reason

    def before_add(self, item: MemoryItem) -> MemoryItem:
        """Refuse the item."""
        raise PluginError(
            f"The item {item.id!r} was not stored: the observer {self._name!r} is required and missing. {self._reason} "
            f"Mend or uninstall its plugin."
        )
