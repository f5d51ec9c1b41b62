"""The layer of a handle that reaches spaces: reads look at its own scope and at what is granted as they begin.

Only a query that says so reaches spaces. What is written goes into the handle's own scope.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import merge
from typing import Any, TypeVar

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store.backend import Filter, Layer, Page, Query
from memoranda.store.granting import Surroundings
from memoranda.store.ranked import best_of_all
from memoranda.store.spaces import space_of, space_owner
from memoranda_backend.ranking import one_embedding
from memoranda_spaces.access import Access, Granted
from memoranda_spaces.shared_items import is_shared, seen, seen_all, shared

T = TypeVar("T")


class ReadingLayer(Layer):
    """Answers reads from the scope of a handle and from the spaces that its user or agent may read."""

    name = "spaces"

    def __init__(self, around: Surroundings, access: Access) -> None:
        super().__init__(around.own)
        self._scope = around.own.scope
        self._beside = around.beside
        self._names = None if around.spaces == "granted" else around.spaces
        self._access = access

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
        theirs = [await self._beside.count(query._replace(wanted=_within(wanted, space))) for space in readable]
        return own + sum(theirs)

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
        places: list[list[Any]] = [await self.inner.read(whole)]
        theirs = [await self._beside.read(whole._replace(wanted=_within(wanted, space))) for space in readable]
        places += map(seen_all, theirs)
        time = (lambda item: item.updated_at) if page.order == "updated" else (lambda item: item.created_at)
        together = list(merge(*places, key=time, reverse=True))
        return together[page.offset : page.end]

    async def _ranked(self, query: Query[T], wanted: Filter, readable: Sequence[str]) -> list[T]:
        """Return the best of all places. Each is ranked by itself: what lies in one changes no score in another."""
        theirs = [_within(wanted, space) for space in readable]
        with one_embedding():
            if self.inner.ranks_together:
                found: list[Any] = await self.inner.read(query._replace(beside=tuple(theirs)))
            else:
                places: list[list[Any]] = [await self.inner.read(query)]
                places += [await self._beside.read(query._replace(wanted=each)) for each in theirs]
                found = best_of_all(places, query.page.limit)
        return [each if space_of(each.item) is None else seen(each) for each in found]


def _within(wanted: Filter, space: str) -> Filter:
    """Return a filter of spaces within one of them."""
    return wanted.narrowed(MemoryMetadata(user_id=space_owner(space)))
