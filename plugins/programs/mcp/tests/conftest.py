"""What the tests of the server share."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from mcp import Client, StdioServerParameters

from memoranda.store import InMemoryStore
from memoranda_mcp import Rights, ScopedMemory, make_server


def memory_for(store: Any, user: str, rights: Rights | None = None, **scope: Any) -> ScopedMemory:
    """Return the memory of a user."""
    return ScopedMemory(store.scoped(user_id=user, **scope), store.scoped(user_id=user), rights or Rights())


@pytest_asyncio.fixture
async def store() -> AsyncIterator[InMemoryStore]:
    async with InMemoryStore() as store:
        yield store


async def clients(memory: ScopedMemory) -> AsyncIterator[Client]:
    """Yield one client at a memory, in this process."""
    # A client is closed in the task that opened it, and a fixture is not one task.
    connected: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def hold() -> None:
        async with Client(make_server(memory)) as client:
            connected.set_result(client)
            await over.wait()

    holding = asyncio.create_task(hold())
    yield await connected
    over.set()
    await holding
    await memory.subscriptions.close()


@pytest_asyncio.fixture
async def ada(store: InMemoryStore) -> AsyncIterator[Client]:
    """A client at Ada's memory."""
    async for client in clients(memory_for(store, "ada", Rights(allow_purge=True))):
        yield client


@pytest_asyncio.fixture
async def graph(store: InMemoryStore) -> AsyncIterator[Client]:
    """A client at Ada's knowledge graph."""
    async for client in clients(memory_for(store, "ada", Rights(graph=True))):
        yield client


@pytest.fixture
def started(tmp_path: Path) -> Callable[..., StdioServerParameters]:
    """How the command is started as a process of its own, on a SQLite file."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MEMORANDA", "OPENAI"))}

    def parameters(*options: str, user: str = "ada", store: str | None = None) -> StdioServerParameters:
        url = store or f"sqlite:///{tmp_path / 'memory.db'}"
        return StdioServerParameters(
            command=sys.executable,
            args=["-m", "memoranda", "mcp", "--store", url, "--user", user, *options],
            env=environment | {"XDG_DATA_HOME": str(tmp_path)},
        )

    return parameters
