"""A memory block of LlamaIndex that recalls."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemoryBlock
from pydantic import Field, PrivateAttr

from memoranda.store import Store
from memoranda.sync import SyncStore
from memoranda_context import Fence, recall_notes
from memoranda_llama_index.messages import LlamaIndexFormat
from memoranda_messages.sessions import Sessions, finished

FORMAT = LlamaIndexFormat()


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
