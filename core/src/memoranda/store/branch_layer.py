"""The layer of branches: a forked session shows its past, and a scan tells how to make it again.

A forked session is a record, which is an item, and its id tells that it is one: sessions whose ids do not begin so are
never looked up. See :class:`memoranda.items.BranchMemory`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from memoranda.errors import InputError
from memoranda.items import BranchMemory, Changes, MemoryItem, MemoryMetadata
from memoranda.store.codec import copy_item
from memoranda.store.conditions import InBranch, metadata_conditions
from memoranda.store.engine import Engine, Layer
from memoranda.store.filters import Filter, Page
from memoranda.store.owners import Listing, Owner
from memoranda.store.protocol import Capability
from memoranda.store.requests import Query, items_of_ids, items_where, place_of
from memoranda.store.values import Value

NO_SUCH_ITEM = "The session shows no such item to fork at."

T = TypeVar("T")


class BranchLayer(Layer):
    """Reads of a forked session show what it shares with others. ``now`` tells the present: records may expire."""

    name = "branches"
    keeps_pages = True

    def __init__(self, inner: Engine, now: Callable[[], str]) -> None:
        super().__init__(inner)
        self._now = now

    @property
    def ranks_together(self) -> bool:  # type: ignore[override]  # read-only, as in every layer
        """Whether a ranking may ask for several scopes: those beside the first are no sessions."""
        return self.inner.ranks_together

    def read(self, query: Query[T]) -> Coroutine[Any, Any, list[T]]:
        """Return what the query asks for; of a forked session, with its past."""
        if query.ids is None and names_branch(query):
            return self._read_with_past(query)
        return self.inner.read(query)

    async def _read_with_past(self, query: Query[T]) -> list[T]:
        return await self.inner.read(await self._with_past(query))

    async def stream(self, query: Query[MemoryItem]) -> AsyncGenerator[MemoryItem, None]:
        """Yield all items that match; the record of a branch names the last yielded items of its past."""
        async for item in self.inner.stream(await self._with_past(query) if names_branch(query) else query):
            yield item if type(item) is not BranchMemory else await self.portable(item, query)

    async def changes(self, query: Query[T], since: object) -> Changes[T]:
        """Return how items or payloads have changed; of a forked session all of them, with its past."""
        if not names_branch(query):
            return await self.inner.changes(query, since)
        return await self.inner.changes(await self._with_past(query), None)

    async def count(self, query: Query[MemoryItem]) -> int:
        """Return how many items match; of a forked session, with its past."""
        return await self.inner.count(await self._with_past(query) if names_branch(query) else query)

    async def owners(self, listing: Listing, query: Query[MemoryItem]) -> AsyncGenerator[Owner, None]:
        """Yield the owners of what matches; of a forked session, with its past."""
        async for owner in self.inner.owners(listing, await self._with_past(query)):
            yield owner

    async def lineage(self, session_id: str, item: MemoryItem) -> dict[str, int]:
        """Return the sessions that a fork at an item shares, the item's own first, each with its last shared place."""
        if Capability.FORK not in self.capabilities:
            return {}
        places = await self.inner.read(place_of(item.id))
        if not places:
            raise InputError(NO_SUCH_ITEM, field="at")
        record = await self._record(session_id)
        is_theirs = record is not None and record.metadata.user_id == item.metadata.user_id
        earlier = record.places if record is not None and is_theirs else {}
        shared = {name: min(upto, places[0]) for name, upto in earlier.items()}
        return {str(item.metadata.session_id): places[0]} | shared

    async def portable(self, item: BranchMemory, query: Query[MemoryItem]) -> BranchMemory:
        """Return a record as a scan yields it: without places, naming what else of its past the scan yields."""
        if Capability.FORK not in self.capabilities:
            return item
        shared: dict[str, str] = {}
        for session in item.places:
            of_session = replace(query.wanted, memory_type=None).also(Value("session_id", False, "$eq", session))
            part = _in_branch(of_session, item)
            if query.deleted:
                async for last in self.inner.stream(items_where(part, Page(order="added"), deleted=True)):
                    shared[session] = last.id
            elif found := await self.inner.read(items_where(part, Page(1, order="added"))):
                shared[session] = found[0].id
        parent = next(iter(shared), "")
        item.parent, item.at = parent, shared.pop(parent, "")
        item.earlier, item.places = shared, {}
        return item

    async def _record(self, session_id: str) -> BranchMemory | None:
        """Return the record of a session, if it is a forked one."""
        if not session_id.startswith(MARK) or Capability.FORK not in self.capabilities:
            return None
        found = next(iter(await self.inner.read(items_of_ids([session_id]))), None)
        if type(found) is not BranchMemory or found.metadata.session_id != session_id:
            return None
        return None if found.expires_at is not None and found.expires_at <= self._now() else found

    async def _with_past(self, query: Query[T]) -> Query[T]:
        """Return a query that also shows the past of a forked session; other queries are returned unchanged."""
        wanted = query.wanted
        session = None if wanted.metadata is None else wanted.metadata.session_id
        record = None if session is None else await self._record(session)
        return query if record is None or not record.places else query._replace(wanted=_in_branch(wanted, record))


def names_branch(query: Query[T]) -> bool:
    """Return True if a query may name a forked session."""
    metadata = query.wanted.metadata
    return metadata is not None and (metadata.session_id or "").startswith(MARK)


def _in_branch(wanted: Filter, record: BranchMemory) -> Filter:
    """Return the filter with its session replaced by the session of a record and its past."""
    owner = record.metadata
    pasts = tuple((session, upto) for session, upto in record.places.items() if session != record.id)
    within = MemoryMetadata(task_id=owner.task_id, agent_id=owner.agent_id, namespace=owner.namespace)
    branch = InBranch(record.id, owner.user_id, pasts, wanted.archived, metadata_conditions(within))
    others = None if wanted.metadata is None else wanted.metadata.model_copy(update={"session_id": None})
    return replace(wanted, metadata=others, archived=None, further=(*wanted.further, branch))


MARK = "branch-"
"""How the id of a forked session begins."""


def as_one_session(items: Sequence[MemoryItem], session_id: str | None) -> list[MemoryItem]:
    """Return items that were read as one session as items of it: those of a shared past are copies that say so."""
    if session_id is None or not session_id.startswith(MARK):
        return list(items)
    found = []
    for item in items:
        if item.metadata.session_id != session_id:
            item = copy_item(item)
            item.__dict__["metadata"] = item.metadata.model_copy(update={"session_id": session_id})
        found.append(item)
    return found
