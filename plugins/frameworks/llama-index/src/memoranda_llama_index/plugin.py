"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import IntegrationSpec, hookimpl


@hookimpl
def memoranda_integrations() -> list[IntegrationSpec]:
    """Offer the chat store and the memory block."""
    return [
        IntegrationSpec(
            "llama-index-chat-store",
            target="memoranda_llama_index.memory:MemorandaChatStore",
            api=1,
            summary="The chat store of LlamaIndex's Memory.",
        ),
        IntegrationSpec(
            "llama-index-memory-block",
            target="memoranda_llama_index.memory:MemorandaMemoryBlock",
            api=1,
            summary="A memory block of LlamaIndex that recalls.",
        ),
    ]
