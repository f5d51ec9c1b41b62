"""Opening the store, and serving until the client is gone."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memoranda.errors import InputError
from memoranda.opening import default_url
from memoranda.opening import open as open_store
from memoranda.store import namespace_of
from memoranda_mcp.memory import ORIGIN, Rights, ScopedMemory
from memoranda_mcp.server import make_server

if TYPE_CHECKING:
    from memoranda.store import Access, Store
    from memoranda_summary import Summarizer

_OF_A_CONVERSATION = ("session_id", "task_id")


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of a server."""

    store: str | None = None
    user: str | None = None
    session: str | None = None
    task: str | None = None
    agent: str | None = None
    namespace: str | None = None
    spaces: bool = False
    read_only: bool = False
    allow_purge: bool = False
    graph: bool = False
    facts: bool = False
    receipts: bool = False
    trust: str = "agent"
    model: str | None = None
    base_url: str | None = None

    @property
    def rights(self) -> Rights:
        """What the tools may do."""
        return Rights(read_only=self.read_only, allow_purge=self.allow_purge, graph=self.graph, facts=self.facts)

    def scope(self, user: str | None = None) -> dict[str, Any]:
        """Return the scope that the options name, as ``scoped()`` takes it; that of ``user`` if one is given."""
        place = namespace_of(f"{self.namespace.strip('/')}/") if self.namespace and self.namespace.strip("/") else None
        named = {
            "user_id": user if user is not None else self.user,
            "session_id": self.session,
            "task_id": self.task,
            "agent_id": self.agent,
            "namespace": place,
        }
        return {name: value for name, value in named.items() if value is not None}


def make_memory(
    store: Store, settings: Settings, summarizer: Summarizer | None, user: str | None = None
) -> ScopedMemory:
    """Return the memory of a user, or of the scope that the settings name.

    With ``spaces`` it reads what is granted to that user or agent when a tool is called, and writes to none of it. What
    a client writes is trusted as the settings say, whatever speaker it names.
    """
    scope = settings.scope(user)
    lasting = {name: value for name, value in scope.items() if name not in _OF_A_CONVERSATION} or scope
    whose: dict[str, Any] = {"trust": settings.trust, "origin": ORIGIN}
    reach: dict[str, Any] = {"spaces": "granted"} if settings.spaces else {}
    return ScopedMemory(
        store.scoped(**scope, **reach, **whose), store.scoped(**lasting, **whose), settings.rights, summarizer
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
        facts: dict[str, Any] = {} if "facts=" in url.partition("?")[2] else {"facts": "stored"}
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
