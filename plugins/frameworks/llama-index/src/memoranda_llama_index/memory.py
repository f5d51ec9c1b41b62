"""LlamaIndex's chat store, the queue behind its ``Memory``, and a memory block that recalls, in any store."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Unpack

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemoryBlock
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from pydantic import Field, PrivateAttr

from memoranda.items import MemoryItem
from memoranda.store import EVERYTHING, Store
from memoranda.sync import SyncStore
from memoranda_context import Fence, recall_notes
from memoranda_llama_index.messages import LlamaIndexFormat
from memoranda_messages.sessions import (
    RECORD,
    Conversation,
    Dropped,
    SessionOptions,
    Sessions,
    finished,
    replaced,
    retry_conflicts,
    settled,
)

FORMAT = LlamaIndexFormat()
_HIDDEN = frozenset({RECORD, "branch", "receipt", "revision"})
"""What is archived from birth, and no message."""


class MemorandaChatStore(AsyncDBChatStore):
    """A session for each key: ``Memory.from_defaults(session_id="chat-1", chat_store=MemorandaChatStore(store))``.

    - ``store`` is any open store or handle, async or of :mod:`memoranda.sync`. Bind it to a user, since a key does not
      say whose session it is. The chat store never closes it.
    - Archived messages are archived items: no window or search shows them, ``recall`` does.
    - Of earlier turns, calls without all their results are neither returned nor counted. They are archived or removed
      together with the messages around them.
    - ``ttl``, ``min_trust``, ``fence`` and ``receipt`` are those of :class:`memoranda_messages.sessions.Conversation`.
    """

    _sessions: Sessions = PrivateAttr()

    def __init__(self, store: Store | SyncStore, **options: Unpack[SessionOptions]) -> None:
        super().__init__()
        self._sessions = Sessions(store, **options)

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class, by which LlamaIndex knows it."""
        return "MemorandaChatStore"

    @property
    def dropped(self) -> list[Dropped]:
        """What the last read could not carry over from messages of other frameworks."""
        return self._sessions.dropped

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """Return messages of a status, or of both for None, oldest first; ``limit`` counts from the ``offset`` on."""
        start, view = offset or 0, self._sessions.view(key)
        found = self._messages(view, await self._items(key, status), status)
        found = found[start : None if limit is None else start + limit]
        await view.record([item for _, items in found for item in items], limit)
        return [message for message, _ in found]

    async def count_messages(self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE) -> int:
        """Return the number of messages of a status, or of both for None."""
        return len(await self._read(key, status))

    async def add_message(self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE) -> None:
        """Store a message."""
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Store messages, all or none. If it raises, even for a cancellation, the write has finished or failed."""
        await self._sessions.stored(key).append(_items(messages, status))

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Replace the messages of a status with these, all or none."""
        await self._sessions.stored(key).replace(_items(messages, status), archived=status is MessageStatus.ARCHIVED)

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Remove the active message at a position, 0 for the oldest, and return it; None if there is none."""
        found = await self._read(key)
        if not 0 <= idx < len(found):
            return None
        message, items = found[idx]
        await replaced(self._sessions.stored(key).items, [item.id for item in items])
        return message

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Remove the messages of a status, or all for None, for good if the store can."""
        conversation = self._sessions.stored(key)
        if status is None:
            await conversation.clear()
        else:
            await conversation.replace([], archived=status is MessageStatus.ARCHIVED)

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Remove the oldest active messages, for good if the store can, and return them."""
        messages, items = await self._oldest(key, n)
        await replaced(self._sessions.stored(key).items, [item.id for item in items])
        return messages

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Archive the oldest active messages, all or none, and return them."""
        conversation = self._sessions.stored(key)

        async def attempt() -> list[ChatMessage]:
            messages, items = await self._oldest(key, n)
            if items:
                await conversation.items.update_many([_archived(item) for item in items])
            return messages

        return await finished(retry_conflicts(attempt))

    async def get_keys(self) -> list[str]:
        """Return the sessions."""
        return [
            str(owner.value) async for owner in self._sessions.store.owners("session_id") if owner.value is not None
        ]

    async def _read(
        self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE
    ) -> list[tuple[ChatMessage, list[MemoryItem]]]:
        """Return the messages of a status, each with its items."""
        return self._messages(self._sessions.view(key), await self._items(key, status), status)

    def _messages(
        self, view: Conversation, items: list[MemoryItem], status: MessageStatus | None = MessageStatus.ACTIVE
    ) -> list[tuple[ChatMessage, list[MemoryItem]]]:
        shown = view.trusted(items)
        return self._sessions.messages(FORMAT, settled(shown) if status is MessageStatus.ACTIVE else shown)

    async def _items(self, key: str, status: MessageStatus | None) -> list[MemoryItem]:
        """Return the items of a status, oldest first, as they are stored."""
        conversation = self._sessions.stored(key)
        if status is MessageStatus.ACTIVE:
            return await conversation.read()
        archived = None if status is None else True
        found = await conversation.items.search(mode="substring", archived=archived, order="added", limit=EVERYTHING)
        return [item for item in reversed(found) if item.memory_type not in _HIDDEN]

    async def _oldest(self, key: str, n: int) -> tuple[list[ChatMessage], list[MemoryItem]]:
        """Return the oldest active messages, and their items with those between them that give no message."""
        stored = await self._items(key, MessageStatus.ACTIVE)
        found = self._messages(self._sessions.view(key), stored)
        taken = {item.id for _, items in found[: max(n, 0)] for item in items}
        later = {item.id for _, items in found[max(n, 0) :] for item in items}
        last = max((at for at, item in enumerate(stored) if item.id in taken), default=-1)
        return [one for one, _ in found[: max(n, 0)]], [item for item in stored[: last + 1] if item.id not in later]


