"""The stores that the adapters are tested on: one of every engine."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import memoranda
import memoranda.sync
from memoranda.store import BaseStore
from memoranda_testing.servers import postgres_server, redis_server

ENGINES = ["memory", "sqlite", "postgres", "redis"]


@pytest.fixture(scope="session")
def servers() -> Iterator[Callable[[str], Any]]:
    """Start a server when it is first asked for, and stop it in the end."""
    with ExitStack() as stack:
        started: dict[str, Any] = {}

        def server(engine: str) -> Any:
            if engine not in started:
                started[engine] = stack.enter_context(postgres_server() if engine == "postgres" else redis_server())
            return started[engine]

        yield server


@pytest.fixture(params=ENGINES)
def url(request: pytest.FixtureRequest, servers: Callable[[str], Any], tmp_path: Path) -> Iterator[str]:
    """The address of an empty store of each engine."""
    engine = str(request.param)
    if engine == "memory":
        yield "memory://"
    elif engine == "sqlite":
        yield f"sqlite:///{tmp_path}/agent.db"
    elif engine == "postgres":
        with servers(engine).database() as address:
            yield address
    else:
        yield f"{servers(engine).url}?namespace={uuid.uuid4().hex}"


@pytest.fixture
async def store(url: str) -> AsyncIterator[BaseStore]:
    """An open store of each engine."""
    async with memoranda.open(url) as opened:
        yield opened


@pytest.fixture
def blocking_store(url: str) -> Iterator[memoranda.sync.SyncStore]:
    """An open store of each engine without async."""
    with memoranda.sync.open(url) as opened:
        yield opened
