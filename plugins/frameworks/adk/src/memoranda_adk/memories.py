"""ADK's memory service in any store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from pydantic_core import to_jsonable_python

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.speakers import SOMEONE_ELSE
from memoranda.store import Capability, Store
from memoranda.store.owners import space_of
from memoranda.sync import SyncStore
from memoranda.trust import is_someone_elses
from memoranda_adk.events import FORMAT, USER, EventFormat, item_id
from memoranda_backend.text import index_terms, query_terms
from memoranda_messages.prompts import remarked
from memoranda_messages.sessions import awaitable_store, finished, replaced, retry_conflicts, seen_by

MARK = "adk_memory"
"""The key of ``metadata.extra`` with the name of the app that has an item in its memory; empty for a deleted one."""

MOST = 10
"""How many memories a search returns at most, unless the service is made with another limit."""

_SPOKEN = ("human", "ai")


class MemorandaMemoryService(BaseMemoryService):
    """Memory of ADK: ``Runner(…, memory_service=MemorandaMemoryService(store))``.

    - ``store`` is any open store or handle. The service never closes it.
    - What is added are the events of the conversation themselves. If :class:`MemorandaSessionService` has stored them
      in the same store, they are only marked, so that nothing is stored twice.
    - A search finds what was added, of the same user and app. With ``everything``, it finds whatever the user said in
      any session, including those of other frameworks, but not the sessions of other apps of ADK.
    - ``limit`` is how many memories a search returns at most.
    - ``receipt=True``, or a ``memoranda_receipts.Recording``, records what a search returns.
    """

    def __init__(
        self, store: Store | SyncStore, *, everything: bool = False, limit: int = MOST, receipt: object = None
    ) -> None:
        self._store = awaitable_store(store)
        self._everything = everything
        self._limit = limit
        self._receipt = receipt

    def __repr__(self) -> str:
        return f"MemorandaMemoryService({self._store!r})"

    async def add_session_to_memory(self, session: Session) -> None:
        """Add the events of a session; those that were added before, or deleted since, are left as they are."""
        await self._add(session.app_name, session.user_id, session.id, session.events)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add some events. ``custom_metadata`` can be searched by: it becomes part of ``metadata.extra``."""
        await self._add(app_name, user_id, session_id, events, custom_metadata)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add memories that are part of no session. One with an id replaces the memory of that id."""
        events = []
        for entry in memories:
            said = Event(author=entry.author or USER, content=entry.content, custom_metadata=entry.custom_metadata)
            said.id = entry.id or said.id
            if entry.timestamp:
                said.timestamp = datetime.fromisoformat(entry.timestamp).timestamp()
            events.append(said)
        await self._add(app_name, user_id, None, events, custom_metadata, replace=True)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return the memories that answer a query, best first; ``custom_metadata`` has the session or space of each.

        What a person said who is not the user has the author ``"someone else"``.

        Without an embedder, only those are returned that have a word of the query themselves, in any of its forms: what
        was said right beside them is not. A memory that holds no longer says so.
        """
        mine = self._store.scoped(user_id=user_id)
        where = None if self._everything else {MARK: app_name}
        found = await mine.recall(query, limit=self._limit, memory_type=_SPOKEN, where=where)
        if Capability.HYBRID not in mine.capabilities:
            found = _matching(found, query)
        told = remarked(found, await mine.outdated([item.id for item in found]))
        entries = [
            (item, entry)
            for item, remarked_item in zip(found, told, strict=True)
            for entry in _entries(remarked_item, app_name)
        ]
        shown = list({item.id: item for item, _ in entries}.values())
        asked: dict[str, Any] = {"owner": mine.bounds, "asked": {"query": query, "limit": self._limit}}
        sources = [("long-term", item) for item in shown]
        await mine.shown(shown, receipt=self._receipt, kind="recall", sources=sources, **asked)
        return SearchMemoryResponse(memories=[entry for _, entry in entries])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Delete a memory that a search returned, for good if it is part of no session.

        An event of a session stays there, but it is no memory any more, even if its session is added again. Anything
        that is no memory of this app, such as another app's or a fact, is left as it is.
        """
        mine = self._store.own.scoped(user_id=user_id)
        derived = item_id(self._store, app_name, user_id, "", memory_id or "")

        async def delete() -> None:
            for item in await mine.get_many([memory_id or "", derived]):
                if not _is_memory_of(item, app_name):
                    continue
                if item.metadata.session_id is not None:
                    await mine.update(_marked(item, {MARK: ""}))
                else:
                    await replaced(mine, [item.id])

        if memory_id:
            await finished(retry_conflicts(delete))

    async def _add(
        self,
        app_name: str,
        user_id: str,
        session_id: str | None,
        events: Sequence[Event],
        extra: Mapping[str, object] | None = None,
        *,
        replace: bool = False,
    ) -> None:
        """Mark the items of events that say something, and store those that are not stored."""
        mine = self._store.own.scoped(user_id=user_id)
        owner = MemoryMetadata(user_id=user_id, session_id=session_id or None, agent_id=app_name)
        place = owner.model_copy(update={"agent_id": None})
        said = [event for event in events if event.content and event.content.parts]
        marks = {**to_jsonable_python(dict(extra or {}), fallback=str), MARK: app_name}

        async def add() -> None:
            # An event that was made from an item, as of another framework, has the id of that item.
            stored = {item.id: item for item in await mine.get_many([event.id for event in said], metadata=place)}
            given = [event for event in said if replace or event.id not in stored]
            ids = [item_id(self._store, app_name, user_id, session_id or "", event.id) for event in given]
            new = EventFormat(app_name).items(given, metadata=owner, ids=ids)
            stored |= {item.id: item for item in await mine.get_many([item.id for item in new], metadata=place)}
            batch = [_marked(item, marks) for item in stored.values() if MARK not in item.metadata.extra]
            batch += [_marked(item, marks) for item in new if item.id not in stored]
            if replace:
                held = [(stored[item.id], item) for item in new if item.id in stored]
                batch += [
                    _marked(item, marks, before.version) for before, item in held if before.payload != item.payload
                ]
            if batch:
                await mine.update_many(batch)

        await finished(retry_conflicts(add))


def _is_memory_of(item: MemoryItem, app_name: str) -> bool:
    """Return True if an item is in an app's memory, or is said in a session that the app sees."""
    mark = item.metadata.extra.get(MARK)
    if mark is not None or item.metadata.session_id is None:
        return bool(mark == app_name)
    return item.memory_type in _SPOKEN and bool(seen_by(app_name, [item], FORMAT))


