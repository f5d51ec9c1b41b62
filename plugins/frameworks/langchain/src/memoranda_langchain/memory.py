"""LangChain's chat message history, sync and async, and a retriever over ranked search, in any store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict

from memoranda.items import MemoryItem
from memoranda.store import Capability, Store
from memoranda.sync import SyncStore
from memoranda_langchain.messages import LangChainFormat
from memoranda_messages.sessions import Dropped, SessionOptions, Sessions, awaitable_store, blocking, settled

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


class MemorandaRetriever(BaseRetriever):
    """Finds memories by ranked search: ``MemorandaRetriever(store=store.scoped(user_id="ada"), k=4)``.

    - ``store`` is any open store or handle, async or of :mod:`memoranda.sync`. A handle finds what lies in its scope.
    - ``k`` is the most documents to return; ``invoke(query, k=…)`` overrides it.
    - ``mode`` is ``"text"``, ``"semantic"`` or ``"hybrid"``; without one it is hybrid if the store has an embedder,
      else text. ``min_score`` (0 to 1), ``memory_type`` and ``where`` are those of ``search_ranked``.

    A document's id is the item's. Its metadata has the item's ``score``, ``memory_type``, ``created_at``, ``name`` and
    ids, without those that are missing, and ``extra``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    store: Store | SyncStore
    k: int = 4
    mode: Literal["text", "semantic", "hybrid"] | None = None
    min_score: float = 0.0
    memory_type: str | list[str] | None = None
    where: Mapping[str, Any] | None = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return blocking("invoke", lambda: self._found(query, k))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return await self._found(query, k)

    async def _found(self, query: str, k: int | None) -> list[Document]:
        store = awaitable_store(self.store)
        mode = self.mode or ("hybrid" if Capability.HYBRID in store.capabilities else "text")
        ranked = await store.search_ranked(
            query=query,
            limit=self.k if k is None else k,
            mode=mode,
            memory_type=self.memory_type,
            where=self.where,
            min_score=self.min_score,
        )
        return [_document(found.item, found.score) for found in ranked]


def _document(item: MemoryItem, score: float) -> Document:
    owner = item.metadata.model_dump(exclude_defaults=True)
    said = {"memory_type": item.memory_type, "created_at": item.created_at, "name": item.name}
    known = {key: value for key, value in (owner | said).items() if value is not None}
    return Document(id=item.id, page_content=item.content, metadata={"score": score, **known})
