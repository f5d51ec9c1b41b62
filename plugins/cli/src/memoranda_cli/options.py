"""Options that several commands share, so that each is spelled and explained the same everywhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from memoranda.errors import InputError

OWNER = "Whose"
OUTPUT = "Output"

Store = Annotated[
    str | None,
    typer.Option("--store", "-s", metavar="URL", help="The store: sqlite:///agent.db, postgresql://…, redis://…"),
]
StoreOptions = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="KEY=VALUE", help="An option of the store's own; may be repeated."),
]
User = Annotated[
    str | None, typer.Option("--user", "-u", metavar="ID", help="This user's only.", rich_help_panel=OWNER)
]
Session = Annotated[
    str | None, typer.Option("--session", metavar="ID", help="This session's only.", rich_help_panel=OWNER)
]
Task = Annotated[str | None, typer.Option("--task", metavar="ID", help="This task's only.", rich_help_panel=OWNER)]
Agent = Annotated[str | None, typer.Option("--agent", metavar="ID", help="This agent's only.", rich_help_panel=OWNER)]
Extra = Annotated[
    list[str] | None,
    typer.Option(
        "--extra",
        metavar="KEY=JSON",
        help="With this in metadata.extra; the value is JSON, or else text. May be repeated.",
        rich_help_panel=OWNER,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.", rich_help_panel=OUTPUT)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]


def pairs(given: Sequence[str] | None, option: str) -> dict[str, Any]:
    """Return ``KEY=VALUE`` texts as a dict. A value is read as JSON where it is some, else it is the text itself."""
    found: dict[str, Any] = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            # What it is instead may be a password.
            raise InputError(f"{option} takes KEY=VALUE, and one of them is none.", field=option)
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


def metadata_of(
    user: str | None, session: str | None, task: str | None, agent: str | None, extra: Sequence[str] | None = None
) -> Any:
    """Return the MemoryMetadata that the options name, or None when they name nothing."""
    from memoranda.items import MemoryMetadata
    from memoranda.store import names_nothing

    metadata = MemoryMetadata(
        user_id=user, session_id=session, task_id=task, agent_id=agent, extra=pairs(extra, "--extra")
    )
    return None if names_nothing(metadata) else metadata
