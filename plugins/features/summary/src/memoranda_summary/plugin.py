"""The entry point: names the commands, which are imported when they are run."""

from __future__ import annotations

from memoranda.plugins import CommandSpec, hookimpl


def _command(name: str, summary: str, *examples: str) -> CommandSpec:
    target = f"memoranda_summary.commands:{name}"
    return CommandSpec(name, target=target, api=1, summary=summary, section="Summaries", examples=examples)


@hookimpl
def memoranda_commands() -> list[CommandSpec]:
    """Offer the commands for summaries."""
    return [
        _command(
            "summarize",
            "Summarize a conversation; nothing is stored.",
            "summarize --user ada --session trip --model gpt-4o-mini",
        ),
        _command(
            "compact",
            "Replace old rounds with a summary; they are kept.",
            "compact --user ada --session trip --dry-run",
            'compact --user ada --session trip --command "ollama run llama3"',
        ),
        _command("expand", "Show the items that a summary stands for.", "expand 4c1f --user ada"),
        _command("undo", "Undo a summary and show its rounds again.", "undo 4c1f --user ada"),
    ]
