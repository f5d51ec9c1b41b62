"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import Backend, hookimpl


@hookimpl
def memoranda_backends() -> list[Backend]:
    """Offer the vector store."""
    return [
        Backend(
            "vector",
            schemes=("vector",),
            target="memoranda_vector.store:VectorMemoryStore",
            api=1,
            summary="In this process, found by meaning; needs an embedder.",
        )
    ]
