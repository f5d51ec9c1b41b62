"""The entry point: names the commands, which are imported when they are run."""

from __future__ import annotations

from memoranda.plugins import CommandSpec, hookimpl
from memoranda_cli.commands import COMMANDS


@hookimpl
def memoranda_commands() -> list[CommandSpec]:
    """Offer the built-in commands."""
    return list(COMMANDS)
