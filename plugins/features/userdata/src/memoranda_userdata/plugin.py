"""The entry point: names the commands, which are imported when they are run."""

from __future__ import annotations

from memoranda.plugins import CommandSpec, hookimpl


@hookimpl
def memoranda_commands() -> list[CommandSpec]:
    """Offer the commands that move and erase users' data."""
    return [
        CommandSpec(
            "revoke",
            target="memoranda_userdata.commands.erasing:revoke_",
            api=1,
            summary="Take back what an origin wrote, and what was made from it.",
            section="Removing",
            examples=("revoke --origin evil.example --receipt taken.json", "revoke --undo taken.json"),
        ),
        CommandSpec(
            "forget",
            target="memoranda_userdata.commands.erasing:forget",
            api=1,
            summary="Erase all traces of a user and print a receipt.",
            section="Removing",
            examples=("forget ada --receipt ada.json", "forget ada --dry-run"),
        ),
        CommandSpec(
            "export",
            target="memoranda_userdata.commands.transfers:export",
            api=1,
            summary="Write memories to a JSON Lines file.",
            section="Moving",
            examples=("export all.jsonl", "export --user ada | gzip > ada.jsonl.gz"),
        ),
        CommandSpec(
            "import",
            target="memoranda_userdata.commands.transfers:import_",
            api=1,
            summary="Read memories from an export, or conversations from a chat file.",
            section="Moving",
            examples=("import all.jsonl --dry-run", "import chat.jsonl --user ada --session trip"),
        ),
        CommandSpec(
            "copy",
            target="memoranda_userdata.commands.copying:copy",
            api=1,
            summary="Copy one store into another and compare every item.",
            section="Moving",
            examples=(
                "copy sqlite:///agent.db postgresql://me@host/agents",
                "copy sqlite:///agent.db sqlite:///backup.db --deleted --dry-run",
            ),
        ),
    ]
