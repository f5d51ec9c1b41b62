"""The observer of every store that knows grants, and its layer, which follows what is made from items of spaces."""

from __future__ import annotations

import math
import weakref
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memoranda.errors import InputError, NotGrantedError, UnsupportedError
from memoranda.items import MemoryItem, MemoryMetadata, sources_of
from memoranda.loops import in_slices
from memoranda.store import Capability, Observer, Store
from memoranda.store.backend import (
    AS_ADDED,
    EVERY_ITEM,
    Change,
    Engine,
    Filter,
    Layer,
    Page,
    Value,
    Write,
    Written,
    end_of_life,
    items_of_ids,
    items_where,
    merge_scope,
)
from memoranda.store.granting import Surroundings
from memoranda.store.layers import add_layer
from memoranda.store.owners import DIRECTORY, space_of, space_owner
from memoranda.store.records import is_being_written
from memoranda.trust import Trust
from memoranda_spaces.derivations import (
    DERIVATION,
    IDS_PER_QUERY,
    PUBLICATION,
    Lineage,
    derived_items,
    made_from,
    note_derivations,
    read_links,
    remove_links,
    withdraw,
)
from memoranda_spaces.records import RECORD, WRITTEN_TRUST, Access, Clock, identity, user


class LineageLayer(Layer):
    """Bounds derived items by what they were made from, whichever handle writes them.

    They are trusted no further than what they were made from, and are noted in the directory, so that losing the grant
    or a source withdraws them.

    A user's item that was made from items of spaces needs that user's grants when it is written, and ends with them. An
    item of a space is made from items of that space alone.
    """

    name = "lineage"

    def __init__(self, inner: Engine, watch: SpacesWatch) -> None:
        super().__init__(inner)
        self._watch = watch

    def write(self, write: Write) -> Coroutine[Any, Any, Written]:
        change = write.change
        if change is None:
            made = derived_items(write.adds)
            return self._bounded(write, made) if made else self.inner.write(write)
        if change.action == "touch" and change.ttl is not None:
            return self._touched(write, change, change.ttl)
        return self.inner.write(write)

    async def _bounded(self, write: Write, made: Sequence[MemoryItem]) -> Written:
        """Carry out a write of derived items.

        The grants are looked up once more after it, so that one that ended meanwhile leaves nothing.
        """
        # A copy of another store has its bounds, and the notes come with it; what comes in through a handle has none.
        if is_being_written(RECORD) and (write.within is None or write.within.user_id is None):
            return await self.inner.write(write)
        sources = await self._read({source for item in made for source in sources_of(item)})
        lineages = await self._lineages(made, sources)
        adds = [lineages[item.id].given_to(item) if item.id in lineages else item for item in write.adds]
        store = self._watch.store
        for lineage in lineages.values():
            if lineage.ends is not None:
                if Capability.TTL not in self.capabilities:
                    raise UnsupportedError(store.label, "items that end with a grant")
                store.lifetimes.note(lineage.ends)
        of_users = [item for item in made if lineages[item.id].spaces and space_of(item) is None]
        if _is_withdrawing() or not of_users:
            return await self.inner.write(write.but(adds=adds, owned=False))
        for item in of_users:
            user_id = self._user_of(item)
            of_item = {item.id: lineages[item.id]}
            await note_derivations(store.unobserved, store.derived_id, user_id, of_item, store.lifetimes.note)
        written = await self.inner.write(write.but(adds=adds, owned=False))
        await self._check_again(
            of_users, lineages, {each.id for each in sources.values() if space_of(each) is not None}
        )
        return written

    async def _check_again(
        self, made: Sequence[MemoryItem], lineages: dict[str, Lineage], sources: Collection[str]
    ) -> None:
        """Remove what has lost a grant, or one of the sources, while it was written. Raises NotGrantedError then."""
        gone = set(sources).difference(await self._read(sources))
        lost: dict[str, tuple[str, str]] = {}
        for item in made:
            lineage = lineages[item.id]
            granted = await self._watch.access(MemoryMetadata(user_id=self._user_of(item))).spaces(lineage.spaces)
            for space, ids in sorted(lineage.spaces.items()):
                if space not in granted or not gone.isdisjoint(ids):
                    lost[item.id] = identity(item.metadata), space
        if lost:
            await self.inner.write(Write(change=Change("purge", EVERY_ITEM, sorted(lost))))
            who, space = min(lost.values())
            raise NotGrantedError(who, space, "read")

    async def _read(self, ids: Collection[str]) -> dict[str, MemoryItem]:
        return {item.id: item for item in await self.inner.read(items_of_ids(sorted(ids)))} if ids else {}

    async def _lineages(self, made: Sequence[MemoryItem], sources: Mapping[str, MemoryItem]) -> dict[str, Lineage]:
        """Return what items were made from, by their ids, with their ends.

        Raises NotGrantedError for sources in a space that the item's user may not read, and InputError for what would
        lie in a space and was made elsewhere.
        """
        lineages = {item.id: Lineage.of(item, sources) for item in made}
        if _is_withdrawing():  # It is what withdrawing a source leaves, which its grants cover.
            return lineages
        for item in made:
            space, lineage = space_of(item), lineages[item.id]
            if space is not None:
                await self._check_space(item, space, sources)
            elif lineage.spaces:
                granted = await self._watch.access(MemoryMetadata(user_id=self._user_of(item))).spaces(lineage.spaces)
                for name in sorted(lineage.spaces):
                    if name not in granted:
                        raise NotGrantedError(identity(item.metadata), name, "read")
                    lineage.end_by(granted[name].until)
        return lineages

    async def _check_space(self, item: MemoryItem, space: str, sources: Mapping[str, MemoryItem]) -> None:
        """Raise InputError for an item of a space that was made from others outside of it.

        A publication is, and stays so when it is approved.
        """
        outside = {source.id for source in sources.values() if space_of(source) != space}.intersection(sources_of(item))
        if not outside or is_being_written(PUBLICATION):
            return
        stored = await self.inner.read(items_of_ids([item.id]))
        if stored and space_of(stored[0]) == space and outside.issubset(sources_of(stored[0])):
            return
        raise InputError(
            f"An item was not stored in the space {space!r}: it was made from items outside of it, which the readers "
            f"of the space may not read. Publish it instead: Grants(store).publish(item, space).",
            field="sources",
        )

    def _user_of(self, item: MemoryItem) -> str:
        if item.metadata.user_id is None:
            raise InputError(
                "An item that is made from items of spaces belongs to a user: bind the handle to one.", field="sources"
            )
        return item.metadata.user_id

    async def _touched(self, write: Write, change: Change, ttl: float) -> Written:
        """Give items a longer life, but for those that end with what they were made from."""
        held = await self.inner.read(items_of_ids(list(change.ids or ())))
        until = None if math.isinf(ttl) else end_of_life(change.now, ttl)
        bounded = {
            item.id
            for item in held
            if (made_from(item) or (space_of(item) is not None and sources_of(item)))
            and item.expires_at is not None
            and (until is None or until > item.expires_at)
        }
        if not bounded:
            return await self.inner.write(write)
        ids = [each for each in change.ids or () if each not in bounded]
        return await self.inner.write(write.but(change=replace(change, ids=ids))) if ids else Written()


