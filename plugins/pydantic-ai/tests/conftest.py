"""The four engines behind conversations, each with a store that no other test has."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import memoranda
from memoranda.store import BaseStore
from memoranda_testing.servers import PostgresServer, RedisServer, postgres_server, redis_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def lasting_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store that other processes can open, too."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'conversations.db'}"
    elif request.param == "redis":
        yield f"{request.getfixturevalue('redis').url}?namespace={uuid.uuid4().hex}"
    else:
        with request.getfixturevalue("postgres").database() as url:
            yield url


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store."""
    if request.param == "memory":
        yield "memory://"
    elif request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'conversations.db'}"
    elif request.param == "redis":
        yield f"{request.getfixturevalue('redis').url}?namespace={uuid.uuid4().hex}"
    else:
        with request.getfixturevalue("postgres").database() as database:
            yield database


@pytest.fixture
async def store(url: str) -> AsyncIterator[BaseStore]:
    async with memoranda.open(url) as opened:
        yield opened
