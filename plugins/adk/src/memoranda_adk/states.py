"""The state of sessions, users and apps: records that are written together with events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from pydantic_core import to_jsonable_python

from memoranda.items import MemoryItem
from memoranda.store import BaseStore
from memoranda_adk.events import FORMAT, moment_of
from memoranda_sessions import Record, Records

SESSION, USER, APP = "session", "user", "app"
"""The scopes of state, and the kinds of records that hold it."""

_PREFIXES = {USER: State.USER_PREFIX, APP: State.APP_PREFIX}
_NAME = "state"

Deltas = dict[str, dict[str, Any]]


def deltas_of(state: Mapping[str, Any] | None) -> Deltas:
    """Return changes of state by scope, as JSON. What JSON cannot hold is stored as its text; ``temp:`` is left out."""
    found: Deltas = {SESSION: {}, USER: {}, APP: {}}
    for key, value in (state or {}).items():
        scope = next((scope for scope, prefix in _PREFIXES.items() if key.startswith(prefix)), SESSION)
        if not key.startswith(State.TEMP_PREFIX):
            found[scope][key.removeprefix(_PREFIXES.get(scope, ""))] = to_jsonable_python(value, fallback=str)
    return found


@dataclass(frozen=True, slots=True)
class Stored:
    """The records of a session, its user and its app; None for a missing one."""

    session: Record | None
    user: Record | None
    app: Record | None

    def state(self) -> dict[str, Any]:
        """Return the state that the session shows."""
        shown = state_of(self.session)
        for prefix, record in ((State.APP_PREFIX, self.app), (State.USER_PREFIX, self.user)):
            shown |= {prefix + key: value for key, value in state_of(record).items()}
        return shown


def state_of(record: Record | None) -> dict[str, Any]:
    """Return the state that a record holds."""
    return {} if record is None else dict(record.value["state"])


class States:
    """The records of one session: its own, and those of its user and its app, which it shares with other sessions."""

    def __init__(self, store: BaseStore, app_name: str, user_id: str, session_id: str) -> None:
        self.app_name, self.user_id, self.session_id = app_name, user_id, session_id
        self._store = store
        app = store.scoped(agent_id=app_name)
        user = app.scoped(user_id=user_id)
        self._records = {
            SESSION: Records(user.scoped(session_id=session_id), FORMAT),
            USER: Records(user, FORMAT),
            APP: Records(app, FORMAT),
        }
        self._scopes = {records.id_of(scope, _NAME): scope for scope, records in self._records.items()}
        self.session_record = next(iter(self._scopes))

    async def read(self) -> Stored:
        """Return what is stored."""
        scopes = {self._scopes[item.id]: item for item in await self._store.get_many(list(self._scopes))}
        found = {scope: self._records[scope].record(item) for scope, item in scopes.items()}
        return Stored(found.get(SESSION), found.get(USER), found.get(APP))

    def changed(
        self, stored: Stored, deltas: Deltas, timestamp: float, last_event: str | None
    ) -> tuple[list[MemoryItem], Stored]:
        """Return the records to write with an event, and what is stored once they are written."""
        after = {SESSION: stored.session, USER: stored.user, APP: stored.app}
        own = {"id": self.session_id, "last_update_time": timestamp, "last_event": last_event}
        moment = moment_of(timestamp)
        items = []
        for scope, before in after.items():
            if scope != SESSION and not deltas[scope]:
                continue
            value = {"state": state_of(before) | deltas[scope], **(own if scope == SESSION else {})}
            value |= {} if scope == APP else {"user_id": self.user_id}
            version = before.version if before else 0
            items.append(self._records[scope].item(scope, _NAME, value, version=version, updated_at=moment))
            after[scope] = Record(scope, _NAME, value, version + 1, items[-1].updated_at, {})
        return items, Stored(after[SESSION], after[USER], after[APP])


async def listed(store: BaseStore, app_name: str, user_id: str | None, limit: int | None, offset: int) -> list[Session]:
    """Return sessions without events: of those that were active last, the oldest first."""
    app = store.scoped(agent_id=app_name)
    records = Records(app if user_id is None else app.scoped(user_id=user_id), FORMAT)
    found = await records.list(SESSION, limit=limit, offset=offset)
    users = {record.value["user_id"]: record for record in await records.list(USER)}
    shared = await Records(app, FORMAT).get(APP, _NAME)
    sessions = [
        Session(
            id=record.value["id"],
            app_name=app_name,
            user_id=record.value["user_id"],
            state=Stored(record, users.get(record.value["user_id"]), shared).state(),
            last_update_time=record.value["last_update_time"],
        )
        for record in found
    ]
    return sorted(sessions, key=lambda session: (session.last_update_time, session.user_id, session.id))
