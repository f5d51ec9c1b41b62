"""The entry point: names the command, which is imported when it is run."""

from __future__ import annotations

from memoranda.plugins import CommandSpec, hookimpl


@hookimpl
def memoranda_commands() -> list[CommandSpec]:
    """Offer the command that opens the inspector."""
    return [
        CommandSpec(
            "inspect",
            target="memoranda_inspector.command:inspect",
            api=1,
            summary="See in a browser what is remembered, what a model would get, and why not the rest.",
            section="Start here",
        )
    ]
