"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import IntegrationSpec, hookimpl


@hookimpl
def memoranda_integrations() -> list[IntegrationSpec]:
    """Offer the conversation store."""
    return [
        IntegrationSpec(
            "pydantic-ai",
            target="memoranda_pydantic_ai.conversations:MemorandaConversationStore",
            api=1,
            summary="Conversations of Pydantic AI.",
        )
    ]
