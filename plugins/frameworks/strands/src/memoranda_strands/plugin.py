"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import IntegrationSpec, hookimpl


@hookimpl
def memoranda_integrations() -> list[IntegrationSpec]:
    """Offer Strands its two interfaces."""
    return [
        IntegrationSpec(
            "strands-sessions",
            target="memoranda_strands.repository:MemorandaSessionRepository",
            api=1,
            summary="Sessions of Strands Agents: messages, agents and groups of agents.",
        ),
        IntegrationSpec(
            "strands-memory",
            target="memoranda_strands.memories:MemorandaMemoryStore",
            api=1,
            summary="Memory of Strands Agents: what agents add, and search in it.",
        ),
    ]
