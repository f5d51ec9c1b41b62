"""Planted memories are held on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

import memoranda
from memoranda.store import InMemoryStore, Store
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_encrypt import KeyRing, LocalMasterKey, with_encryption
from memoranda_vector import VectorMemoryStore
from servers import ENGINES, Engines
from trust_kit import TrustConformance


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    with Engines() as started:
        yield started


class TestTrustOnEngines(TrustConformance):
    @pytest_asyncio.fixture(params=ENGINES)
    async def store(self, request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> AsyncIterator[Store]:
        with engines.empty_store(request.param, tmp_path) as url:
            async with memoranda.open(url) as store:
                yield store


@pytest.mark.rare("on vector", one_in=8)
class TestTrustOnVectors(TrustConformance):
    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[Store]:
        async with VectorMemoryStore(HashingEmbeddings(64)) as store:
            yield store


@pytest.mark.rare("encrypted trust")
class TestTrustEncrypted(TrustConformance):
    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[Store]:
        async with with_encryption(InMemoryStore(), KeyRing(LocalMasterKey.generate())) as store:
            yield store
