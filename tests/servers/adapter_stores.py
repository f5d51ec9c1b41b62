"""Fixtures for the suites of adapters to frameworks: stores of every engine, each of which no other test has.

A suite's ``conftest.py`` imports what it uses, and makes its URLs by :func:`urls_on`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import memoranda
import memoranda.sync
from memoranda.store import Store
from servers.engines import Engines


def urls_on(*servers: str) -> tuple[Any, Any]:
    """Return two fixtures: the URL of an empty store that other processes can open, too, and that of any empty store.

    What an adapter does hardly depends on the engine: with a server, one test in some is enough for every day.
    """
    rare = [pytest.param(name, marks=pytest.mark.rare(name)) for name in servers]

    @pytest.fixture(params=["sqlite", *rare])
    def lasting_url(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[str]:
        with engines.empty_store(request.param, tmp_path) as made:
            yield made

    @pytest.fixture(params=["memory", "sqlite", *rare])
    def url(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[str]:
        with engines.empty_store(request.param, tmp_path) as made:
            yield made

    return lasting_url, url


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    """The servers, started when a test first needs them."""
    with Engines() as started:
        yield started


@pytest.fixture
async def memory_store() -> AsyncIterator[Store]:
    """A store in memory, for what does not depend on the engine."""
    async with memoranda.open("memory://") as opened:
        yield opened


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    """An open store of each engine."""
    async with memoranda.open(url) as opened:
        yield opened


@pytest.fixture
def blocking_store(url: str) -> Iterator[memoranda.sync.SyncStore]:
    """An open store of each engine without async."""
    with memoranda.sync.open(url) as opened:
        yield opened
