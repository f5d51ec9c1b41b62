"""State that a framework keeps for a session, for a user and for an app: records that are written with messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memoranda.items import MemoryItem
from memoranda.store import Store
from memoranda_messages.sessions.records import Record, Records

SESSION, USER, APP = "session", "user", "app"
"""The scopes of state, and the kinds of records that hold it."""

_NAME = "state"

Changes = Mapping[str, Mapping[str, Any]]
"""The values to set, by scope."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """The records of a session, its user and its app; None for a missing one."""

    session: Record | None
    user: Record | None
    app: Record | None

    def values(self, scope: str) -> dict[str, Any]:
        """Return the values of a scope."""
        record: Record | None = getattr(self, scope)
        return {} if record is None else dict(record.value["state"])


class ScopedState:
    """The state of one session, with that of its user and its app, which it shares with their other sessions."""

    def __init__(self, store: Store, framework: str, app: str, user_id: str, session_id: str) -> None:
        self.app, self.user_id, self.session_id = app, user_id, session_id
        self._store = store.own
        of_app = self._store.scoped(agent_id=app)
        of_user = of_app.scoped(user_id=user_id)
        self._records = {
            SESSION: Records(of_user.scoped(session_id=session_id), framework),
            USER: Records(of_user, framework),
            APP: Records(of_app, framework),
        }
        self._scopes = {records.id_of(scope, _NAME): scope for scope, records in self._records.items()}
        self.session_record = next(iter(self._scopes))
        """The id of the session's record."""

    async def read(self) -> StoredState:
        """Return what is stored."""
        scopes = {self._scopes[item.id]: item for item in await self._store.get_many(list(self._scopes))}
        found = {scope: self._records[scope].record(item) for scope, item in scopes.items()}
        return StoredState(found.get(SESSION), found.get(USER), found.get(APP))

    def changed(
        self, stored: StoredState, changes: Changes, about: Mapping[str, Any], updated_at: str | None
    ) -> tuple[list[MemoryItem], StoredState]:
        """Return the records to write with a message, and what is stored once they are written.

        The session's record is always written, with ``about`` beside its state; those of the user and the app only if
        they change.
        """
        after = {SESSION: stored.session, USER: stored.user, APP: stored.app}
        items = []
        for scope, before in after.items():
            if scope != SESSION and not changes[scope]:
                continue
            value: dict[str, Any] = {"state": stored.values(scope) | dict(changes[scope])}
            value |= {"id": self.session_id, **about} if scope == SESSION else {}
            value |= {} if scope == APP else {"user_id": self.user_id}
            version = before.version if before else 0
            items.append(self._records[scope].item(scope, _NAME, value, version=version, updated_at=updated_at))
            after[scope] = Record(scope, _NAME, value, version + 1, items[-1].updated_at, {})
        return items, StoredState(after[SESSION], after[USER], after[APP])


async def states_of(
    store: Store, framework: str, app: str, user_id: str | None, limit: int | None = None, offset: int = 0
) -> list[StoredState]:
    """Return the states of an app's sessions, or of those of one user: the last changed first."""
    of_app = store.own.scoped(agent_id=app)
    records = Records(of_app if user_id is None else of_app.scoped(user_id=user_id), framework)
    found = await records.list(SESSION, limit=limit, offset=offset)
    users = {record.value["user_id"]: record for record in await records.list(USER)}
    shared = await Records(of_app, framework).get(APP, _NAME)
    return [StoredState(record, users.get(record.value["user_id"]), shared) for record in found]
