"""What this distribution adds to recollect."""

from __future__ import annotations

from recollect.hookspecs import Backend, EmbeddingsSpec, hookimpl


@hookimpl
def recollect_backends() -> list[Backend]:
    """Offer the vector store."""
    return [
        Backend(
            "vector",
            schemes=("vector",),
            target="recollect_vector.store:VectorMemoryStore",
            api=1,
            summary="In this process, found by meaning; needs an embedder.",
        )
    ]


@hookimpl
def recollect_embeddings() -> list[EmbeddingsSpec]:
    """Offer the embedder for OpenAI's API and those that speak it."""
    return [
        EmbeddingsSpec(
            "openai",
            target="recollect_vector.openai_embeddings:OpenAIEmbeddings",
            api=1,
            summary="OpenAI's embeddings API, or any server that speaks it; the key comes from OPENAI_API_KEY.",
        )
    ]