def _is_withdrawing() -> bool:
    """Return True while a source is withdrawn; whoever copies items writes records of all types."""
    return is_being_written(DERIVATION) and not is_being_written(RECORD)


class SpacesWatch(Observer):
    """Withdraws what was made from items of a space, and the publications of items, when those are purged."""

    only_removals = True

    def __init__(self) -> None:
        self._root: Any = None
        self._clock: Clock | None = None

    def attached(self, store: Store) -> None:
        if self._root is None:
            self._root = weakref.ref(store.root)
            self._clock = Clock(lambda: self.store.clock())
            add_layer(store, LineageLayer, self)

    def now(self) -> str:
        assert self._clock is not None, "a store attaches its observers"
        return self._clock.now()

    @property
    def store(self) -> Store:
        store: Store = self._root()
        return store

    def access(self, scope: MemoryMetadata) -> Access:
        return Access(self.store.unobserved, scope, self.now)

    def reading_layer(self, around: Surroundings) -> Layer:
        from memoranda_spaces.handle_layers import ReadingLayer  # Every store imports this module, and few need that.

        identity(around.own.scope)
        return ReadingLayer(around, self.access(around.own.scope))

    def space_layer(self, of: MemoryMetadata, around: Surroundings) -> Layer:
        from memoranda_spaces.handle_layers import SpaceLayer  # As above.

        return SpaceLayer(around, self.access(of), identity(of))

    def stamps(self, of: MemoryMetadata, trust: Trust | None) -> tuple[Trust, str]:
        return WRITTEN_TRUST if trust is None else min(trust, WRITTEN_TRUST), identity(of)

    async def readers(self, item: MemoryItem) -> Sequence[tuple[str, str, str | None]]:
        """Return who can read an item now: their names, each with the reason, and when that ends."""
        from memoranda_spaces.grants import Grants  # As above.

        return [(str(each.who), each.why, each.until) for each in await Grants(self.store).who_can_read(item)]

    async def purging(
        self, store: Store, wanted: Filter, ids: Sequence[str | MemoryItem] | None, deleted_only: bool
    ) -> None:
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
