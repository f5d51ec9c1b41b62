"""Recollect's vector store and embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recollect.lazy import lazy_names

if TYPE_CHECKING:
    from recollect.embeddings import Embeddings, HashingEmbeddings
    from recollect_vector.openai_embeddings import OpenAIEmbeddings
    from recollect_vector.store import VectorMemoryStore

__all__ = ["Embeddings", "HashingEmbeddings", "OpenAIEmbeddings", "VectorMemoryStore"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "recollect.embeddings": ["Embeddings", "HashingEmbeddings"],
        "openai_embeddings": ["OpenAIEmbeddings"],
        "store": ["VectorMemoryStore"],
    },
)
