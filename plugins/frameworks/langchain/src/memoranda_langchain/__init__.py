"""LangChain's chat history and a retriever in any store of memoranda."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_langchain.history import MemorandaChatMessageHistory
    from memoranda_langchain.messages import LangChainFormat
    from memoranda_langchain.retriever import MemorandaRetriever

__all__ = ["LangChainFormat", "MemorandaChatMessageHistory", "MemorandaRetriever"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "history": ["MemorandaChatMessageHistory"],
        "messages": ["LangChainFormat"],
        "retriever": ["MemorandaRetriever"],
    },
)
