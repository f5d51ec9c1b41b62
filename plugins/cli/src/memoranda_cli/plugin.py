"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import CommandSpec, hookimpl
from memoranda_cli.commands import COMMANDS


@hookimpl
def memoranda_commands() -> list[CommandSpec]:
    """Offer the commands that everybody has who has the command at all."""
    return list(COMMANDS)
