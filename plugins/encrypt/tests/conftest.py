"""Keys for tests, and the stores that encryption is put around."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from memoranda_encrypt import EncryptedStore, KeyRing, LocalMasterKey
from memoranda_sqlite import SQLiteMemoryStore
from servers import Engines


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    with Engines() as started:
        yield started


@pytest.fixture
def master() -> LocalMasterKey:
    """A new master key."""
    return LocalMasterKey.generate()


@pytest.fixture
def ring(tmp_path: Path, master: LocalMasterKey) -> Iterator[KeyRing]:
    """A ring in a file of its own."""
    ring = KeyRing(master, tmp_path / "keys.db")
    yield ring
    ring.close()


@pytest.fixture
async def store(tmp_path: Path, ring: KeyRing) -> AsyncIterator[EncryptedStore]:
    """An encrypted SQLite file."""
    async with EncryptedStore(SQLiteMemoryStore(tmp_path / "store.db"), ring) as store:
        yield store
