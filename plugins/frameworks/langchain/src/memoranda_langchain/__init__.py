"""LangChain's chat history and a retriever in any store of memoranda."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_langchain.memory import LangChainFormat, MemorandaChatMessageHistory, MemorandaRetriever

__all__ = ["LangChainFormat", "MemorandaChatMessageHistory", "MemorandaRetriever"]

__getattr__, __dir__ = lazy_names(__name__, {"memory": __all__})
