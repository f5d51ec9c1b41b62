"""Compaction does what it promises on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

import memoranda
from compaction_cases import CompactionConformance
from memoranda.store import Store
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_testing import Reopen
from memoranda_vector import VectorMemoryStore
from servers import ENGINES, Engines


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    with Engines() as started:
        yield started


class TestCompactionOnEngines(CompactionConformance):
    @pytest.fixture(params=ENGINES)
    def url(self, request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[str]:
        with engines.empty_store(request.param, tmp_path) as url:
            yield url

    @pytest_asyncio.fixture
    async def store(self, url: str) -> AsyncIterator[Store]:
        async with memoranda.open(url) as store:
            yield store

    @pytest.fixture
    def reopen(self, url: str) -> Reopen:
        async def reopen() -> Store:
            return memoranda.open(url)

        return reopen


@pytest.mark.rare("on vector", one_in=8)
class TestCompactionOnVectors(CompactionConformance):
    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[Store]:
        async with VectorMemoryStore(HashingEmbeddings(64)) as store:
            yield store

    @pytest.fixture
    def reopen(self) -> None:
        return None
