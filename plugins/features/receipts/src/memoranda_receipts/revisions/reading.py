"""Reading a scope as it was at a moment, from the items as they are and the revisions that were kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, cast

from memoranda.errors import InputError
from memoranda.items import BranchMemory, MemoryItem, MemoryMetadata
from memoranda.shapes import check_text
from memoranda.store import Capability, InMemoryStore, Moment, ScopedStore, Store
from memoranda.store.backend import metadata_matches, moment_text
from memoranda.store.records import copying_records
from memoranda_receipts.revisions.records import Revision, since_of, without_since


class KeepsRevisions(Protocol):
    """What the reads need of the store that keeps revisions."""

    async def _stored(self, ids: Sequence[str]) -> list[MemoryItem]: ...

    async def _revisions(self, items: Sequence[MemoryItem]) -> list[Revision]: ...

    async def _purge_revisions(self, items: Sequence[MemoryItem]) -> int: ...

    async def _snapshot(self, moment: str, bounds: MemoryMetadata | None) -> tuple[InMemoryStore, dict[str, int]]: ...


class AsOf(Store):
    """The reads of a store with revisions, and of its handles.

    ``as_of`` (a datetime with a zone, or ISO-8601 text) reads what was there at that moment: everything within the
    scope is read for it. Items that were purged or have expired since are not shown, and earlier versions only as long
    as they are kept. A search by meaning is one by words then.
    """

    async def window(self, *, as_of: Moment | None = None, **asked: Any) -> list[MemoryItem]:
        """Return a conversation as a model may be shown it; with ``as_of``, as it was. See :meth:`Store.window`."""
        if as_of is None:
            return await super().window(**asked)
        then = await self._then(as_of)
        return then.versioned(await then.store.window(**{**asked, "receipt": False}))

    async def search(self, *, as_of: Moment | None = None, **asked: Any) -> list[MemoryItem]:
        """Return the items that match; with ``as_of``, those that did then. See :meth:`Store.search`."""
        if as_of is None:
            return await super().search(**asked)
        then = await self._then(as_of)
        return then.versioned(await then.store.search(**asked))

    async def count(self, *, as_of: Moment | None = None, **asked: Any) -> int:
        """Return the number of items; with ``as_of``, how many there were. See :meth:`Store.count`."""
        return await (super().count(**asked) if as_of is None else (await self._then(as_of)).store.count(**asked))

    async def scan(self, *, as_of: Moment | None = None, **asked: Any) -> AsyncGenerator[MemoryItem, None]:
        """Yield every item that matches; with ``as_of``, those that did then. See :meth:`Store.scan`."""
        if as_of is None:
            async for item in super().scan(**asked):
                yield item
            return
        then = await self._then(as_of)
        async for item in then.store.scan(**asked):
            yield then.versioned([item])[0]

    async def versions(self, item_id: str) -> list[MemoryItem]:
        """Return the earlier versions of an item that are kept, oldest first; those of a deleted item, too."""
        self._ensure_open()
        root, bounds = self._keeper(), self.bounds
        held = await root._stored([check_text(item_id, "item_id")])
        found = [revision.loaded(self.item_types) for revision in await root._revisions(held)]
        return [item for item in found if item is not None and metadata_matches(bounds, item.metadata)]

    async def purge_versions(self, item_id: str) -> int:
        """Purge the earlier versions of an item for good, and return how many they were; the item stays as it is."""
        self._ensure_open()
        self._require(Capability.PURGE)
        root, bounds = self._keeper(), self.bounds
        held = await root._stored([check_text(item_id, "item_id")])
        purged = await root._purge_revisions([item for item in held if metadata_matches(bounds, item.metadata)])
        await self._observers.wait("purged")
        return purged

    def _scoped(self, scope: MemoryMetadata) -> ScopedStore:
        return RevisionsHandle(self, scope)

    def _keeper(self) -> KeepsRevisions:
        return cast(KeepsRevisions, self.root)

    async def _then(self, as_of: Moment) -> Then:
        self._ensure_open()
        bounds = self.bounds
        snapshot, versions = await self._keeper()._snapshot(moment_text(as_of, "as_of"), bounds)
        return Then(snapshot if bounds is None else snapshot._scoped(bounds), versions)


class RevisionsHandle(AsOf, ScopedStore):
    """A handle of a store with revisions; made by ``store.scoped(user_id=…)``."""


class Then:
    """A scope as it was at a moment, in a store of its own that numbers versions anew."""

    def __init__(self, store: Store, versions: Mapping[str, int]) -> None:
        self.store = store
        self._versions = versions

    def versioned(self, items: list[MemoryItem]) -> list[MemoryItem]:
        """Return the items with the versions that they had."""
        for item in items:
            item.__dict__["version"] = self._versions.get(item.id, item.version)
        return items


async def filled(
    moment: str,
    items: Sequence[MemoryItem],
    live: Collection[str],
    earlier: Mapping[str, Revision],
    types: Mapping[str, type[MemoryItem]],
) -> tuple[InMemoryStore, dict[str, int]]:
    """Return a store with items as they were at a moment, and their versions.

    ``items`` come in the order of adding, deleted ones too; ``live`` are the ids of the others. A revision that covers
    the moment goes before what an item is now.
    """
    store, versions = InMemoryStore(), dict[str, int]()
    store.item_types = types
    present = datetime.fromisoformat(moment).timestamp()
    store.clock = lambda: present
    for item in items:
        revision = earlier.get(item.id)
        if revision is not None:
            state = revision.loaded(types)
        else:
            state = item if item.id in live and (since_of(item) or item.created_at) <= moment else None
        if state is None:
            continue
        versions[state.id] = state.version
        state = without_since(state)
        try:
            if isinstance(state, BranchMemory):
                await store.fork(state.parent, at=state.at, record=state)
            else:
                with copying_records(store):
                    await store.add(state)
        except InputError:
            continue  # The record of a branch whose past is not in the scope.
    return store, versions
