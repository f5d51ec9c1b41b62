"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import IntegrationSpec, hookimpl


@hookimpl
def memoranda_integrations() -> list[IntegrationSpec]:
    """Offer the repository of sessions."""
    return [
        IntegrationSpec(
            "strands",
            target="memoranda_strands.repository:MemorandaSessionRepository",
            api=1,
            summary="Sessions and memory of Strands Agents.",
        )
    ]
