"""The layer of a store that follows what is made from items of spaces, whichever handle writes it.

What was made from a space lasts no longer than the grants of its user, is trusted no further than what it was made
from, and is noted in the directory, so that losing the grant or a source withdraws it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from memoranda.errors import InputError, NotGrantedError, UnsupportedError
from memoranda.items import MemoryItem, MemoryMetadata, sources_of
from memoranda.store import Capability, Store
from memoranda.store.backend import (
    EVERY_ITEM,
    Change,
    Engine,
    Layer,
    Write,
    Written,
    end_of_life,
    items_of_ids,
)
from memoranda.store.records import is_being_written
from memoranda.store.spaces import space_of
from memoranda_spaces.access import Access
from memoranda_spaces.derivations import DERIVATION, PUBLICATION, Lineage, derived_items, made_from, note_derivations
from memoranda_spaces.records import RECORD, identity


class KnowsGrants(Protocol):
    """What the layer asks: the observer of the store."""

    @property
    def store(self) -> Store:
        """The store."""
        ...

    def access(self, scope: MemoryMetadata) -> Access:
        """Return what looks up the grants of a scope."""
        ...


class LineageLayer(Layer):
    """Bounds derived items by what they were made from.

    A user's item that was made from items of spaces needs that user's grants when it is written, and ends with them. An
    item of a space is made from items of that space alone.
    """

    name = "lineage"

    def __init__(self, inner: Engine, knows: KnowsGrants) -> None:
        super().__init__(inner)
        self._knows = knows

    def write(self, write: Write) -> Coroutine[Any, Any, Written]:
        """Carry out a write, with derived items bounded."""
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
        store = self._knows.store
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
            granted = await self._knows.access(MemoryMetadata(user_id=self._user_of(item))).spaces(lineage.spaces)
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
                granted = await self._knows.access(MemoryMetadata(user_id=self._user_of(item))).spaces(lineage.spaces)
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
