"""The removing part of the contract: clearing, deleting, taking, purging. See :class:`memoranda.store.Store`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.shapes import check_text
from memoranda.store.branch_layer import MARK
from memoranda.store.filters import Filter, Narrowing, check_clearing, check_filter
from memoranda.store.lifecycle import Lifecycle
from memoranda.store.owners import DIRECTORY
from memoranda.store.protocol import Capability
from memoranda.store.requests import Change, Write
from memoranda.store.values import Value

NO_RECORD = Value("memory_type", False, "$ne", "branch")
"""What holds for all items but the records of branches."""

NO_GRANT = Value("user_id", False, "$ne", DIRECTORY)
"""What holds for all items but grants, and what is noted beside them."""


class Removing(Lifecycle):
    """What a store's removing methods promise."""

    async def clear(self, *, metadata: MemoryMetadata | None = None, **narrowing: Unpack[Narrowing]) -> int:
        """Remove the items that match, archived ones too, and return how many; without a filter, all of them.

        Filters are those of :meth:`search`. A store with the capability ``delete`` keeps them as deleted, and
        :meth:`restore` brings them back. An empty ``MemoryMetadata()`` is an InputError. A filter that names no user
        leaves grants of spaces as they are.
        """
        self._ensure_open()
        check_clearing(metadata)
        wanted = self._removed(metadata, **narrowing)
        return (await self._submit(Write(change=Change("delete", wanted)))).changed

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
        popped = (await self._submit(Write(change=Change("pop", wanted, purge=purge)))).items
        return popped[0] if popped else None

    async def delete(self, item_id: str, *, metadata: MemoryMetadata | None = None) -> bool:
        """Delete the item and return whether one matched. It can be restored. Capability ``delete``."""
        self._ensure_open()
        self._require(Capability.DELETE)
        check_text(item_id, "item_id")
        check_filter(metadata)
        within = Filter(metadata=metadata, archived=None)
        return (await self._submit(Write(change=Change("delete", within, [item_id])))).changed > 0

    async def restore(self, item_id: str | None = None, *, metadata: MemoryMetadata | None = None) -> int:
        """Bring back what :meth:`delete` or :meth:`clear` hid and return how many: one id, or all that match.

        Content and version are as they were. Capability ``delete``.
        """
        self._ensure_open()
        self._require(Capability.DELETE)
        if item_id is not None:
            check_text(item_id, "item_id")
        wanted = self._filter(metadata=metadata, archived=None)
        ids = None if item_id is None else [item_id]
        return (await self._submit(Write(change=Change("restore", wanted, ids)))).changed

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
        empty ``MemoryMetadata()``. Filters are those of :meth:`clear`. A purged id can be used again by anyone. What
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
        ids = None if item_id is None else [item_id]
        return (await self._submit(Write(change=Change("purge", wanted, ids, deleted_only=deleted_only)))).changed

    def _removed(self, metadata: MemoryMetadata | None, item_id: str | None = None, **named: Any) -> Filter:
        """Return the filter of what is to be removed. Removing a part of a branch leaves where it comes from.

        A session, a task or a time says nothing about grants, which have the names of their grantees and spaces there.
        """
        wanted, bounds = self._filter(metadata=metadata, archived=None, **named), self._bounds(metadata)
        narrowed = metadata is not None or any(named.values())
        if narrowed and item_id is None and (bounds is None or bounds.user_id is None):
            wanted = wanted.also(NO_GRANT)
        if item_id is not None or bounds is None or bounds.session_id is None or not bounds.session_id.startswith(MARK):
            return wanted
        whole = MemoryMetadata(user_id=bounds.user_id, session_id=bounds.session_id)
        return wanted.also(NO_RECORD) if any(named.values()) or bounds != whole else wanted
