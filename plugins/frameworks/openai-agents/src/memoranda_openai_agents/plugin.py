"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import IntegrationSpec, hookimpl


@hookimpl
def memoranda_integrations() -> list[IntegrationSpec]:
    """Offer the session class."""
    return [
        IntegrationSpec(
            "openai-agents",
            target="memoranda_openai_agents.session:MemorandaSession",
            api=1,
            summary="Sessions of the OpenAI Agents SDK.",
        )
    ]
