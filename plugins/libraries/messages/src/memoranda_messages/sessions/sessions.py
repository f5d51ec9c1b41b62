"""A framework's sessions in a store: opened with the same options, with their state, sync or async."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Self, TypedDict, TypeVar

from memoranda import sync
from memoranda.errors import StoreMisuseError
from memoranda.items import MemoryItem
from memoranda.loops import filter_weight, offload
from memoranda.store import EVERYTHING, Store
from memoranda.sync import SyncStore
from memoranda.trust import check_trust
from memoranda_messages import Dropped
from memoranda_messages.parts import framed
from memoranda_messages.sessions.conversation import Conversation, Fence
from memoranda_messages.sessions.formats import MessageFormat
from memoranda_messages.sessions.records import RECORD, Record, Records

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


T = TypeVar("T")


class SyncCallError(StoreMisuseError, asyncio.InvalidStateError):
    """A sync method was called inside a running event loop, which it would block."""

    def __init__(self, name: str, instead: str) -> None:
        super().__init__(
            f"{name} was used inside a running event loop, which it would block. Await {instead}(), or use it from "
            f"another thread."
        )


def blocking(name: str, work: Callable[[], Coroutine[Any, Any, T]], *, instead: str | None = None) -> T:
    """Run a coroutine and return its result, for a sync method of this ``name``.

    ``instead`` is its async counterpart, unless that has the same name with an ``a`` before it. Raises SyncCallError in
    a running event loop.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return sync.run(work())
    raise SyncCallError(name, instead or f"a{name}")


def beside(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine, for a framework that calls sync methods inside its event loop, which waits."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return sync.run(work)
    return _threads(os.getpid()).submit(sync.run, work).result()


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """Return the threads of a process; those of its parent are not there any more after a fork."""
    return ThreadPoolExecutor(thread_name_prefix="memoranda-beside")


def awaitable_store(store: Store | SyncStore) -> Store:
    """Return the async store: the store itself, or the one behind a sync store."""
    return store.awaitable if isinstance(store, SyncStore) else store


M = TypeVar("M")

_MORE = 16
"""How many items are read beyond the wanted messages, since a message may consist of several."""


class ViewOptions(TypedDict, total=False):
    """What a model is shown: see :class:`Conversation`."""

    min_trust: str | None
    fence: Fence | None
    receipt: object


class SessionOptions(ViewOptions, total=False):
    """What an adapter passes on to its conversations: see :class:`Conversation`."""

    ttl: float | None


class Sessions:
    """The sessions of a store: ``Sessions(store, ttl=3600)``. The options are those of :class:`Conversation`.

    ``store`` is any open store or handle, async or of :mod:`memoranda.sync`. Sessions lie in its own scope;
    ``reaching`` is what was given, with the spaces that it reaches, for what is recalled. ``dropped`` has what the last
    read could not carry over from other frameworks.
    """

    def __init__(
        self,
        store: Store | SyncStore,
        *,
        ttl: float | None = None,
        min_trust: str | None = None,
        fence: Fence | None = None,
        receipt: object = None,
    ) -> None:
        if min_trust is not None:
            check_trust(min_trust, "min_trust")
        self.reaching = awaitable_store(store)
        self.store = self.reaching.own
        self.dropped: list[Dropped] = []
        self._ttl = ttl
        self._view: dict[str, Any] = {"min_trust": min_trust, "fence": fence, "receipt": receipt}

    def __repr__(self) -> str:
        return f"Sessions({self.store!r})"

    def __deepcopy__(self, memo: Any) -> Self:
        """Return itself: what a framework copies with all that it holds still uses the same store."""
        return self

    def view(self, session_id: str, *, user_id: str | None = None) -> Conversation:
        """Return a session as a model is shown it."""
        return Conversation(self.store, session_id, user_id=user_id, ttl=self._ttl, **self._view)

    def stored(self, session_id: str, *, user_id: str | None = None) -> Conversation:
        """Return a session as it is stored, whatever a model would be shown of it."""
        return Conversation(self.store, session_id, user_id=user_id, ttl=self._ttl)

    def messages(self, written_in: MessageFormat[M], items: Iterable[MemoryItem]) -> list[tuple[M, list[MemoryItem]]]:
        """Return the messages of items, each with its items, and note what could not be carried over."""
        dropped: list[Dropped] = []
        found = written_in.paired(items, dropped=dropped)
        self.dropped = dropped
        return found

    async def newest(
        self,
        conversation: Conversation,
        written_in: MessageFormat[M],
        most: int | None,
        *,
        agent: str,
        since: str | None = None,
        wanted: Callable[[M], bool] = lambda message: True,
    ) -> list[tuple[M, list[MemoryItem]]]:
        """Return the newest messages that an agent sees, oldest first, each with its items.

        ``since`` leaves out items that were created before, and ``wanted`` messages after that.
        """
        limit = EVERYTHING if most is None else most + _MORE
        self.dropped = []
        while most != 0:
            found = await conversation.read(min(limit, EVERYTHING), since=since)
            items = seen_by(agent, found, written_in.name)
            while len(found) >= limit and items and "of" in (framed(items[0]) or ()):
                del items[0]  # Its message begins before what was read.
            read = partial(self.messages, written_in)
            loaded = [each for each in await offload(filter_weight(len(items)), read, items) if wanted(each[0])]
            # The first of several may be the rest of a message of another framework.
            if most is None or len(found) < limit or len(loaded) > most:
                return loaded if most is None else loaded[-most:]
            limit *= 4
        return []


def seen_by(agent: str, items: Iterable[MemoryItem], framework: str) -> list[MemoryItem]:
    """Return what an agent or app sees of a session: all but records and what others of its framework said there.

    ``framework`` is the name of its format.
    """
    return [
        item
        for item in items
        if item.memory_type != RECORD and (item.payload_format != framework or item.metadata.agent_id in (agent, None))
    ]
