"""The layer of a handle that reaches spaces: reads look at its own scope and at what is granted as they begin.

Only a query that says so reaches spaces. What is written goes into the handle's own scope; what was made from items of
spaces lasts no longer than the grants it was made by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import merge
from itertools import chain
from typing import Any, TypeVar

from memoranda.errors import InputError, NotGrantedError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store.backend import (
    EVERY_ITEM,
    Change,
    Filter,
    Layer,
    Page,
    Query,
    Value,
    Write,
    Written,
    items_of_ids,
)
from memoranda.store.granting import Surroundings
from memoranda.store.lineage import sources_of
from memoranda.store.ranked import RankedItem
from memoranda.store.spaces import space_of, space_owner
from memoranda.store.writes import Packer
from memoranda_backend.ranking import one_embedding
from memoranda_spaces.access import Access, Granted
from memoranda_spaces.derivations import note_derivations
from memoranda_spaces.derived import Lineage, derived_items
from memoranda_spaces.grantees import identity
from memoranda_spaces.shared_items import is_shared, seen_all, shared

T = TypeVar("T")


class ReadingLayer(Layer):
    """Answers reads from the scope of a handle and from the spaces that its user or agent may read."""

    name = "spaces"

    def __init__(self, around: Surroundings, access: Access, derived_id: Callable[[str], str]) -> None:
        super().__init__(around.own)
        self._derived_id = derived_id
        self._scope = around.own.scope
        self._beside = around.beside
        self._names = None if around.spaces == "granted" else around.spaces
        self._expires = around.expires
        self._access = access
        # What is derived lies in the user's scope, where all of the user's agents read it.
        self._of_user = replace(access, scope=MemoryMetadata(user_id=self._scope.user_id))

    async def read(self, query: Query[T]) -> list[T]:
        """Return what the query asks for; where it reaches spaces, of all places together."""
        if query.reach == "own":
            return await self.inner.read(query)
        if query.ids is not None:
            return await self._by_ids(query, query.ids)
        readable = list(await self._readable())
        wanted = self._of_spaces(query.wanted) if readable else None
        if wanted is None:
            return await self.inner.read(query)
        if query.form == "ranked":
            return await self._ranked(query, wanted, readable)
        return await self._listed(query, wanted, readable)

    async def count(self, query: Query[MemoryItem]) -> int:
        """Return how many items match; where the query reaches spaces, of all places together."""
        own = await self.inner.count(query)
        if query.reach == "own":
            return own
        readable = list(await self._readable())
        wanted = self._of_spaces(query.wanted) if readable else None
        if wanted is None:
            return own
        return own + await self._beside.count(query._replace(wanted=wanted.also(_in(readable))))

    @property
    def packer(self) -> Packer | None:  # type: ignore[override]  # read-only, as that of every layer
        """None: what items are made from is looked at."""
        return None

    async def write(self, write: Write) -> Written:
        """Carry out a write in the handle's own scope.

        An item whose sources lie in spaces is bounded by their grants. They are looked up once more after it was
        written, so that one that ended meanwhile leaves nothing. Raises NotGrantedError then.
        """
        made = derived_items(write.adds)
        lineages = await self._lineages(made) if made else {}
        if not lineages:
            return await self.inner.write(write)
        adds = [lineages[item.id].given_to(item) if item.id in lineages else item for item in write.adds]
        for item in adds:
            self._expires(item)
        await self._noted(lineages)
        written = await self.inner.write(write.but(adds=adds, owned=False))
        used = {space for lineage in lineages.values() for space in lineage.spaces}
        lost = used.difference(await self._of_user.spaces(used))
        if lost:
            gone = [item_id for item_id, lineage in lineages.items() if not lost.isdisjoint(lineage.spaces)]
            await self.inner.write(Write(change=Change("purge", EVERY_ITEM, gone)))
            raise NotGrantedError(identity(self._scope), min(lost), "read")
        return written

    async def _noted(self, lineages: Mapping[str, Lineage]) -> None:
        """Note in the directory what is made from which space, so that losing a source withdraws it."""
        user_id = str(self._scope.user_id)
        await note_derivations(self._beside, self._derived_id, user_id, lineages, self._expires)

    async def _readable(self) -> dict[str, Granted]:
        return await self._access.spaces(self._names)

    def _of_spaces(self, wanted: Filter) -> Filter | None:
        """Return what a filter asks of spaces, whichever; None if it asks for nothing there."""
        own = wanted.metadata is self._scope
        asked = None if own else wanted.metadata
        if asked is not None and asked.user_id is not None:
            return None
        return shared(replace(wanted, metadata=asked))

    async def _by_ids(self, query: Query[T], ids: Sequence[str]) -> list[T]:
        own: list[Any] = await self.inner.read(query)
        known = {item.id for item in own}
        missing = [item_id for item_id in ids if item_id not in known]
        if not missing:
            return own
        readable = await self._readable()
        if not readable:
            return own
        found: list[Any] = await self._beside.read(query._replace(ids=missing))
        return [*own, *seen_all(item for item in found if space_of(item) in readable and is_shared(item))]

    async def _listed(self, query: Query[T], wanted: Filter, readable: Sequence[str]) -> list[T]:
        """Return a page of all places: of each as much as could be on it, in the order of their times."""
        page = query.page
        whole = query._replace(page=Page(page.end, 0, page.order))
        own: list[Any] = await self.inner.read(whole)
        theirs = await self._beside.read(whole._replace(wanted=wanted.also(_in(readable))))
        time = (lambda item: item.updated_at) if page.order == "updated" else (lambda item: item.created_at)
        together = list(merge(own, seen_all(theirs), key=time, reverse=True))
        return together[page.offset : page.end]

    async def _ranked(self, query: Query[T], wanted: Filter, readable: Sequence[str]) -> list[T]:
        """Return the best of all places. Each is ranked by itself: what lies in one changes no score in another."""
        with one_embedding():
            places: list[list[Any]] = [await self.inner.read(query)]
            for name in readable:
                there = wanted.narrowed(MemoryMetadata(user_id=space_owner(name)))
                places.append(await self._beside.read(query._replace(wanted=there)))
        return best_of_all(places, query.page.limit)  # type: ignore[return-value]  # ranked, as the query asks

    async def _lineages(self, made: Iterable[MemoryItem]) -> dict[str, Lineage]:
        """Return what items were made from, by their ids, as far as any of that lies in spaces.

        Raises NotGrantedError for sources in a space that may not be read.
        """
        derived = list(made)
        ids = sorted({source for item in derived for source in sources_of(item)})
        sources = {item.id: item for item in await self._beside.read(items_of_ids(ids))}
        lineages = {item.id: Lineage.of(item, sources) for item in derived}
        used = {space for lineage in lineages.values() for space in lineage.spaces}
        if used and self._scope.user_id is None:
            raise InputError(
                "An item that is made from items of spaces belongs to a user: bind the handle to one.", field="sources"
            )
        granted = await self._of_user.spaces(used) if used else {}
        for space in sorted(used.difference(granted)):
            raise NotGrantedError(identity(self._of_user.scope), space, "read")
        for lineage in lineages.values():
            for space in lineage.spaces:
                lineage.end_by(granted[space].until)
        return {item_id: lineage for item_id, lineage in lineages.items() if lineage.spaces}


def _in(names: Iterable[str]) -> Value:
    """Return the condition that an item lies in one of some spaces."""
    return Value("user_id", False, "$in", [space_owner(name) for name in names])


def best_of_all(places: Iterable[Sequence[RankedItem]], limit: int) -> list[RankedItem]:
    """Return the best results of several rankings of one query; of equal scores, the first place's first.

    The first place is the handle's own, the others are spaces. What the whole supports is what any place supports, and
    only a word that no place has is missing.
    """
    own, *others = places
    found = [ranked for ranked in (own, *others) if ranked]
    together = sorted(chain(*found), key=lambda each: each.score, reverse=True)[:limit]
    theirs = {id(each) for ranked in others for each in ranked}
    shown = [seen_all([each])[0] if id(each) in theirs else each for each in together]
    if len(found) <= 1:
        return shown
    evidence = max((ranked[0].evidence for ranked in found if ranked[0].evidence is not None), default=None)
    missing = [set(ranked[0].missing) for ranked in found]
    absent = tuple(word for word in found[0][0].missing if all(word in each for each in missing))
    told = {"evidence": evidence, "missing": absent}
    return [each if (each.evidence, each.missing) == (evidence, absent) else replace(each, **told) for each in shown]
