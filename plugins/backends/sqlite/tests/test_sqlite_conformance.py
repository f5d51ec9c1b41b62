"""The SQLite store does what every store must do, in a file and in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from memoranda import HumanMemory, MemoryMetadata
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_testing import Outcome, Reopen, StoreConformance, check_store


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


BESIDE_OTHERS = ("recall", "archived", "closed", "at_any_await", "a_turn_follows", "straddle")
"""A part of what a store must do, with cases that use each way in which the kit stays apart from what others wrote."""


@pytest.mark.parametrize("parts", [BESIDE_OTHERS, pytest.param(("",), marks=pytest.mark.slow)], ids=["some", "all"])
async def test_a_file_that_others_use_conforms_and_is_left_as_it_was(tmp_path: Path, parts: Sequence[str]) -> None:
    file = tmp_path / "memories.db"
    async with SQLiteMemoryStore(file) as store:
        await store.add(HumanMemory(content="tea", metadata=MemoryMetadata(user_id="ada", session_id="s")))
    report = await check_store(lambda: SQLiteMemoryStore(file), select=lambda name: any(part in name for part in parts))
    assert report.conforms, [*report.of(Outcome.FAILED), *report.of(Outcome.NOT_REACHED)]
    async with SQLiteMemoryStore(file) as store:
        assert [item.content async for item in store.scan(include_deleted=True)] == ["tea"]
