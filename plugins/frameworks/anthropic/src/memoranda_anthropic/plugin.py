"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import IntegrationSpec, hookimpl


@hookimpl
def memoranda_integrations() -> list[IntegrationSpec]:
    """Say that the memory tool is here."""
    return [
        IntegrationSpec(
            "anthropic",
            target="memoranda_anthropic.tool:MemoryTool",
            api=1,
            summary="Anthropic's memory tool: Claude keeps its files in a store, and every change can be undone.",
        )
    ]
