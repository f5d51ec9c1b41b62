"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import EmbeddingsSpec, SummarizerSpec, hookimpl


@hookimpl
def memoranda_embeddings() -> list[EmbeddingsSpec]:
    """Offer the embedder."""
    return [
        EmbeddingsSpec(
            "openai",
            target="memoranda_openai.embeddings:OpenAIEmbeddings",
            api=1,
            summary="OpenAI's embeddings API, or any server that speaks it; the key comes from OPENAI_API_KEY.",
        )
    ]


@hookimpl
def memoranda_summarizers() -> list[SummarizerSpec]:
    """Offer the summarizer."""
    return [
        SummarizerSpec(
            "openai",
            target="memoranda_openai.service:OpenAISummarizer",
            api=1,
            summary="OpenAI's chat API, or any server that speaks it; the key comes from OPENAI_API_KEY.",
        )
    ]
