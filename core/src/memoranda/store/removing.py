"""The removing part of the contract: clearing, deleting, taking, purging. See :class:`memoranda.store.BaseStore`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.shapes import check_text
from memoranda.store.branches import MARK
from memoranda.store.engine import Engine
from memoranda.store.filters import Filter, Narrowing, check_clearing, check_filter
from memoranda.store.protocol import Capability
from memoranda.store.values import Value

NO_RECORD = Value("memory_type", False, "$ne", "branch")
"""What holds for all items but the records of branches."""


class Removing(Engine):
    """What a store's removing methods promise."""

    async def clear(self, *, metadata: MemoryMetadata | None = None, **narrowing: Unpack[Narrowing]) -> int:
        """Remove the items that match, archived ones too, and return how many; without a filter, all of them.

        Filters are those of :meth:`search`. A store with the capability ``delete`` keeps them as deleted, and
        :meth:`restore` brings them back. An empty ``MemoryMetadata()`` is an InputError.
        """
        self._ensure_open()
        check_clearing(metadata)
        wanted = self._removed(metadata, **narrowing)
        async with self._alone():
            removed = await self._clear(wanted)
        self._observers.cleared(self._bounds(metadata), removed)
        return removed

    async def pop(
        self,
        *,
        metadata: MemoryMetadata | None = None,
        memory_type: str | None = None,
        where: Mapping[str, Any] | None = None,
        purge: bool = False,
    ) -> MemoryItem | None:
        """Remove the item that was added last of those that match, and return it; None if there is none.

        However many call at the same time, each item is returned once. Removing is what :meth:`clear` does; with
        ``purge`` nothing of it is left, as after :meth:`purge`. Archived items are not looked at.
        """
        self._ensure_open()
        if purge:
            self._require(Capability.PURGE)
        wanted = self._filter(metadata=metadata, memory_type=memory_type, where=where)
        async with self._alone():
            popped = await self._pop(wanted, purge)
        if popped is not None:
            self._observers.cleared(self._bounds(metadata), 1)
        if popped is not None and purge:
            await self._observers.wait("purging", self, wanted, [popped], False)
            await self._observers.wait("purged")
        return popped

    async def delete(self, item_id: str, *, metadata: MemoryMetadata | None = None) -> bool:
        """Delete the item and return whether one matched. It can be restored. Capability ``delete``."""
        self._ensure_open()
        self._require(Capability.DELETE)
        check_text(item_id, "item_id")
        check_filter(metadata)
        async with self._alone():
            await self._make_room([item_id])
            deleted = await self._delete(item_id, metadata)
        if deleted:
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
        wanted = self._filter(metadata=metadata, archived=None)
        async with self._alone():
            return await self._restore(item_id, wanted)

    async def purge(
        self,
        item_id: str | None = None,
        *,
        metadata: MemoryMetadata | None = None,
        deleted_only: bool = False,
        **narrowing: Unpack[Narrowing],
    ) -> int:
        """Remove items for good, deleted ones too, with every trace in every index, and return how many.

        Name an id, a filter, or ``deleted_only`` to empty the bin; none of the three is an InputError, and so is an
        empty ``MemoryMetadata()``. Filters are those of :meth:`search`. A purged id can be used again by anyone. What
        has expired goes too, and does not count. Capability ``purge``.
        """
        self._ensure_open()
        self._require(Capability.PURGE)
        check_clearing(metadata)
        filtered = metadata is not None or any(narrowing.values())
        if item_id is None and not filtered and not deleted_only and not self._bounded:
            raise InputError("purge() needs an item id, a filter, or deleted_only=True.", field="metadata")
        if item_id is not None:
            check_text(item_id, "item_id")
        wanted = self._removed(metadata, item_id, **narrowing)
        await self._observers.wait("purging", self, wanted, None if item_id is None else [item_id], deleted_only)
        async with self._alone():
            if self._lifetimes.in_use:
                await self._sweep(self._expired(metadata=metadata))
            purged = await self._purge(item_id, wanted, deleted_only)
        self._observers.cleared(self._bounds(metadata), purged)
        await self._observers.wait("purged")
        return purged

    def _removed(self, metadata: MemoryMetadata | None, item_id: str | None = None, **named: Any) -> Filter:
        """Return the filter of what is to be removed. Removing a part of a branch leaves where it comes from."""
        wanted, bounds = self._filter(metadata=metadata, archived=None, **named), self._bounds(metadata)
        if item_id is not None or bounds is None or bounds.session_id is None or not bounds.session_id.startswith(MARK):
            return wanted
        whole = MemoryMetadata(user_id=bounds.user_id, session_id=bounds.session_id)
        return wanted.also(NO_RECORD) if any(named.values()) or bounds != whole else wanted
