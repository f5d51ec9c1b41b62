"""``memoranda mcp``: serve the memories of one user, or of all who have a token, to an assistant."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memoranda.errors import InputError
from memoranda_commands import options
from memoranda_commands.options import argument, option
from memoranda_mcp.settings import Settings

if TYPE_CHECKING:
    from memoranda_mcp.http import Tokens

app = typer.Typer(add_completion=False, rich_markup_mode="markdown", invoke_without_command=True)

HTTP = "Over HTTP"
TOKEN_VARIABLE = "MEMORANDA_MCP_TOKEN"


@app.callback()
@options.grouped("settings", Settings)
def mcp(
    context: typer.Context,
    settings: Settings,
    http: Annotated[bool, option("--http", "Serve over HTTP instead; see --tokens.", HTTP)] = False,
    host: Annotated[str, option("--host HOST", "127.0.0.1, ::1 or localhost.", HTTP)] = "127.0.0.1",
    port: Annotated[int, option("--port", "The port; 0 is any free one.", HTTP, min=0, max=65535)] = 8765,
    tokens: Annotated[
        Path | None,
        option(
            "--tokens FILE",
            f"A JSON object from users to tokens; else {TOKEN_VARIABLE} holds the token of --user.",
            HTTP,
        ),
    ] = None,
) -> None:
    """Serve memories to an assistant over the Model Context Protocol, on standard input and output.

    Only these options say whose memories are served: nothing that an assistant is told gives it access to others.
    """
    context.obj = settings
    if context.invoked_subcommand is not None:
        return
    if http:
        from memoranda_mcp.http import serve_http

        asyncio.run(serve_http(settings, host, port, _tokens(settings, tokens)))
    else:
        from memoranda_mcp.server import serve

        _check_owner(settings)
        asyncio.run(serve(settings))


@app.command("import")
def import_graph(
    context: typer.Context,
    file: Annotated[Path, argument("FILE", "The memory.jsonl of server-memory.")],
) -> None:
    """Import the knowledge graph of the server-memory server: `memoranda mcp --user ada import memory.jsonl`.

    Nothing is added twice, so it can be run again.
    """
    from memoranda_mcp.graph import Graph
    from memoranda_mcp.server import make_memory, opened
    from memoranda_mcp.tools.graphing import parsed, take_over

    settings: Settings = context.obj
    _check_owner(settings)
    found = parsed(file)  # A file that is refused leaves no new store behind.

    async def work() -> str:
        async with opened(settings) as (store, summarizer):
            return str(await take_over(Graph(make_memory(store, settings, summarizer).graph_store), *found))

    typer.echo(asyncio.run(work()))


def _tokens(settings: Settings, path: Path | None) -> Tokens:
    from memoranda_mcp.http import TokenFile, Tokens

    if path is not None:
        if settings.user is not None:
            raise InputError("--tokens names the users; leave --user out.", field="user")
        return TokenFile(path)
    token = os.environ.get(TOKEN_VARIABLE)
    if settings.user is None or not token:
        raise InputError(
            f"A server on HTTP has to know its users: --tokens FILE, or --user ID and a token in {TOKEN_VARIABLE}.",
            field="tokens",
        )
    return Tokens({settings.user: token})


def _check_owner(settings: Settings) -> None:
    if not settings.scope():
        raise InputError(
            "A server without an owner would show all users' memories to any client. Name the owner: --user ID.",
            field="user",
        )
