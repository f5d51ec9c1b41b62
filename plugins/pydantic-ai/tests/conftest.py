"""The four engines behind conversations, each with a store that no other test has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import memoranda
from memoranda.store import BaseStore
from memoranda_testing.servers import ENGINES, LASTING_ENGINES, Engines


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    with Engines() as started:
        yield started


@pytest.fixture(params=LASTING_ENGINES)
def lasting_url(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store that other processes can open, too."""
    with engines.empty_store(request.param, tmp_path) as url:
        yield url


@pytest.fixture(params=ENGINES)
def url(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store."""
    with engines.empty_store(request.param, tmp_path) as url:
        yield url


@pytest.fixture
async def store(url: str) -> AsyncIterator[BaseStore]:
    async with memoranda.open(url) as opened:
        yield opened
