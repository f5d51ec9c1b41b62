"""Memoranda's vector store and embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda.embeddings import Embeddings
    from memoranda_backend.ranking import HashingEmbeddings
    from memoranda_openai.embeddings import OpenAIEmbeddings as OpenAIEmbeddings
    from memoranda_vector.engine import VectorEngine
    from memoranda_vector.store import VectorMemoryStore

# OpenAIEmbeddings is offered too, but it is another distribution's: a star import must not need that.
__all__ = ["Embeddings", "HashingEmbeddings", "VectorEngine", "VectorMemoryStore"]

_get_name, __dir__ = lazy_names(
    __name__,
    {
        "memoranda.embeddings": ["Embeddings"],
        "memoranda_openai.embeddings": ["OpenAIEmbeddings"],
        "memoranda_backend.ranking.embedding": ["HashingEmbeddings"],
        "engine": ["VectorEngine"],
        "store": ["VectorMemoryStore"],
    },
)


def __getattr__(name: str) -> Any:
    try:
        return _get_name(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "memoranda_openai":
            raise
        from memoranda.plugins import how_to_install

        remedy = how_to_install("memoranda-openai")
        raise ModuleNotFoundError(f"{name} is in a distribution of its own. Try: {remedy}", name=error.name) from None
