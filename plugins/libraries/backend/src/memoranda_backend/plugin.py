"""The entry point: names the ranker and the embedder, which are imported when they are first used."""

from __future__ import annotations

from memoranda.plugins import EmbeddingsSpec, RankerSpec, hookimpl


@hookimpl
def memoranda_rankers() -> list[RankerSpec]:
    """Offer the ranker ``text``."""
    return [
        RankerSpec(
            "text",
            target="memoranda_backend.ranking.scope_index:TextRanker",
            api=1,
            summary="Words weighted by how rare they are, with neighbouring turns, speakers and dates.",
        )
    ]


@hookimpl
def memoranda_embeddings() -> list[EmbeddingsSpec]:
    """Offer the embedder that needs no model."""
    return [
        EmbeddingsSpec(
            "hashing",
            target="memoranda_backend.ranking.embedding:HashingEmbeddings",
            api=1,
            summary="Hashed words and character n-grams; for tests and demos, not for meaning.",
        )
    ]
