"""Rows whose numbers SQLite gives a second time are indexed like any others."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoranda import MemoryItem, MemoryMetadata
from memoranda_sqlite import SQLiteMemoryStore

SCOPE = MemoryMetadata(user_id="u")


def teas(number: int) -> list[MemoryItem]:
    return [MemoryItem(content=f"green tea {position}", metadata=SCOPE) for position in range(number)]


@pytest.mark.parametrize("mode", ["substring", "text"])
async def test_rows_added_after_a_purge_are_found(tmp_path: Path, mode: str) -> None:
    async with SQLiteMemoryStore(tmp_path / "memories.db") as store:
        for number in (100, 50, 70):
            await store.add_many(teas(number))
            for _ in range(2):
                found = await store.search(query="green tea", metadata=SCOPE, limit=1000, mode=mode)
                assert len(found) == number
                await store.fill_indexes()
            assert await store.purge(metadata=SCOPE) == number
            assert await store.search(query="green tea", metadata=SCOPE, mode=mode) == []


async def test_rows_that_take_the_place_of_stale_ones_are_found(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "memories.db") as store:
        first = teas(30)
        await store.add_many(first)
        await store.fill_indexes()
        for item in first[10:]:
            await store.purge(item.id)
        await store.add_many([MemoryItem(content=f"red wine {position}", metadata=SCOPE) for position in range(25)])
        await store.fill_indexes()
        assert len(await store.search(query="red wine", metadata=SCOPE, limit=100)) == 25
        assert len(await store.search(query="green tea", metadata=SCOPE, limit=100)) == 10
        assert await store.purge(metadata=SCOPE) == 35
