"""A framework's sessions in a store: opened with the same options, and read as its messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Self, TypedDict, TypeVar

from memoranda.items import MemoryItem
from memoranda.offloading import filter_weight, offload
from memoranda.store import EVERYTHING, Store
from memoranda.sync import SyncStore
from memoranda.trust import check_trust
from memoranda_messages import Dropped
from memoranda_messages.parts import framed
from memoranda_messages.sessions.conversation import Conversation, Fence
from memoranda_messages.sessions.formats import MessageFormat
from memoranda_messages.sessions.records import RECORD
from memoranda_messages.sessions.sync_calls import awaitable_store

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

    ``store`` is any open store or handle, async or of :mod:`memoranda.sync`. ``dropped`` has what the last read could
    not carry over from other frameworks.
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
        self.store = awaitable_store(store).own
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
