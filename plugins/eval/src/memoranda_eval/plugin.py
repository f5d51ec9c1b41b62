"""The entry point: names the command, which is imported when it is run."""

from __future__ import annotations

from memoranda.plugins import CommandSpec, hookimpl


@hookimpl
def memoranda_commands() -> list[CommandSpec]:
    """Offer the command that evaluates search."""
    return [
        CommandSpec(
            "eval",
            target="memoranda_eval.command:evaluation",
            api=1,
            summary="Measure if search finds the right memories, by questions of your own.",
            section="Upkeep",
            examples=("eval questions.jsonl --store sqlite:///agent.db", "eval --make questions.jsonl --user ada"),
        )
    ]
