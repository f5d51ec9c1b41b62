"""The encrypted store does what every store must do, around each of the five stores.

The store in memory runs it every day, without the longest cases. All of it runs on each of them with `--everything`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import pytest_asyncio

import memoranda
from facts_kit import FactsConformance
from memoranda.store import InMemoryStore, Store
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_encrypt import KeyRing, LocalMasterKey, with_encryption
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_testing import Reopen, StoreConformance
from memoranda_vector import VectorMemoryStore
from servers import Engines


@pytest.fixture
def ring() -> KeyRing:
    """A ring that ends with the test."""
    return KeyRing(LocalMasterKey.generate())


class TestEncryptedInMemory(StoreConformance):
    @pytest_asyncio.fixture
    async def store(self, ring: KeyRing) -> AsyncIterator[Store]:
        async with with_encryption(InMemoryStore(), ring) as store:
            yield store


@pytest.mark.rare("encrypted facts")
class TestEncryptedFacts(FactsConformance):
    @pytest_asyncio.fixture
    async def store(self, ring: KeyRing) -> AsyncIterator[Any]:
        async with memoranda.open("memory://", encrypt=ring) as store:
            yield store


class OnSQLite(StoreConformance):
    options: ClassVar[dict[str, Any]] = {}

    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path, ring: KeyRing) -> AsyncIterator[Store]:
        async with with_encryption(SQLiteMemoryStore(tmp_path / "store.db", **self.options), ring) as store:
            yield store

    @pytest.fixture
    def reopen(self, tmp_path: Path, ring: KeyRing) -> Reopen:
        async def reopen() -> Store:
            return with_encryption(SQLiteMemoryStore(tmp_path / "store.db", **self.options), ring)

        return reopen


@pytest.mark.rare("encrypted SQLite")
class TestEncryptedSQLite(OnSQLite):
    """As most people use it."""


@pytest.mark.rare("encrypted SQLite with vectors")
class TestEncryptedSQLiteWithVectors(OnSQLite):
    options: ClassVar[dict[str, Any]] = {"embeddings": HashingEmbeddings(64)}


@pytest.mark.rare("hidden owners")
class TestHiddenOwners(OnSQLite):
    """With keyed hashes instead of names, and a blind index."""

    @pytest.fixture
    def ring(self) -> KeyRing:
        return KeyRing(LocalMasterKey.generate(), hide_owners=True, indexed=["kind", "topic"])


@pytest.mark.rare("encrypted vectors")
class TestEncryptedVectorStore(StoreConformance):
    @pytest_asyncio.fixture
    async def store(self, ring: KeyRing) -> AsyncIterator[Store]:
        async with with_encryption(VectorMemoryStore(HashingEmbeddings(64)), ring) as store:
            yield store


class OnServer(StoreConformance):
    engine: ClassVar[str]

    @pytest.fixture
    def url(self, engines: Engines, tmp_path: Path) -> Any:
        with engines.empty_store(self.engine, tmp_path) as url:
            yield url

    @pytest_asyncio.fixture
    async def store(self, url: str, ring: KeyRing) -> AsyncIterator[Any]:
        async with memoranda.open(url, encrypt=ring) as store:
            yield store

    @pytest.fixture
    def reopen(self, url: str, ring: KeyRing) -> Reopen:
        async def reopen() -> Any:
            return memoranda.open(url, encrypt=ring)

        return reopen


@pytest.mark.rare("encrypted PostgreSQL")
class TestEncryptedPostgres(OnServer):
    engine = "postgres"


@pytest.mark.rare("encrypted Redis")
class TestEncryptedRedis(OnServer):
    engine = "redis"
