"""A retriever of LangChain over ranked search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict

from memoranda.items import MemoryItem
from memoranda.store import Capability, Store
from memoranda.sync import SyncStore
from memoranda_messages.sessions import awaitable_store, blocking


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
