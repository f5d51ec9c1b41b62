"""Large batches, of which rows are made slice by slice while the event loop goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import IdConflictError, InputError
from memoranda_sqlite import SQLiteMemoryStore

MANY = 1_200
ADA = MemoryMetadata(user_id="ada")


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
