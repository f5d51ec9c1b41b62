"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import IntegrationSpec, hookimpl


@hookimpl
def memoranda_integrations() -> list[IntegrationSpec]:
    """Offer the two providers."""
    return [
        IntegrationSpec(
            "agent-framework-history",
            target="memoranda_agent_framework.history:MemorandaHistoryProvider",
            api=1,
            summary="The history of sessions of the Agent Framework.",
        ),
        IntegrationSpec(
            "agent-framework-recall",
            target="memoranda_agent_framework.history:MemorandaContextProvider",
            api=1,
            summary="Memories of other sessions for agents of the Agent Framework.",
        ),
    ]
