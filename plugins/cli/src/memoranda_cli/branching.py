"""``memoranda fork``: a new session that goes on from somewhere in another."""

from __future__ import annotations

from typing import Annotated

import typer

from memoranda_cli import options
from memoranda_cli.terminal import show_json


def fork(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session to go on from.")],
    at: Annotated[str, typer.Option("--at", metavar="ID", help="The last item that both share.")],
    user: Annotated[str | None, typer.Option("--user", "-u", metavar="ID", help="This user's session only.")] = None,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Fork a session at one of its items, and print the id of the new one.

    The new session shows what the other said up to there, and then goes its own way; nothing is copied.
    'memoranda history --ids' shows the ids of items.
    """
    from memoranda_cli.stores import opened, run

    async def work() -> str:
        async with opened(store, store_options, "change") as target:
            source = target if user is None else target.scoped(user_id=user)
            return await source.fork(session, at=at)

    branch = run(work())
    if as_json:
        show_json({"session": branch, "parent": session, "at": at})
    else:
        typer.echo(branch)
