"""Earlier versions of items: what a store promises, and the layer of a plugin that keeps them."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from memoranda.errors import UnsupportedError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.shapes import check_text
from memoranda.store.conditions import OF_USERS
from memoranda.store.filters import Moment
from memoranda.store.granting import ChecksGrants
from memoranda.store.lifecycle import Lifecycle
from memoranda.store.protocol import Capability
from memoranda.store.values import moment_text


@runtime_checkable
class KeepsVersions(Protocol):
    """A layer that keeps replaced and removed items, such as that of memoranda-receipts."""

    async def past(self, moment: str, bounds: MemoryMetadata | None) -> Any:
        """Return a store, or a handle, that shows what lay within some bounds at a moment."""
        ...

    async def versions(self, item_id: str, bounds: MemoryMetadata | None) -> list[MemoryItem]:
        """Return the earlier versions of an item that lay within some bounds, oldest first."""
        ...

    async def purge_versions(self, item_id: str, bounds: MemoryMetadata | None) -> int:
        """Purge the earlier versions of an item that lies within some bounds, and return how many they were."""
        ...


class History(Lifecycle):
    """What a store promises for earlier versions. Needs ``memoranda.open(url, revisions=True)``."""

    @property
    def keeps_versions(self) -> bool:
        """True if earlier versions of items are kept."""
        return any(isinstance(layer, KeepsVersions) for layer in self.layers)

    async def versions(self, item_id: str) -> list[MemoryItem]:
        """Return the earlier versions of an item that are kept, oldest first; those of a deleted item, too.

        Raises UnsupportedError for a store that keeps none.
        """
        self._ensure_open()
        await self.check_grant("read")
        bounds = self._bounds(None)
        found = await self._keeper().versions(check_text(item_id, "item_id"), bounds)
        # A handle that names no user reaches no space.
        return [item for item in found if bounds is None or bounds.user_id is not None or OF_USERS.matches(item)]

    async def purge_versions(self, item_id: str) -> int:
        """Purge the earlier versions of an item for good, and return how many they were; the item stays as it is.

        Capability ``purge``. Raises UnsupportedError for a store that keeps none.
        """
        self._ensure_open()
        self._require(Capability.PURGE)
        keeper = self._keeper()
        self._ensure_writable()
        await self.check_grant("manage")
        if not await self.versions(item_id):
            return 0
        purged = await keeper.purge_versions(check_text(item_id, "item_id"), self._bounds(None))
        await self._observers.wait("purged")
        return purged

    async def _at(self, as_of: Moment) -> Any:
        """Return a store that shows what this store or handle showed at a moment."""
        self._ensure_open()
        await self.check_grant("read")
        return await self._keeper().past(moment_text(as_of, "as_of"), self._bounds(None))

    async def check_grant(self, may: str) -> None:
        """Raise NotGrantedError if this handle is bound to a space and may not do as much there now.

        Every request asks for that itself. It is for what reads or writes a space in another way.
        """
        if isinstance(self.engine, ChecksGrants):
            await self.engine.check_grant(may)

    def _keeper(self) -> KeepsVersions:
        for layer in self.layers:
            if isinstance(layer, KeepsVersions):
                return layer
        raise UnsupportedError(
            self.label, "earlier versions of items", remedy="Open it with memoranda.open(url, revisions=True)."
        )
