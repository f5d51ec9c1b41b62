"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import IntegrationSpec, hookimpl


@hookimpl
def memoranda_integrations() -> list[IntegrationSpec]:
    """Offer the session service."""
    return [
        IntegrationSpec(
            "adk",
            target="memoranda_adk.sessions:MemorandaSessionService",
            api=1,
            summary="Sessions and memory of Google's Agent Development Kit.",
        )
    ]
