"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import IntegrationSpec, hookimpl


@hookimpl
def memoranda_integrations() -> list[IntegrationSpec]:
    """Offer ADK its two services."""
    return [
        IntegrationSpec(
            "adk-sessions",
            target="memoranda_adk.sessions:MemorandaSessionService",
            api=1,
            summary="Sessions of Google's Agent Development Kit: events and state.",
        ),
        IntegrationSpec(
            "adk-memory",
            target="memoranda_adk.memories:MemorandaMemoryService",
            api=1,
            summary="Memory of Google's Agent Development Kit: search in earlier sessions.",
        ),
    ]
