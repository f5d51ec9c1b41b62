"""The entry point: names the command, which is imported when it is run."""

from __future__ import annotations

from memoranda.plugins import CommandSpec, hookimpl


@hookimpl
def memoranda_commands() -> list[CommandSpec]:
    """Offer the command that shows a window."""
    return [
        CommandSpec(
            "context",
            target="memoranda_context.commands:context",
            api=1,
            summary="Show the window that a model would get, and what is left out.",
            section="Memories",
            examples=(
                "context --user ada --session trip --rounds 10 --explain",
                "context --user ada --tokens 4000 --format openai",
                "context --user ada --session new --question 'Where do I live?' --explain",
            ),
        )
    ]
