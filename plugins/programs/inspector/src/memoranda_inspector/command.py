"""``memoranda inspect``: a server on this machine, and a browser that looks at it."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import webbrowser
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
import uvicorn

from memoranda.opening import default_url
from memoranda.opening import open as open_store
from memoranda.store import Access, Store
from memoranda.urls import redacted
from memoranda_commands.stores import facts_option
from memoranda_inspector.app import Inspector, create_app
from memoranda_inspector.demo import DemoModel, fill
from memoranda_inspector.security import ENTRANCE
from memoranda_summary.models import MODEL_VARIABLE, openai_model


def inspect(
    store: Annotated[
        str | None, typer.Option("--store", "-s", metavar="URL", help="The store: sqlite:///agent.db, postgresql://…")
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="A conversation to look at, without any store.")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only look; nothing can be changed.")] = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the address, open no browser.")] = False,
    soul: Annotated[
        Path | None, typer.Option("--soul", metavar="FILE", help="The text that says who the agent is, for contexts.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="The model that compacting asks; else only a dry run.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option("--base-url", metavar="URL", help="An OpenAI-compatible service for the model.")
    ] = None,
) -> None:
    """See in a browser what is remembered, what a model would get, and why not the rest.

    The page is served only on this machine. The address that is printed opens it once; Ctrl-C ends it.
    """
    listening = socket.create_server(("127.0.0.1", port))
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    token = secrets.token_urlsafe(32)
    asked = model or os.environ.get(MODEL_VARIABLE)

    async def work() -> None:
        async with AsyncExitStack() as opened:
            if demo:
                sample = await opened.enter_async_context(_open("memory://", "rules"))
                await fill(sample)
                inspector = Inspector(sample, "the demo", read_only, DemoModel(), ("notes",), soul)
            else:
                url = store if store is not None else default_url(make=False)
                access: Access = "read" if read_only else "change"
                found = await opened.enter_async_context(_open(url, "stored", access))
                summarizer = await opened.enter_async_context(openai_model(asked, base_url)) if asked else None
                inspector = Inspector(found, redacted(url), read_only, summarizer, soul=soul)
            _announce(address, token, no_open)
            await serve(inspector, listening, token)

    with listening:
        try:
            asyncio.run(work())
        except KeyboardInterrupt:
            typer.echo("\nThe inspector is closed.", err=True)


def _open(url: str, facts: str, access: Access = "create") -> Store:
    """Return a store whose prompts say what is known; looking at them extracts nothing if these are "stored" facts."""
    known: dict[str, Any] = facts_option(facts, url)
    return open_store(url, access=access, **known)


def _announce(address: str, token: str, no_open: bool) -> None:
    entrance = f"{address}{ENTRANCE}?token={token}"
    typer.echo(f"The inspector is at {entrance}")
    typer.echo("The address works once. Ctrl-C ends it.", err=True)
    if not no_open:
        webbrowser.open(entrance)


async def serve(inspector: Inspector, listening: socket.socket, token: str) -> None:
    """Serve until Ctrl-C, or until the task is cancelled.

    Requests are not logged: an address may hold an id, and an error what was stored.
    """
    config = uvicorn.Config(
        create_app(inspector, port=listening.getsockname()[1], token=token),
        log_level="error",
        access_log=False,
        lifespan="off",
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=1,
        # A browser sends the cookies of every program that this machine serves, and there may be many.
        h11_max_incomplete_event_size=1_000_000,
    )
    await uvicorn.Server(config).serve(sockets=[listening])
