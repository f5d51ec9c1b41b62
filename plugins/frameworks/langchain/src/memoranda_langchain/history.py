"""LangChain's chat message history in any store, sync and async."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage

from memoranda.store import Store
from memoranda.sync import SyncStore
from memoranda_langchain.messages import LangChainFormat
from memoranda_messages.sessions import Dropped, SessionOptions, Sessions, blocking, settled

FORMAT = LangChainFormat()


class MemorandaChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session: ``MemorandaChatMessageHistory("chat-1", store.scoped(user_id="ada"))``.

    - ``store`` is any open store or handle, async or of :mod:`memoranda.sync`. Bind it to a user, since a session id
      does not say whose it is. The history never closes it.
    - ``limit`` is the most messages that are read, the newest ones. A call that it would cut from its results is left
      out, and so are these.
    - Calls without all their results are left out, and so are results without their call: what a cancelled run left
      behind is no part of the next request. With ``whole=False``, the turn that is under way is read as it is, for a
      program that reads the open calls and goes on with their results.
    - ``ttl``, ``min_trust``, ``fence`` and ``receipt`` are those of :class:`memoranda_messages.sessions.Conversation`.

    The sync methods can be called from any thread, but not inside a running event loop, which they would block.
    """

    def __init__(
        self,
        session_id: str,
        store: Store | SyncStore,
        *,
        limit: int | None = None,
        whole: bool = True,
        **options: Unpack[SessionOptions],
    ) -> None:
        super().__init__()
        self.session_id = session_id
        self._limit = limit
        self._whole = whole
        self._sessions = Sessions(store, **options)

    @property
    def dropped(self) -> list[Dropped]:
        """What the last read could not carry over from messages of other frameworks."""
        return self._sessions.dropped

    def __repr__(self) -> str:
        return f"MemorandaChatMessageHistory({self.session_id!r}, {self._sessions.store!r})"

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # writable there, but never written
        """The conversation, oldest first."""
        return blocking("messages", self.aget_messages, instead="aget_messages")

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages, all or none."""
        blocking("add_messages", lambda: self.aadd_messages(messages))

    def clear(self) -> None:
        """Remove every message, for good if the store can."""
        blocking("clear", self.aclear)

    async def aget_messages(self) -> list[BaseMessage]:
        """Return the conversation, oldest first."""
        conversation = self._sessions.view(self.session_id)
        if self._whole:
            items = await conversation.shown(self._limit)
        elif self._limit is None:
            items = settled(await conversation.read())
        else:
            items = settled(await conversation.uncut(self._limit))
        await conversation.record(items, self._limit)
        return [message for message, _ in self._sessions.messages(FORMAT, items)]

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages, all or none. If it raises, even for a cancellation, the write has finished or failed."""
        await self._sessions.stored(self.session_id).append(FORMAT.items(messages))

    async def aclear(self) -> None:
        """Remove every message, for good if the store can."""
        await self._sessions.stored(self.session_id).clear()