def _marked(item: MemoryItem, marks: Mapping[str, object], version: int | None = None) -> MemoryItem:
    """Return the item with further values in ``metadata.extra``, to be stored instead of a version."""
    metadata = item.metadata.model_copy(update={"extra": {**item.metadata.extra, **marks}})
    return item.model_copy(
        update={"metadata": metadata, "version": item.version if version is None else version},
    )


def _entries(item: MemoryItem, app_name: str) -> Iterator[MemoryEntry]:
    """Yield the memory that an item is; none for one of another app."""
    for event in EventFormat(app_name).messages(seen_by(app_name, [item], FORMAT)):
        if event.content:
            yield MemoryEntry(
                id=item.id,
                content=event.content,
                author=SOMEONE_ELSE if is_someone_elses(item) else event.author,
                timestamp=datetime.fromtimestamp(event.timestamp).astimezone().isoformat(),
                custom_metadata={**(event.custom_metadata or {}), **_place(item)},
            )


def _matching(items: Sequence[MemoryItem], query: str) -> list[MemoryItem]:
    """Return the items that share a word with a query, in any of its forms."""
    wanted = set(query_terms(query))
    return [item for item in items if not wanted.isdisjoint(index_terms(f"{item.name or ''} {item.content}"))]


def _place(item: MemoryItem) -> dict[str, Any]:
    """Return the session and the space that an item lies in, without those that it does not."""
    place = {"session_id": item.metadata.session_id, "space": space_of(item)}
    return {name: value for name, value in place.items() if value is not None}
