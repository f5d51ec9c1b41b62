"""Large batches, of which rows are made slice by slice while the event loop goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from memoranda import HumanMemory, MemoryMetadata, MemoryStatus
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
