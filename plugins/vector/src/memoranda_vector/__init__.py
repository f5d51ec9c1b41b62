"""Memoranda's vector store and embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda.embeddings import Embeddings, HashingEmbeddings
    from memoranda_openai.embeddings import OpenAIEmbeddings
    from memoranda_vector.store import VectorMemoryStore

__all__ = ["Embeddings", "HashingEmbeddings", "OpenAIEmbeddings", "VectorMemoryStore"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "memoranda.embeddings": ["Embeddings", "HashingEmbeddings"],
        "memoranda_openai.embeddings": ["OpenAIEmbeddings"],
        "store": ["VectorMemoryStore"],
    },
)
