"""Real servers: the wheel's, which has pgvector and pg_trgm, and the rarer kinds, one without them and the system's."""

from __future__ import annotations

import contextlib
import itertools
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from servers import fresh_database, postgres_server, system_postgres_server

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def wheel() -> Iterator[Any]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def system() -> Iterator[Any]:
    server = system_postgres_server()
    if server is None:
        pytest.skip("The system has no PostgreSQL of its own, and no way to one.")
    with server:
        yield server


class WithoutExtensions:
    """A server whose databases see no extension: neither pgvector nor pg_trgm can be had in them."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def database(self) -> contextlib.AbstractContextManager[str]:
        """Create a database that looks for extensions where none are."""
        # Not "/nonexistent", which some machines have, and which the server's user may not look into.
        return fresh_database(self._server.url, settings={"extension_control_path": f"/{uuid.uuid4().hex}"})


@pytest.fixture(scope="session")
def extensionless(wheel: Any) -> WithoutExtensions:
    return WithoutExtensions(wheel)


@pytest.fixture(
    scope="session",
    params=[
        "wheel",
        pytest.param("system", marks=pytest.mark.rare("system")),
        pytest.param("extensionless", marks=pytest.mark.rare("extensionless")),
    ],
)
def server(request: pytest.FixtureRequest) -> Any:
    """Each kind of server in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def url(wheel: Any) -> Iterator[str]:
    """An empty database on the wheel's server, for tests where the kind of server does not matter."""
    with wheel.database() as url:
        yield url


@pytest.fixture
def each_url(server: Any) -> Iterator[str]:
    """An empty database on each kind of server."""
    with server.database() as url:
        yield url


@pytest.fixture(scope="session")
def shared_url(server: Any) -> Iterator[str]:
    """A database on each kind of server that tests share; each takes a schema of its own in it."""
    with server.database() as url:
        yield url


@pytest.fixture(scope="session")
def wheel_url(wheel: Any) -> Iterator[str]:
    """A database on the wheel's server that tests share; each takes a schema of its own in it."""
    with wheel.database() as url:
        yield url


@pytest_asyncio.fixture
async def schema(shared_url: str) -> AsyncIterator[str]:
    """The name of a schema that does not exist yet; it is dropped in the end."""
    async with _schema_in(shared_url) as name:
        yield name


@pytest_asyncio.fixture
async def wheel_schema(wheel_url: str) -> AsyncIterator[str]:
    """The same on the wheel's server."""
    async with _schema_in(wheel_url) as name:
        yield name


@contextlib.asynccontextmanager
async def _schema_in(url: str) -> AsyncIterator[str]:
    name = f'Test\'s "{next(_numbers)}"'
    yield name
    connection = await asyncpg.connect(url)
    try:
        quoted = '"' + name.replace('"', '""') + '"'
        await connection.execute(f"DROP SCHEMA IF EXISTS {quoted} CASCADE")
    finally:
        await connection.close()


@pytest.fixture
def private_server() -> Iterator[Any]:
    """A server that a test may stop, pause or kill."""
    with postgres_server(private=True) as server:
        yield server
