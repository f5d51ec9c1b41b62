"""ADK's session service in any store."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, Unpack

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from pydantic import PrivateAttr
from pydantic_core import to_jsonable_python

from memoranda.errors import VersionConflictError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import EVERYTHING, Store
from memoranda.sync import SyncStore
from memoranda_adk.events import FORMAT, EventFormat, item_id, moment_of
from memoranda_messages.sessions import (
    Conversation,
    Dropped,
    ScopedState,
    SessionOptions,
    Sessions,
    StoredState,
    finished,
    replaced,
    retry_conflicts,
    seen_by,
    states_of,
    write_records,
)
from memoranda_messages.sessions.sessions import APP, SESSION, USER

_PREFIXES = {USER: State.USER_PREFIX, APP: State.APP_PREFIX}

Deltas = dict[str, dict[str, Any]]


def deltas_of(state: Mapping[str, Any] | None) -> Deltas:
    """Return changes of state by scope, as JSON. What JSON cannot hold is stored as its text; ``temp:`` is left out."""
    found: Deltas = {SESSION: {}, USER: {}, APP: {}}
    for key, value in (state or {}).items():
        scope = next((scope for scope, prefix in _PREFIXES.items() if key.startswith(prefix)), SESSION)
        if not key.startswith(State.TEMP_PREFIX):
            found[scope][key.removeprefix(_PREFIXES.get(scope, ""))] = to_jsonable_python(value, fallback=str)
    return found


def shown_state(stored: StoredState) -> dict[str, Any]:
    """Return the state that a session shows: its own, and that which it shares."""
    shown = stored.values(SESSION)
    for scope, prefix in _PREFIXES.items():
        shown |= {prefix + key: value for key, value in stored.values(scope).items()}
    return shown


_SESSIONS = 128
"""Of how many sessions the handles are kept."""

_UNRECORDED = "0"
"""The revision of a session that another framework wrote."""


class StoredSession(Session):
    """A session as it was loaded. Its revision tells this state of it from later ones."""

    _revision: str | None = PrivateAttr(default=None)


class MemorandaSessionService(BaseSessionService):
    """Sessions of ADK: ``Runner(…, session_service=MemorandaSessionService(store))``.

    - ``store`` is any open store or handle. The service never closes it.
    - Events are items of the conversation: ``user_id`` is the user, ``session_id`` the session, ``agent_id`` the app.
      Sessions of different apps are apart, even if they have the same id.
    - A session that another framework wrote can be read and continued. What its model said gets the author ``agent``,
      by default the name of the app.
    - ``ttl``, ``min_trust``, ``fence`` and ``receipt`` are those of :class:`memoranda_messages.sessions.Conversation`.
      All but the first apply to what :meth:`get_session` returns.
    """

    def __init__(
        self, store: Store | SyncStore, *, agent: str | None = None, **options: Unpack[SessionOptions]
    ) -> None:
        self._sessions = Sessions(store, **options)
        self._agent = agent
        self._states = lru_cache(_SESSIONS)(partial(ScopedState, self._sessions.store, FORMAT))

    def __repr__(self) -> str:
        return f"MemorandaSessionService({self._sessions.store!r})"

    @property
    def dropped(self) -> list[Dropped]:
        """What the last :meth:`get_session` could not carry over from other frameworks."""
        return self._sessions.dropped

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Store a new session, with an id of its own if none is given. Raises AlreadyExistsError."""
        states = self._states(app_name, user_id, (session_id or "").strip() or uuid.uuid4().hex)
        deltas, now = deltas_of(state), time.time()

        async def create() -> StoredState:
            before = await states.read()
            if before.session is not None or await self._exists(states):
                raise AlreadyExistsError(f"Session with id {states.session_id} already exists.")
            records, after = _changed(states, before, deltas, now, None)
            await write_records(self._sessions.store, records)
            return after

        return _session(states, await finished(retry_conflicts(create)), [])

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return a session with its events, in the order of adding; None if there is none.

        ``config`` keeps the events from ``after_timestamp`` on, and of these the newest ``num_recent_events``.
        """
        config = config or GetSessionConfig()
        states = self._states(app_name, user_id, session_id.strip())
        # The records come first: if an event is added meanwhile, the session counts as stale, and not the other way.
        stored = await states.read()
        if stored.session is None and not await self._exists(states):
            return None
        events = await self._events(states, config.num_recent_events, config.after_timestamp)
        return _session(states, stored, events)

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None, limit: int | None = None, offset: int = 0
    ) -> ListSessionsResponse:
        """Return the sessions of a user, or of all users, without their events: the last active one comes last.

        With ``limit`` and ``offset`` they come in pages, beginning with the sessions that were active last.
        """
        found = await states_of(self._sessions.store, FORMAT, app_name, user_id, limit, offset)
        sessions = [Session(app_name=app_name, **_fields(stored)) for stored in found]
        sessions.sort(key=lambda session: (session.last_update_time, session.user_id, session.id))
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Remove a session with its events and its state, for good if the store can."""
        states = self._states(app_name, user_id, session_id.strip())
        place = self._conversation(states).items
        found = await place.search(archived=None, limit=EVERYTHING, mode="substring")
        found += await place.search(archived=None, limit=EVERYTHING, mode="substring", memory_type="receipt")
        await replaced(place, [states.session_record, *(item.id for item in seen_by(app_name, found, FORMAT))])

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state that a user's sessions share, without the prefix ``user:``."""
        return (await self._states(app_name, user_id, "").read()).values(USER)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store an event with the state that it leads to, all or none, and append it to the session.

        A partial event is not stored, and one that is delivered again is stored once. Raises StaleSessionError if the
        session has gone on since it was loaded, and SessionNotFoundError if it is gone. If the call is cancelled, the
        event is stored and appended by then, or neither.
        """
        return event if event.partial else await finished(self._append(session, event))

    async def _append(self, session: Session, event: Event) -> Event:
        states = self._states(session.app_name, session.user_id, session.id)
        lasting, deltas = _without_temp(event), deltas_of(event.actions.state_delta)

        async def write() -> StoredState | None:
            stored = await states.read()
            await self._check_current(states, session, stored)
            return await self._written(states, stored, lasting, deltas)

        after = await retry_conflicts(write)
        if after is None:
            return event
        if isinstance(session, StoredSession):
            session._revision = _revision(after)
        session.last_update_time = event.timestamp
        return await super().append_event(session, event)

    async def _written(
        self, states: ScopedState, stored: StoredState, event: Event, deltas: Deltas
    ) -> StoredState | None:
        """Store an event and return what is stored by then; None if the event was stored before."""
        owner = MemoryMetadata(user_id=states.user_id, session_id=states.session_id, agent_id=states.app)
        own = item_id(self._sessions.store, states.app, states.user_id, states.session_id, event.id)
        records, after = _changed(states, stored, deltas, event.timestamp, event.id)
        conversation, as_items = self._conversation(states), EventFormat(states.app).items
        items = as_items([event], metadata=owner, ids=[own])
        try:
            await conversation.append(items, records=records)
        except VersionConflictError as error:
            if error.item_id != own:
                raise
            before = await conversation.items.get(own)
            if before is not None and before.payload == items[0].payload:
                return None
            # Another event has the same id, as in tests that give out ids of their own.
            await conversation.append(as_items([event], metadata=owner), records=records)
        return after

    async def _check_current(self, states: ScopedState, session: Session, stored: StoredState) -> None:
        """Raise StaleSessionError or SessionNotFoundError if the session is not the stored one."""
        record = stored.session
        revision = session._revision if isinstance(session, StoredSession) else None
        if record is None:
            if revision in (None, _UNRECORDED) and await self._exists(states):
                return
            raise SessionNotFoundError(f"Session {session.id} not found.")
        if revision is not None:
            is_current = revision == _revision(stored)
        else:  # It was made by hand, or came as JSON.
            last = session.events[-1].id if session.events else None
            is_current = record.value["last_update_time"] <= session.last_update_time
            is_current = is_current or last == record.value["last_event"]
        if not is_current:
            raise StaleSessionError(
                f"Session {session.id} was modified in storage since it was loaded. Get it again before you append."
            )

    def _conversation(self, states: ScopedState) -> Conversation:
        return self._sessions.view(states.session_id, user_id=states.user_id)

    async def _exists(self, states: ScopedState) -> bool:
        """Return True if there are items that the app sees, whether or not it has a record of the session."""
        return bool(seen_by(states.app, await self._conversation(states).read(), FORMAT))

    async def _events(self, states: ScopedState, most: int | None, after: float | None) -> list[Event]:
        """Return the newest events from a time on, oldest first."""
        conversation = self._conversation(states)
        found = await self._sessions.newest(
            conversation,
            EventFormat(self._agent or states.app),
            most,
            agent=states.app,
            since=None if after is None else moment_of(after),
            wanted=lambda event: after is None or event.timestamp >= after,
        )
        await conversation.record([item for _, items in found for item in items], most)
        return [event for event, _ in found]


def _changed(
    states: ScopedState, stored: StoredState, deltas: Deltas, timestamp: float, last_event: str | None
) -> tuple[list[MemoryItem], StoredState]:
    """Return the records to write with an event, and what is stored once they are written."""
    about = {"last_update_time": timestamp, "last_event": last_event}
    return states.changed(stored, deltas, about, moment_of(timestamp))


def _fields(stored: StoredState) -> dict[str, Any]:
    """Return the fields of a session that its record holds."""
    value = {} if stored.session is None else stored.session.value
    named = {name: value[name] for name in ("id", "user_id", "last_update_time") if name in value}
    return named | {"state": shown_state(stored)}


def _session(states: ScopedState, stored: StoredState, events: list[Event]) -> Session:
    last = {
        "id": states.session_id,
        "user_id": states.user_id,
        "last_update_time": events[-1].timestamp if events else 0,
    }
    session = StoredSession(**last | _fields(stored), app_name=states.app, events=events)
    session._revision = _revision(stored)
    return session


def _revision(stored: StoredState) -> str:
    """Return what tells the state of a session from later ones."""
    record = stored.session
    return _UNRECORDED if record is None else f"{record.version} {record.value['last_update_time']}"


def _without_temp(event: Event) -> Event:
    """Return an event without the state that lasts only as long as its invocation."""
    delta = event.actions.state_delta
    lasting = {key: value for key, value in delta.items() if not key.startswith(State.TEMP_PREFIX)}
    if len(lasting) == len(delta):
        return event
    return event.model_copy(update={"actions": event.actions.model_copy(update={"state_delta": lasting})})
