"""Writes that share a commit and still fail each for themselves."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import CorruptStoreError, IdConflictError
from memoranda_sqlite import SQLiteMemoryStore

ADA, BOB = MemoryMetadata(user_id="ada"), MemoryMetadata(user_id="bob")


async def test_a_refused_item_fails_alone(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add(HumanMemory(id="taken", content="ada's", metadata=ADA))

        results = await asyncio.gather(
            store.add(HumanMemory(id="one", content="1", metadata=BOB)),
            store.add(HumanMemory(id="taken", content="bob's", metadata=BOB)),
            store.add(HumanMemory(id="two", content="2", metadata=BOB)),
            return_exceptions=True,
        )

        assert [type(result) for result in results] == [type(None), IdConflictError, type(None)]
        assert await store.count(metadata=BOB) == 2
        taken = await store.get("taken")
        assert taken is not None
        assert (taken.content, taken.version) == ("ada's", 1)


async def test_an_unreadable_row_in_a_group_fails_alone_and_leaves_no_transaction(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path) as store:
        await store.add(HumanMemory(id="bad", content="x", metadata=ADA))
        item = await store.get("bad")
        assert item is not None
        with sqlite3.connect(path) as other:
            other.execute("UPDATE memory_items SET extra_json = '{broken' WHERE id = 'bad'")
        other.close()

        results = await asyncio.gather(
            store.add(HumanMemory(id="one", content="1", metadata=ADA)),
            store.update(item),
            store.add(HumanMemory(id="two", content="2", metadata=ADA)),
            return_exceptions=True,
        )

        assert isinstance(results[1], CorruptStoreError)
        assert (results[0], results[2]) == (None, None)
        with sqlite3.connect(path, timeout=0) as other:
            other.execute("BEGIN IMMEDIATE")  # Nobody holds the file.
        other.close()
        assert await store.count(metadata=ADA) == 3
