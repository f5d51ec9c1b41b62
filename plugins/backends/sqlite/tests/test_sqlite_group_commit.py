"""Writes that share a commit and still fail each for themselves."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

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


async def test_those_beside_a_refused_item_are_replaced_once(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many([HumanMemory(id=name, content="first", metadata=ADA) for name in ("one", "two", "three")])
        ada, bob = store.scoped(user_id="ada"), store.scoped(user_id="bob")

        results = await asyncio.gather(
            ada.add(HumanMemory(id="one", content="second")),
            bob.add(HumanMemory(id="two", content="bob's")),
            ada.add(HumanMemory(id="one", content="third")),
            store.add(HumanMemory(id="three", content="second", metadata=ADA), within=BOB),
            bob.add(HumanMemory(id="four", content="bob's")),
            return_exceptions=True,
        )

        stored = await store.search(order="added", limit=10)
        assert [type(result) for result in results] == [
            type(None),
            IdConflictError,
            type(None),
            IdConflictError,
            type(None),
        ]
        assert [(item.id, item.content, item.version) for item in reversed(stored)] == [
            ("one", "third", 3),
            ("two", "first", 1),
            ("three", "first", 1),
            ("four", "bob's", 1),
        ]


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


async def test_what_is_added_stays_in_the_log_until_there_is_more(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path) as store:
        before = path.stat()
        for _ in range(25):  # Fewer than the text index is filled for, and more pages than SQLite's usual thousand.
            await store.add(HumanMemory(content="x" * 200_000, metadata=ADA))
        after = path.stat()

    assert (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size)
    assert path.stat().st_size > before.st_size  # Closing brings it into the file.


async def test_the_log_is_brought_into_the_file_once_the_text_index_is_full(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path, durability="normal") as store:
        before = path.stat().st_size
        await store.add_many([HumanMemory(content=f"number {number}", metadata=ADA) for number in range(200)])
        await store.fill_indexes()
        async with asyncio.timeout(200):
            while path.stat().st_size == before:
                await asyncio.sleep(0.01)


async def test_what_was_added_before_the_store_is_closed_is_stored(tmp_path: Path) -> None:
    store = SQLiteMemoryStore(tmp_path / "a.db")
    await store.init()

    await asyncio.gather(store.add(HumanMemory(id="last", content="x")), store.close())

    async with store:
        assert await store.get("last") is not None


async def test_an_add_beside_the_closing_of_a_database_in_memory_comes_to_its_end() -> None:
    store = SQLiteMemoryStore()
    await store.init()

    async with asyncio.timeout(200):
        added, _ = await asyncio.gather(store.add(HumanMemory(content="x")), store.close(), return_exceptions=True)

    assert added is None


def test_a_loop_that_stops_in_the_middle_of_an_add_holds_up_nobody_elses(tmp_path: Path) -> None:
    store = SQLiteMemoryStore(tmp_path / "a.db")
    store.clock = lambda: 1_800_000_000.0  # Time stands still, so that only the first add looks for what has expired.
    loop = asyncio.new_event_loop()
    loop.run_until_complete(store.init())
    for _ in range(3):  # Once several have written together, the next ones are expected to.
        loop.run_until_complete(asyncio.wait([loop.create_task(store.add(HumanMemory(content="x"))) for _ in range(8)]))
    adding = loop.create_task(store.add(HumanMemory(id="one", content="x")))
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert not adding.done()

    asyncio.run(asyncio.wait_for(store.add(HumanMemory(id="two", content="x")), 200))
    found = asyncio.run(store.get_many(["one", "two"]))
    loop.run_until_complete(asyncio.wait_for(adding, 200))
    loop.run_until_complete(store.close())
    loop.close()

    assert [item.id for item in found] == ["one", "two"]


@pytest.mark.parametrize("ttl", [None, 1000.0], ids=["plain", "with a lifetime"])
async def test_a_large_batch_names_the_first_item_that_is_refused_and_stores_none(
    tmp_path: Path, ttl: float | None
) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many([HumanMemory(id=f"taken-{number}", content="ada's", metadata=ADA) for number in (1, 2)])
        batch = [HumanMemory(id=f"{number}", content="bob's", metadata=BOB) for number in range(150)]
        batch[70] = batch[70].model_copy(update={"id": "taken-2"})
        batch[71] = batch[71].model_copy(update={"id": "taken-1"})

        with pytest.raises(IdConflictError, match="taken-2"):
            await store.add_many(batch, ttl=ttl)

        assert await store.count(metadata=BOB) == 0
        assert await store.count(metadata=ADA) == 2


@pytest.mark.parametrize("within", [None, ADA], ids=["anywhere", "within a scope"])
async def test_an_id_that_is_twice_in_a_large_batch_has_the_last_content_and_the_first_place(
    tmp_path: Path, within: MemoryMetadata | None
) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        batch = [HumanMemory(id=f"{number}", content="once", metadata=ADA) for number in range(100)]
        batch[60] = batch[60].model_copy(update={"id": "5", "content": "twice"})

        await store.add_many(batch, within=within)

        again = await store.get("5")
        assert again is not None
        assert (again.content, again.version) == ("twice", 2)
        ids = [item.id async for item in store.scan(order="added")]
        assert ids == [f"{number}" for number in range(100) if number != 60]


async def test_an_add_does_not_wait_until_the_text_indexes_are_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoranda_sqlite.indexing.FILL_AT", 1_500)
    monkeypatch.setattr("memoranda_sqlite.indexing.REST_SECONDS", 0.05)
    monkeypatch.setattr("memoranda_sqlite.indexing.BREATH_SECONDS", 0.05)  # Filling takes seconds, and begins at once.
    path = tmp_path / "a.db"

    def indexed() -> int:
        with sqlite3.connect(path) as other:
            ((found,),) = other.execute("SELECT value FROM memoranda_meta WHERE key = 'indexed'")
        other.close()
        return int(found)

    async with SQLiteMemoryStore(path) as store:
        await store.add_many([HumanMemory(content=f"word{number} " * 20) for number in range(1_500)])
        await store.add(HumanMemory(content="in between"))
        assert indexed() < 1_500

        monkeypatch.setattr("memoranda_sqlite.indexing.BREATH_SECONDS", 0.0)
        while indexed() < 1_501:  # The next pause is used.
            await asyncio.sleep(0.02)
