"""The encrypted store does what every store must do, around each of the five stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from memoranda.store import InMemoryStore
from memoranda_encrypt import EncryptedStore, KeyRing, LocalMasterKey
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_testing import Reopen, StoreConformance, TrustConformance


@pytest.fixture
def ring() -> KeyRing:
    """A ring of keys that ends with the test."""
    return KeyRing(LocalMasterKey.generate())


class TestEncryptedInMemory(StoreConformance):
    @pytest_asyncio.fixture
    async def store(self, ring: KeyRing) -> AsyncIterator[EncryptedStore]:
        async with EncryptedStore(InMemoryStore(), ring) as store:
            yield store


class TestTrustEncrypted(TrustConformance):
    @pytest_asyncio.fixture
    async def store(self, ring: KeyRing) -> AsyncIterator[EncryptedStore]:
        async with EncryptedStore(InMemoryStore(), ring) as store:
            yield store


class TestEncryptedSQLite(StoreConformance):
    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path, ring: KeyRing) -> AsyncIterator[EncryptedStore]:
        async with EncryptedStore(SQLiteMemoryStore(tmp_path / "store.db"), ring) as store:
            yield store

    @pytest.fixture
    def reopen(self, tmp_path: Path, ring: KeyRing) -> Reopen:
        async def reopen() -> EncryptedStore:
            return EncryptedStore(SQLiteMemoryStore(tmp_path / "store.db"), ring)

        return reopen
