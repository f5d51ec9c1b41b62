"""What searches keep of a scope between them is dropped as soon as it is not what the file has."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from memoranda import HumanMemory, MemoryMetadata
from memoranda.embeddings import HashingEmbeddings
from memoranda.store import Expiry, Filter, SearchMode
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_sqlite.keeping import Kept
from memoranda_sqlite.statements import SQLiteStatements

ADA = MemoryMetadata(user_id="ada")


@pytest.mark.parametrize("mode", ["text", "semantic", "hybrid"])
async def test_ranked_searches_follow_what_is_added_deleted_and_expires(tmp_path: Path, mode: SearchMode) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db", embeddings=HashingEmbeddings()) as store:

        async def found() -> set[str]:
            return {hit.item.id for hit in await store.search_ranked(query="green tea", metadata=ADA, mode=mode)}

        await store.add(HumanMemory(id="stays", content="green tea", metadata=ADA))
        await store.add(HumanMemory(id="mortal", content="green tea too", metadata=ADA), ttl=3600)
        assert await found() == {"stays", "mortal"} == await found()
        await store.add(HumanMemory(id="later", content="more green tea", metadata=ADA))
        assert await found() == {"stays", "mortal", "later"}
        await store.delete("later")
        assert await found() == {"stays", "mortal"}
        store.clock = lambda: time.time() + 7200
        assert await found() == {"stays"}


async def test_what_has_not_changed_is_read_once_though_time_passes(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add(HumanMemory(content="x", metadata=ADA, expires_at="2030-01-01"))
    connection = sqlite3.connect(tmp_path / "a.db")
    kept: Kept[int] = Kept(100)
    reads: list[str] = []

    def asked(now: str) -> int:
        wanted = Filter(metadata=ADA, further=(Expiry(now),))
        return kept.of(connection, SQLiteStatements(), wanted, lambda: (reads.append(now) or len(reads), 1))  # type: ignore[func-returns-value]

    assert [asked("2024"), asked("2025"), asked("2031"), asked("2032"), asked("2026")] == [1, 1, 2, 2, 3]
    connection.execute("UPDATE memory_items SET status = 'draft'")
    assert asked("2026") == 4
    connection.close()
