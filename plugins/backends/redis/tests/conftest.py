"""Real servers for the tests of the Redis plugin, and a way to lose answers on the wire."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
from redis.asyncio import Redis, RedisCluster

from memoranda_redis import ShortTermMemoryManager
from servers import closed_port, redis_cluster, redis_server


@pytest.fixture(scope="session")
def standalone_url() -> Iterator[str]:
    with redis_server() as server:
        yield server.url


@pytest.fixture(scope="session")
def cluster_url() -> Iterator[str]:
    with redis_cluster() as cluster:
        yield cluster.url


@pytest.fixture(params=["standalone", pytest.param("cluster", marks=pytest.mark.rare("cluster"))])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of a Redis that other tests use too: first alone, then as a cluster."""
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.fixture
async def raw(url: str) -> AsyncIterator[Any]:
    """The bare driver, to look at what was written."""
    client: Any
    if url.startswith("redis+cluster"):
        client = RedisCluster.from_url(url.replace("+cluster", ""), decode_responses=True)
    else:
        client = Redis.from_url(url, decode_responses=True)
    yield client
    await client.aclose()


@pytest.fixture
def absent() -> Iterator[int]:
    """A port of this machine on which nobody listens."""
    with closed_port() as port:
        yield port


@pytest.fixture
def agent() -> str:
    """An agent id that no other test has."""
    return f"agent-{uuid.uuid4().hex}"


@pytest.fixture
async def memory(url: str, agent: str) -> AsyncIterator[ShortTermMemoryManager]:
    """The short-term memory of the test's own agent."""
    manager = ShortTermMemoryManager(url, agent, timeout=240)  # Thousands of calls at once take long on a busy machine.
    yield manager
    await manager.disconnect()


@pytest.fixture
def prefix(url: str, agent: str) -> str:
    """What the keys of the test's own agent start with; in a cluster the agent is a hash tag."""
    return f"agent:{{{agent}}}:episodic:" if url.startswith("redis+cluster") else f"agent:{agent}:episodic:"


@dataclass
class Wire:
    """A proxy in front of a Redis that can lose its answers."""

    url: str = ""
    lose_answers: int = 0
    requests: int = 0


@pytest.fixture
async def wire(standalone_url: str) -> AsyncIterator[Wire]:
    """A Redis whose answers get lost, connection and all, for as long as ``lose_answers`` is above 0."""
    target = urlsplit(standalone_url)
    wire = Wire()
    tasks: set[asyncio.Task[Any]] = set()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            wire.requests += 1
            writer.write(data)
            await writer.drain()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if wire.lose_answers > 0:
                wire.lose_answers -= 1
                return
            writer.write(data)
            await writer.drain()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        inner_reader, inner_writer = await asyncio.open_connection(target.hostname, target.port)
        directions = [
            asyncio.create_task(forward(reader, inner_writer)),
            asyncio.create_task(answer(inner_reader, writer)),
        ]
        await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        for direction in directions:
            direction.cancel()
        await asyncio.gather(*directions, return_exceptions=True)
        for end in (inner_writer, writer):
            end.close()
            with contextlib.suppress(OSError):
                await end.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    wire.url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}{target.path}"
    yield wire
    server.close()
    if tasks:
        await asyncio.wait(tasks, timeout=5)
