"""Large batches, of which rows are made slice by slice while the event loop goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from memoranda import HumanMemory, MemoryMetadata, MemoryStatus
from memoranda.errors import IdConflictError, InputError, StoreClosedError
from memoranda_sqlite import SQLiteMemoryStore

MANY = 1_200
ADA, BOB = MemoryMetadata(user_id="ada"), MemoryMetadata(user_id="bob")


def batch(content: str = "as given") -> list[HumanMemory]:
    return [HumanMemory(id=f"item-{number}", content=content, metadata=ADA) for number in range(MANY)]


async def test_an_item_that_is_changed_while_its_batch_is_taken_is_stored_as_it_was(tmp_path: Path) -> None:
    items = batch()
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        adding = asyncio.create_task(store.add_many(items))
        await asyncio.sleep(0)
        assert not adding.done()
        items[0].content = "changed"
        items[0].metadata = MemoryMetadata(user_id="bob")
        await adding

        stored = await store.get("item-0")
        assert stored is not None
        assert (stored.content, stored.metadata.user_id) == ("as given", "ada")


async def test_a_batch_of_which_the_last_item_cannot_be_stored_leaves_nothing(tmp_path: Path) -> None:
    items = [*batch(), HumanMemory(content="no\0text")]
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        with pytest.raises(InputError, match="content"):
            await store.add_many(items)

        assert await store.count() == 0


async def test_rows_are_stored_while_the_next_ones_are_made(tmp_path: Path) -> None:
    checked: list[str] = []

    class Noted(HumanMemory):
        """Notes that a store checks it, as it does before it makes the row."""

        def __getattribute__(self, name: str) -> Any:
            if name == "status":
                checked.append(super().__getattribute__("id"))
            return super().__getattribute__(name)

    items = [Noted(id=f"item-{number}", content="x", metadata=ADA) for number in range(3 * MANY)]
    async with SQLiteMemoryStore(tmp_path / "a.db") as store, SQLiteMemoryStore(tmp_path / "a.db") as other:
        adding = asyncio.create_task(store.add_many(items))
        while items[MANY].id not in checked:
            await asyncio.sleep(0)
        assert items[-1].id not in checked
        await other.add(HumanMemory(content="waits until the batch is stored"))

        assert await other.count() == len(items) + 1
        await adding


async def test_a_batch_that_is_cancelled_midway_leaves_nothing_and_holds_up_nobody(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        for turns in range(8):
            adding = asyncio.create_task(store.add_many(batch()))
            for _ in range(turns):
                await asyncio.sleep(0)
            adding.cancel()
            with pytest.raises(asyncio.CancelledError):
                await adding
            await store.add(HumanMemory(content="next"))

            assert await store.count() == turns + 1


async def test_a_batch_whose_store_is_closed_midway_leaves_nothing(tmp_path: Path) -> None:
    store = SQLiteMemoryStore(tmp_path / "a.db")
    await store.init()
    adding = asyncio.create_task(store.add_many(batch()))
    await asyncio.sleep(0)
    await store.close()

    with pytest.raises(StoreClosedError):
        await adding
    async with store:
        assert await store.count() == 0


def test_a_loop_that_stops_in_the_middle_of_a_batch_holds_up_nobody_elses(tmp_path: Path) -> None:
    store = SQLiteMemoryStore(tmp_path / "a.db")
    loop = asyncio.new_event_loop()
    loop.run_until_complete(store.init())
    adding = loop.create_task(store.add_many(batch()))
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert not adding.done()

    asyncio.run(asyncio.wait_for(store.add(HumanMemory(id="other", content="x")), 200))
    before = asyncio.run(store.count())
    loop.run_until_complete(asyncio.wait_for(adding, 200))
    after = loop.run_until_complete(store.count())
    loop.run_until_complete(store.close())
    loop.close()

    assert (before, after) == (1, 1 + MANY)


async def test_a_batch_takes_the_ids_of_what_has_expired(tmp_path: Path) -> None:
    now = 1_800_000_000.0
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        store.clock = lambda: now
        await store.add(HumanMemory(id=f"item-{MANY - 1}", content="bob's", metadata=BOB), ttl=10)
        with pytest.raises(IdConflictError, match=f"item-{MANY - 1}"):
            await store.add_many(batch())
        assert await store.count() == 1

        now += 20
        await store.add_many(batch())

        assert await store.count(metadata=ADA) == MANY


async def test_a_batch_of_long_items_is_checked_like_any_other(tmp_path: Path) -> None:
    items = batch("ä" * 6_000)
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many(items)
        with pytest.raises(InputError, match="content"):
            await store.add_many([*items, HumanMemory(content="no\0text" * 1_000_000)])

        found = await store.get_many([items[0].id, items[-1].id])
        assert [(item.content, item.version) for item in found] == [(items[0].content, 1)] * 2
        assert await store.count() == MANY


async def test_a_handle_stamps_a_large_batch_and_is_refused_what_is_anothers(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add(HumanMemory(id="taken", content="ada's", metadata=ADA))
        bob = store.scoped(user_id="bob", session_id="s")
        items = [HumanMemory(content="bob's") for _ in range(MANY)]
        more = [*(HumanMemory(content="more") for _ in range(MANY)), HumanMemory(id="taken", content="bob's")]

        await bob.add_many(items)
        with pytest.raises(IdConflictError):
            await bob.add_many(more)

        assert await store.count(metadata=MemoryMetadata(user_id="bob", session_id="s")) == MANY
        assert await store.count() == MANY + 1


async def test_a_replaced_batch_keeps_its_times_where_that_is_asked_for(tmp_path: Path) -> None:
    first, second = batch(), batch("second")
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many(first, ttl=1_000)
        await store.add_many(second, keep_created=True)

        stored = await store.get("item-7")
        assert stored is not None
        assert (stored.content, stored.version, stored.created_at) == ("second", 2, first[7].created_at)
        assert stored.expires_at is None


@pytest.mark.parametrize(
    ("fields", "owner", "asked"),
    [
        ({"status": MemoryStatus.DRAFT}, {}, {"status": MemoryStatus.DRAFT}),
        ({"archived_by": "summary"}, {}, {"archived": True}),
        ({"ttl": 1_000.0}, {}, {"where": {"expires_at": {"$exists": True}}}),
        ({}, {"task_id": "t"}, {"metadata": MemoryMetadata(task_id="t")}),
        ({}, {"agent_id": "a"}, {"metadata": MemoryMetadata(agent_id="a")}),
        ({}, {"namespace": ("notes",)}, {"metadata": MemoryMetadata(namespace=("notes",))}),
    ],
    ids=["status", "archived_by", "expires_at", "task_id", "agent_id", "namespace"],
)
async def test_what_one_item_of_a_batch_has_is_found_by_and_gone_once_it_is_replaced(
    tmp_path: Path, fields: dict[str, Any], owner: dict[str, Any], asked: dict[str, Any]
) -> None:
    usual = [HumanMemory(id=each, content="usual", metadata=ADA) for each in ("a", "b", "c")]
    other = HumanMemory(id="b", content="other", metadata=MemoryMetadata(user_id="ada", **owner), **fields)
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many([usual[0], other, usual[2]])
        found = await store.search(**asked)
        await store.add_many(usual)

        assert [(item.content, item.version) for item in found] == [("other", 1)]
        assert await store.search(**asked) == []
        assert [(item.content, item.version) for item in await store.get_many(["a", "b", "c"])] == [("usual", 2)] * 3
