"""What an engine holds that cannot be shown: items of forgotten users, as a restored backup has them.

Forgetting a user purges the items and destroys the keys, so that there is nothing left to look for. A backup brings
the items back. The engine would count them, and list their owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.items import MemoryMetadata
from memoranda.offloading import offload
from memoranda.store.backend import Filter, Listing, items_where
from memoranda_encrypt.sealing import is_sealed, key_id_of, sealed_text

if TYPE_CHECKING:
    from memoranda.items import MemoryItem
    from memoranda_encrypt.opened_items import Encryption


class Leftovers:
    """Tells if the engine may be asked how much there is, or if its items have to be looked at.

    What was found of a user holds until keys are destroyed again: until then, only a backup that is restored while the
    store is open brings items back.
    """

    def __init__(self, layer: Encryption) -> None:
        self._layer = layer
        self._epoch = -1
        self._destroyed: frozenset[str] = frozenset()
        self._owners: frozenset[str] = frozenset()
        self._found: dict[str, bool] = {}

    async def _follow(self) -> None:
        """Learn which keys were destroyed, if any may have been since the last time."""
        ring = self._layer.ring
        if self._epoch != ring.epoch:
            epoch = ring.epoch
            keys: dict[str, str] = await offload(1 << 30, ring.destroyed)
            if self._destroyed != keys.keys():
                self._destroyed, self._owners = frozenset(keys), frozenset(keys.values())
                self._found.clear()
            self._epoch = epoch

    async def is_possible(self, wanted: Filter, *, include_deleted: bool) -> bool:
        """Return True if items that match a filter may be a forgotten user's."""
        await self._follow()
        if not self._destroyed:
            return False
        user = None if wanted.metadata is None else wanted.metadata.user_id
        if user is not None:
            return await self._has_any(user)
        if include_deleted or self._layer.opener.names.hidden:
            return True  # The engine lists neither the owners of deleted items, nor names that are hidden.
        users = self._layer.inner.owners(Listing("user_id", counts=False), items_where(Filter(archived=None)))
        return any([await self._has_any(str(owner.value)) async for owner in users])

    async def _has_any(self, user_id: str) -> bool:
        if self._layer.ring.owner(user_id) not in self._owners:
            return False
        if user_id not in self._found:
            theirs = self._layer.opener.divided(Filter(metadata=MemoryMetadata(user_id=user_id), archived=None)).stored
            self._found[user_id] = any([self.is_one(stored) async for stored in self._layer.all_stored(theirs)])
        return self._found[user_id]

    def is_one(self, stored: MemoryItem) -> bool:
        """Return True if the key of a stored item was destroyed."""
        return is_sealed(stored) and key_id_of(sealed_text(stored)) in self._destroyed