def _items(messages: Sequence[ChatMessage], status: MessageStatus) -> list[MemoryItem]:
    items = FORMAT.items(messages)
    return items if status is MessageStatus.ACTIVE else [_archived(item) for item in items]


def _archived(item: MemoryItem) -> MemoryItem:
    """Return an item that is archived by itself: no summary stands for it."""
    return item.model_copy(update={"archived_by": item.id})


class MemorandaMemoryBlock(BaseMemoryBlock[list[ChatMessage]]):
    """Recalls what matters for the latest message: ``MemorandaMemoryBlock(store.scoped(user_id="ada"))``.

    That is what ``memoranda_context.assemble`` puts into a prompt beside the conversation: what is known of the user,
    what the user said that is worth knowing whatever is asked, and what answers the message.

    - ``store`` is any open store or handle. One that is bound to a user recalls from all sessions of that user; what
      the session still shows is left out.
    - ``tokens`` bounds what is recalled, and so does the memory's own limit, by ``priority``: 0 is never removed. A
      higher one removes all memories if they do not fit. With a ``limit``, at most so many memories are recalled, only
      such as answer the message.
    - ``min_trust`` leaves out what is trusted less; ``fence``, such as ``memoranda_guard.Fence()``, shows it as quotes.
    - Memories come as a message of the user's before the others, which says that they are no instructions. They never
      become part of the system message.
    - Messages that leave the memory's queue are archived by :class:`MemorandaChatStore` and can be recalled from there.
      If yours are in another chat store, set ``accept_short_term_memory=True``: then the block stores them.
    """

    name: str = "memories"
    accept_short_term_memory: bool = False
    tokens: int = Field(default=2_000, description="The most tokens of what is recalled.")
    limit: int | None = Field(default=None, description="The most memories to recall.")
    min_trust: str | None = Field(default=None, description="The least trust of what is recalled.")
    _sessions: Sessions = PrivateAttr()
    _fence: Fence | None = PrivateAttr(default=None)

    def __init__(self, store: Store | SyncStore, *, fence: Fence | None = None, **fields: Any) -> None:
        super().__init__(**fields)
        self._sessions = Sessions(store)
        self._fence = fence

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> list[ChatMessage]:
        """Return what is recalled for the latest message of a person; empty if there is none, or nothing."""
        asked = [message.content or "" for message in messages or () if message.role == MessageRole.USER]
        if not asked:
            return []
        session_id = block_kwargs.get("session_id")
        window = [] if session_id is None else await self._sessions.stored(session_id).read()
        notes = await recall_notes(
            self._sessions.reaching,
            asked[-1],
            tokens=self.tokens,
            limit=self.limit,
            window=window,
            fence=self._fence,
            min_trust=self.min_trust,
        )
        return [ChatMessage(role=MessageRole.USER, content=notes.text)] if notes.text else []

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Store messages, each in the session that the memory noted in it."""
        for session_id, group in groupby(messages, key=lambda message: message.additional_kwargs.get("session_id")):
            items = FORMAT.items(group)
            if session_id is None:
                await finished(self._sessions.store.add_many(items))
            else:
                await self._sessions.stored(session_id).append(items)
