"""Google ADK's session and memory services in any store. Copy the classes; they need google-adk.

    pip install -r requirements.txt google-adk
    python examples/recipes/adk_services.py

It prints:

    2 events, and the state {'city': 'Oslo'}
    the last event: Noted.
    a search of Ada's finds: My flat is in Oslo.
    Bob's sessions: 0
    deleted: None
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session
from google.genai.types import Content, Part

import memoranda
from memoranda import MemoryItem
from memoranda.store import BaseStore
from memoranda_messages import agrees
from memoranda_messages.payload_json import decode_payload, encode_payload

SESSION, EVENT = "adk-session", "adk-event"


def _user(store: BaseStore, app_name: str, user_id: str) -> BaseStore:
    return store.scoped(user_id=user_id, namespace=("adk", app_name))


class MemorandaSessionService(BaseSessionService):
    """A session is an item with its state, and an item for each event. State is kept with its session."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Store a session. Raises VersionConflictError if it exists."""
        name = session_id or uuid.uuid4().hex
        session = Session(id=name, app_name=app_name, user_id=user_id, state=state or {})
        await self._mine(session).update(_session_item(session))
        return session

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return a session with its events."""
        mine = _user(self._store, app_name, user_id).scoped(session_id=session_id)
        item = await mine.get(_session_id(app_name, user_id, session_id))
        if item is None:
            return None
        session = Session.model_validate(decode_payload(item.payload or ""))
        kept = [kept async for kept in mine.scan(memory_type=EVENT, order="added")]
        session.events = [_event(kept_one) for kept_one in kept]
        session.last_update_time = session.events[-1].timestamp if session.events else 0.0
        if config is not None and config.after_timestamp is not None:
            session.events = [event for event in session.events if event.timestamp >= config.after_timestamp]
        if config is not None and config.num_recent_events is not None:
            session.events = session.events[max(len(session.events) - config.num_recent_events, 0) :]
        return session

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return the sessions of a user, or of all, without their events; the one that was active last comes last."""
        place = self._store.scoped(namespace=("adk", app_name))
        mine = place if user_id is None else place.scoped(user_id=user_id)
        found = [item async for item in mine.scan(memory_type=SESSION, order="updated")]
        return ListSessionsResponse(sessions=[Session.model_validate(decode_payload(i.payload or "")) for i in found])

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Remove a session for good."""
        await _user(self._store, app_name, user_id).scoped(session_id=session_id).purge()

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store an event and the state that it leads to, all or none."""
        event = await super().append_event(session, event)
        if not event.partial:
            await self._mine(session).apply(adds=[_event_item(event), _session_item(session)], keep_created=True)
        return event

    def _mine(self, session: Session) -> BaseStore:
        return _user(self._store, session.app_name, session.user_id).scoped(session_id=session.id)


class MemorandaMemoryService(BaseMemoryService):
    """Searches the sessions that :class:`MemorandaSessionService` stores."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    async def add_session_to_memory(self, session: Session) -> None:
        """Store the events that are new."""
        mine = _user(self._store, session.app_name, session.user_id).scoped(session_id=session.id)
        await mine.add_many([_event_item(event) for event in session.events], keep_created=True)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return the best results for the query."""
        found = await _user(self._store, app_name, user_id).search(query=query, memory_type=EVENT, mode="text")
        return SearchMemoryResponse(memories=_entries(found))


def _session_id(app_name: str, user_id: str, session_id: str) -> str:
    return encode_payload([SESSION, app_name, user_id, session_id])


def _session_item(session: Session) -> MemoryItem:
    kept = session.model_copy(update={"events": [], "state": _lasting(session.state)})
    return MemoryItem(
        id=_session_id(session.app_name, session.user_id, session.id),
        content="",
        memory_type=SESSION,
        payload=encode_payload(kept.model_dump(mode="json")),
        payload_format="adk",
    )


def _lasting(state: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if not key.startswith("temp:")}


def _event_item(event: Event) -> MemoryItem:
    return MemoryItem(
        id=event.id,
        **_fields(event),
        payload=event.model_dump_json(),
        payload_format="adk",
    )


def _fields(event: Event) -> dict[str, Any]:
    """Return the fields of an event's item: speaker, text, calls and results."""
    parts = (event.content.parts if event.content else None) or []
    called = [call.id or call.name for call in (*event.get_function_calls(), *event.get_function_responses())]
    return {
        "memory_type": EVENT,
        "content": " ".join(part.text for part in parts if part.text).replace("\0", ""),
        "name": event.author,
        "provider_parts": [str(event.content.role) if event.content else "", *called],
    }


def _event(item: MemoryItem) -> Event:
    """Return the original event of an item, or one built from the fields if the item has changed."""
    event = Event.model_validate_json(item.payload or "")
    if agrees(item, _fields(event)):
        return event
    author = item.name or "user"
    said = Content(role="user" if author == "user" else "model", parts=[Part(text=item.content)])
    return Event(id=item.id, author=author, content=said, invocation_id=event.invocation_id, timestamp=event.timestamp)


def _entries(found: Sequence[MemoryItem]) -> list[MemoryEntry]:
    events = [_event(item) for item in found]
    return [MemoryEntry(content=event.content, author=event.author) for event in events if event.content]


async def main() -> None:
    """Keep a session of Ada's."""
    async with memoranda.open("memory://") as store:
        sessions, memories = MemorandaSessionService(store), MemorandaMemoryService(store)
        session = await sessions.create_session(app_name="app", user_id="ada", session_id="chat")
        for author, text in (("user", "My flat is in Oslo."), ("helper", "Noted.")):
            said = Content(role="user" if author == "user" else "model", parts=[Part(text=text)])
            actions = EventActions(state_delta={"city": "Oslo"})
            event = Event(id=uuid.uuid4().hex, author=author, content=said, invocation_id="i", actions=actions)
            await sessions.append_event(session, event)
        whose = {"app_name": "app", "user_id": "ada"}
        found = await sessions.get_session(**whose, session_id="chat")
        assert found is not None
        print(len(found.events), "events, and the state", found.state)
        print("the last event:", found.events[-1].content.parts[0].text)  # type: ignore[union-attr,index]
        answer = await memories.search_memory(**whose, query="Where is the flat?")
        print("a search of Ada's finds:", answer.memories[0].content.parts[0].text)  # type: ignore[index]
        bobs = await sessions.list_sessions(app_name="app", user_id="bob")
        print("Bob's sessions:", len(bobs.sessions))
        await sessions.delete_session(**whose, session_id="chat")
        print("deleted:", await sessions.get_session(**whose, session_id="chat"))


if __name__ == "__main__":
    asyncio.run(main())
