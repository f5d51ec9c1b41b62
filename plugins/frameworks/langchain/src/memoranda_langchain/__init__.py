"""LangChain's chat history and a retriever in any store of memoranda."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_langchain.memory import MemorandaChatMessageHistory, MemorandaRetriever
    from memoranda_langchain.messages import LangChainFormat

__all__ = ["LangChainFormat", "MemorandaChatMessageHistory", "MemorandaRetriever"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "memory": ["MemorandaChatMessageHistory", "MemorandaRetriever"],
        "messages": ["LangChainFormat"],
    },
)
