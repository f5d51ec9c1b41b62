"""``memoranda mcp``: serve the memories of one person, or of all who have a token, to an assistant."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from memoranda.errors import InputError

if TYPE_CHECKING:
    from memoranda_mcp.serving import Settings

app = typer.Typer(add_completion=False, rich_markup_mode="markdown", invoke_without_command=True)

SCOPE = "Whose"
RIGHTS = "What it may do"
MODEL = "The model for summaries"

Store = Annotated[
    str | None,
    typer.Option("--store", "-s", metavar="URL", help="The store: sqlite:///agent.db, postgresql://…, redis://…"),
]
User = Annotated[
    str | None, typer.Option("--user", "-u", metavar="ID", help="Whose memories these are.", rich_help_panel=SCOPE)
]


@app.callback()
def mcp(
    context: typer.Context,
    store: Store = None,
    user: User = None,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="Only this conversation of theirs.", rich_help_panel=SCOPE),
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", metavar="ID", help="Only this task of theirs.", rich_help_panel=SCOPE)
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="ID", help="Only this agent of theirs.", rich_help_panel=SCOPE)
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", metavar="PLACE", help="In this place or below: home/ada.", rich_help_panel=SCOPE),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only tools that read; nothing is written.", rich_help_panel=RIGHTS)
    ] = False,
    allow_purge: Annotated[
        bool, typer.Option("--allow-purge", help="Let it remove memories for good.", rich_help_panel=RIGHTS)
    ] = False,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="Let this model write summaries.", rich_help_panel=MODEL),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option("--base-url", metavar="URL", help="Where it is, unless at OpenAI.", rich_help_panel=MODEL),
    ] = None,
) -> None:
    """Serve memories to an assistant over the Model Context Protocol, on standard input and output.

    Whose memories they are is said here and nowhere else: whatever an assistant is told, it reaches no one else's.
    """
    from memoranda_mcp.serving import Settings, serve

    settings = Settings(
        store=store,
        user=user,
        session=session,
        task=task,
        agent=agent,
        namespace=namespace,
        read_only=read_only,
        allow_purge=allow_purge,
        model=model,
        base_url=base_url,
    )
    context.obj = settings
    if context.invoked_subcommand is None:
        _check_owner(settings)
        asyncio.run(serve(settings))


def _check_owner(settings: Settings) -> None:
    if not settings.scope():
        raise InputError(
            "A server without an owner would show everybody's memories to whoever asks. Say whose they are: --user ID.",
            field="user",
        )
