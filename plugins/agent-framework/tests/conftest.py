"""The engines behind the adapter, each with a store that no other test has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import memoranda
from memoranda.store import BaseStore
from servers import Engines

SERVERS = [pytest.param(name, marks=pytest.mark.rare(name)) for name in ("postgres",)]
"""What an adapter does hardly depends on the engine: with a server, one test in some is enough for every day."""


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    with Engines() as started:
        yield started


@pytest.fixture(params=["sqlite", *SERVERS])
def lasting_url(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store that other processes can open, too."""
    with engines.empty_store(request.param, tmp_path) as url:
        yield url


@pytest.fixture(params=["memory", "sqlite", *SERVERS])
def url(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store."""
    with engines.empty_store(request.param, tmp_path) as url:
        yield url


@pytest.fixture
async def memory_store() -> AsyncIterator[BaseStore]:
    """A store in memory, for what does not depend on the engine."""
    async with memoranda.open("memory://") as opened:
        yield opened


@pytest.fixture
async def store(url: str) -> AsyncIterator[BaseStore]:
    async with memoranda.open(url) as opened:
        yield opened
