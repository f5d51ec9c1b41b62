"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import CommandSpec, IntegrationSpec, hookimpl


@hookimpl
def memoranda_commands() -> list[CommandSpec]:
    """Offer the command that serves a store."""
    return [
        CommandSpec(
            "mcp",
            target="memoranda_mcp.command:app",
            api=1,
            summary="Serve memories to an assistant over the Model Context Protocol.",
        )
    ]


@hookimpl
def memoranda_integrations() -> list[IntegrationSpec]:
    """Say that the server is here."""
    return [
        IntegrationSpec(
            "mcp",
            target="memoranda_mcp.server:make_server",
            api=1,
            summary="A server of the Model Context Protocol, for Claude, Cursor and other assistants.",
        )
    ]
