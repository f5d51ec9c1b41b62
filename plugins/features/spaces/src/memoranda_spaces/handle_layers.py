"""The layers of handles: of one that reaches spaces, and of one that is bound to a space by a grant."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from heapq import merge
from typing import Any, TypeVar

from memoranda.items import SCOPE_FIELDS, Changes, MemoryItem, MemoryMetadata
from memoranda.store import Capability, Owner, copy_item
from memoranda.store.backend import (
    AtLeast,
    Change,
    Filter,
    Layer,
    Listing,
    Page,
    Query,
    Value,
    Write,
    Written,
    items_where,
)
from memoranda.store.granting import Surroundings
from memoranda.store.owners import space_of, space_owner
from memoranda.store.ranked import best_of_all
from memoranda.store.requests import Packer
from memoranda_backend.ranking import one_embedding
from memoranda_spaces.records import MOST_TRUST, Access, Granted, is_shared, seen, seen_all, shared

T = TypeVar("T")


class ReadingLayer(Layer):
    """Answers reads from the scope of a handle and from the spaces that its user or agent may read, as they begin.

    Only a query that says so reaches spaces. What is written goes into the handle's own scope.
    """

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
    return wanted.narrowed(MemoryMetadata(user_id=space_owner(space)))


FOUND_PER_CHECK = 200
"""How many items or owners a read that streams finds before it asks once more whether it is still allowed."""


class SpaceLayer(Layer):
    """Lets a handle do in a space what is granted to the user or agent of a scope.

    Who may write adds items, and changes or removes what they wrote themselves. Who may manage changes everything.
    """

    name = "spaces"

    def __init__(self, around: Surroundings, access: Access, origin: str) -> None:
        super().__init__(around.own)
        self._scope = around.own.scope
        self._space = space_of(around.own.scope) or ""
        self._access = access
        self._origin = origin

    async def read(self, query: Query[T]) -> list[T]:
        await self._check("read")
        return [] if _asks_too_much(query) else seen_all(await self.inner.read(query))

    async def stream(self, query: Query[MemoryItem]) -> AsyncGenerator[MemoryItem, None]:
        await self._check("read")
        if not _asks_too_much(query):
            async for item in self._while_granted(self.inner.stream(query)):
                yield seen(item)

    async def count(self, query: Query[MemoryItem]) -> int:
        await self._check("read")
        return 0 if _asks_too_much(query) else await self.inner.count(query)

    async def owners(self, listing: Listing, query: Query[MemoryItem]) -> AsyncGenerator[Owner, None]:
        await self._check("read")
        async for owner in self._while_granted(self.inner.owners(listing, query)):
            yield owner

    async def _while_granted(self, found: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """Yield what is found. Raises NotGrantedError once it may not be read any more.

        A stream can be held open for as long as its reader likes. The grant is looked up between finding and showing,
        so that nothing is shown that was found after it ended.
        """
        async with aclosing(_batches(found)) as batches:
            async for batch in batches:
                await self._check("read")
                for each in batch:
                    yield each

    async def changes(self, query: Query[T], since: object) -> Changes[T]:
        await self._check("read")
        changed = await self.inner.changes(query, since)
        if query.form == "payloads":
            return changed
        return changed._replace(rows=dict(zip(changed.rows, seen_all(list(changed.rows.values())), strict=True)))

    @property
    def packer(self) -> Packer | None:  # type: ignore[override]  # read-only, as that of every layer
        """None: what is replaced is looked at."""
        return None

    def item_in(self, item: MemoryItem) -> MemoryItem:
        """Return a copy for the space: what comes from the writer's own scope leaves its user, session, task and agent.

        An item without an owner, such as a message of a conversation that a framework keeps in the space, has its
        session, task and agent for the space.
        """
        if not self._is_own(item.metadata):
            return item
        bound = {name: getattr(self._scope, name) for name in SCOPE_FIELDS}
        if item.memory_type == "branch":
            bound["session_id"] = item.metadata.session_id  # It is the branch's own name.
        placed = copy_item(item)
        placed.__dict__["metadata"] = item.metadata.model_copy(update=bound)
        return placed

    def _is_own(self, owner: MemoryMetadata) -> bool:
        """Return True for the metadata of an item that lies in the private scope of the writer."""
        writer = self._access.scope
        if writer.user_id is not None:
            return owner.user_id == writer.user_id
        return owner.user_id is None and owner.agent_id == writer.agent_id

    async def write(self, write: Write) -> Written:
        if write.change is not None:
            await self._check_change(write.change)
            return await self.inner.write(write)
        granted = await self._check("write")
        if granted != "manage":
            await self._check_own([*(item.id for item in write.adds), *write.deletes])
        return await self.inner.write(write)

    async def check_grant(self, may: str) -> None:
        """Raise NotGrantedError unless as much is granted now."""
        await self._check(may)

    async def _check(self, may: str) -> str:
        return (await self._access.check(self._space, may)).may

    async def _check_change(self, change: Change) -> None:
        if change.ids is None or change.action == "restore":
            await self._check("manage")
        elif await self._check("write") != "manage":
            await self._check_own(change.ids)

    async def _check_own(self, ids: Sequence[str]) -> None:
        named = Filter(archived=None, further=(Value("id", False, "$in", list(ids)),))
        query = items_where(named, deleted=Capability.DELETE in self.capabilities)
        if ids and any([item.origin != self._origin async for item in self.inner.stream(query)]):
            await self._check("manage")


def _asks_too_much(query: Query[T]) -> bool:
    """Return True if a query asks for more trust than anything in a space has."""
    return any(type(each) is AtLeast and each.trust > MOST_TRUST for each in query.wanted.further)


async def _batches(found: AsyncGenerator[T, None]) -> AsyncGenerator[list[T], None]:
    """Yield what is found in lists of at most ``FOUND_PER_CHECK``."""
    batch: list[T] = []
    async with aclosing(found):
        async for each in found:
            batch.append(each)
            if len(batch) == FOUND_PER_CHECK:
                yield batch
                batch = []
    if batch:
        yield batch
