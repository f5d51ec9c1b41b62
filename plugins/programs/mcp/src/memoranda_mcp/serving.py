"""Opening the store, and serving until the client is gone."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from memoranda.errors import InputError
from memoranda.opening import default_url
from memoranda.opening import open as open_store
from memoranda_commands.stores import facts_option
from memoranda_mcp.memory import ORIGIN, Rights, ScopedMemory
from memoranda_mcp.server import make_server
from memoranda_mcp.settings import Settings

if TYPE_CHECKING:
    from memoranda.store import Access, Store
    from memoranda_summary import Summarizer

_OF_A_CONVERSATION = ("session_id", "task_id")


def make_memory(
    store: Store, settings: Settings, summarizer: Summarizer | None, user: str | None = None
) -> ScopedMemory:
    """Return the memory of a user, or of the scope that the settings name.

    With ``spaces`` it reads what is granted to that user or agent when a tool is called, and writes to none of it. What
    a client writes is trusted as the settings say, whatever speaker it names.
    """
    scope = settings.scope(user)
    lasting = {name: value for name, value in scope.items() if name not in _OF_A_CONVERSATION} or scope
    whose: dict[str, Any] = {"trust": str(settings.trust), "origin": ORIGIN}
    reach: dict[str, Any] = {"spaces": "granted"} if settings.spaces else {}
    handles = store.scoped(**scope, **reach, **whose), store.scoped(**lasting, **whose)
    return ScopedMemory(*handles, rights_of(settings), summarizer)


def rights_of(settings: Settings) -> Rights:
    """Return what the tools may do."""
    return Rights(
        read_only=settings.read_only, allow_purge=settings.allow_purge, graph=settings.graph, facts=settings.facts
    )


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[tuple[Store, Summarizer | None]]:
    """Open the store, and make the model if one is named, for the block."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="memoranda mcp: %(message)s")
    async with AsyncExitStack() as stack:
        summarizer = None
        if settings.model is not None:
            from memoranda_summary.models import openai_model

            summarizer = await stack.enter_async_context(openai_model(settings.model, settings.base_url))
        if settings.receipts and settings.read_only:
            raise InputError("--receipts stores what was shown; leave --read-only out.", field="receipts")
        access: Access = "read" if settings.read_only else "create"
        observers = ["receipts"] if settings.receipts else []
        url = settings.store or default_url(make=access == "create")
        # What is known stands in contexts; a URL that names an extractor also has what is said read.
        facts: dict[str, Any] = facts_option("stored", url)
        store = open_store(url, access=access, observers=observers, **facts)
        yield await stack.enter_async_context(store), summarizer


async def serve(settings: Settings) -> None:
    """Serve one client on standard input and output, until it closes them."""
    from mcp.server.stdio import stdio_server

    async with opened(settings) as (store, summarizer):
        memory = make_memory(store, settings, summarizer)
        server = make_server(memory)
        try:
            async with stdio_server() as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())
        finally:
            await memory.subscriptions.close()
