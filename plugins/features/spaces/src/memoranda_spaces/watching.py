"""The observer of every store that knows grants: it makes the layers of handles, and follows what is purged."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.offloading import in_slices
from memoranda.store import Capability, Observer, Store
from memoranda.store.backend import AS_ADDED, Filter, Layer, Page, Value, items_where, merge_scope
from memoranda.store.granting import Surroundings
from memoranda.store.layers import add_layer
from memoranda.store.spaces import DIRECTORY, space_of, space_owner
from memoranda.trust import Trust
from memoranda_spaces.access import Access, Clock
from memoranda_spaces.derivations import IDS_PER_QUERY, PUBLICATION, read_links, remove_links, withdraw
from memoranda_spaces.lineage_layer import LineageLayer
from memoranda_spaces.records import identity, user
from memoranda_spaces.shared_items import WRITTEN_TRUST


class SpacesWatch(Observer):
    """Withdraws what was made from items of a space, and the publications of items, when those are purged."""

    only_removals = True

    def __init__(self) -> None:
        self._root: Any = None
        self._clock: Clock | None = None

    def attached(self, store: Store) -> None:
        """Take note of the store, whose clock says when grants end."""
        if self._root is None:
            self._root = weakref.ref(store.root)
            self._clock = Clock(lambda: self.store.clock())
            add_layer(store, LineageLayer, self)

    def now(self) -> str:
        """Return the present, by which grants end."""
        assert self._clock is not None, "a store attaches its observers"
        return self._clock.now()

    @property
    def store(self) -> Store:
        """The store that this observes."""
        store: Store = self._root()
        return store

    def access(self, scope: MemoryMetadata) -> Access:
        """Return what looks up the grants of a scope."""
        return Access(self.store.unobserved, scope, self.now)

    def reading_layer(self, around: Surroundings) -> Layer:
        """Return the layer of a handle that reads spaces beside its own scope."""
        from memoranda_spaces.reading_layer import ReadingLayer  # Every store imports this module, and few need that.

        identity(around.own.scope)
        return ReadingLayer(around, self.access(around.own.scope))

    def space_layer(self, of: MemoryMetadata, around: Surroundings) -> Layer:
        """Return the layer of a handle that is bound to a space by a grant."""
        from memoranda_spaces.space_layer import SpaceLayer  # As above.

        return SpaceLayer(around, self.access(of), identity(of))

    def stamps(self, of: MemoryMetadata, trust: Trust | None) -> tuple[Trust, str]:
        """Return the trust and the origin of what a member writes into a space."""
        return WRITTEN_TRUST if trust is None else min(trust, WRITTEN_TRUST), identity(of)

    async def readers(self, item: MemoryItem) -> Sequence[tuple[str, str, str | None]]:
        """Return who can read an item now: their names, each with the reason, and when that ends."""
        from memoranda_spaces.grants import Grants  # As above.

        return [(str(each.who), each.why, each.until) for each in await Grants(self.store).who_can_read(item)]

    async def purging(
        self, store: Store, wanted: Filter, ids: Sequence[str | MemoryItem] | None, deleted_only: bool
    ) -> None:
        """Withdraw what depends on items that are about to be purged, or were."""
        root = store.root
        directory = root.unobserved
        in_use = Filter(metadata=MemoryMetadata(user_id=DIRECTORY), archived=True)
        bounds = merge_scope(wanted.metadata, store.bounds) or MemoryMetadata()
        if bounds.user_id == DIRECTORY:
            return
        if space_of(bounds) is None and not await directory.read(items_where(in_use, Page(1))):
            return
        popped = [each for each in ids or () if isinstance(each, MemoryItem)]
        named = None if ids is None else [each for each in ids if isinstance(each, str)]
        gone = popped or await _about_to_go(store, wanted, named, deleted_only)
        spaces: dict[str, set[str]] = {}
        users: dict[str, set[str]] = {}
        for item in gone:
            space = space_of(item)
            if space is not None:
                spaces.setdefault(space, set()).add(item.id)
            elif item.metadata.user_id is not None and item.metadata.user_id != DIRECTORY:
                users.setdefault(item.metadata.user_id, set()).add(item.id)
        for space, sources in spaces.items():
            await withdraw(root, space, sources=sources)
        for user_id, originals in users.items():
            await take_back(root, user_id, originals)


async def take_back(root: Store, user_id: str, originals: set[str] | None = None) -> list[str]:
    """Purge the publications of a user's items, of some or of all, and return their ids."""
    links = await read_links(root.unobserved, PUBLICATION, owner=user(user_id).key)
    ended = [link for link in links if originals is None or link.item in originals]
    for link in ended:
        for copy in link.others:
            await root.purge(copy, metadata=MemoryMetadata(user_id=space_owner(link.space)))
    await remove_links(root.unobserved, [link.id for link in ended])
    return [copy for link in ended for copy in link.others]


async def _about_to_go(store: Store, wanted: Filter, ids: Sequence[str] | None, deleted_only: bool) -> list[MemoryItem]:
    """Return the items that are to be purged, as far as they are there."""
    hides = Capability.DELETE in store.capabilities
    filters = [wanted]
    if ids is not None:
        parts = in_slices(ids, IDS_PER_QUERY)
        filters = [wanted.also(Value("id", False, "$in", list(part))) async for part in parts]
    found: list[MemoryItem] = []
    for each in filters:
        there = [item async for item in store.unobserved.stream(items_where(each, AS_ADDED, deleted=hides))]
        if deleted_only:
            live = {item.id async for item in store.unobserved.stream(items_where(each))}
            there = [item for item in there if item.id not in live]
        found += there
    return found
