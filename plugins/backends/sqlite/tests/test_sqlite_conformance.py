"""The SQLite store does what every store must do, in a file and in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from memoranda_backend.ranking import HashingEmbeddings
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_testing import Reopen, StoreConformance


class TestSQLiteFile(StoreConformance):
    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[SQLiteMemoryStore]:
        async with SQLiteMemoryStore(tmp_path / "memories.db") as store:
            yield store

    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Reopen:
        async def reopen() -> SQLiteMemoryStore:
            return SQLiteMemoryStore(tmp_path / "memories.db")

        return reopen


@pytest.mark.rare
class TestSQLiteInMemory(StoreConformance):
    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[SQLiteMemoryStore]:
        async with SQLiteMemoryStore() as store:
            yield store


@pytest.mark.rare("vectors")
class TestSQLiteWithVectors(StoreConformance):
    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[SQLiteMemoryStore]:
        async with SQLiteMemoryStore(tmp_path / "memories.db", embeddings=HashingEmbeddings()) as store:
            yield store

    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Reopen:
        async def reopen() -> SQLiteMemoryStore:
            return SQLiteMemoryStore(tmp_path / "memories.db", embeddings=HashingEmbeddings())

        return reopen
