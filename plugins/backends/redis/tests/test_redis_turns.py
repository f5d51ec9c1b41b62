"""What reads many items leaves the event loop its turns."""

from __future__ import annotations

import uuid

import pytest

from memoranda import HumanMemory, MemoryMetadata
from memoranda_redis import RedisMemoryStore, ShortTermMemoryManager
from memoranda_testing.event_loop import longest_block

ADA = MemoryMetadata(user_id="ada")
SOME = MemoryMetadata(user_id="ada", extra={"kept": True})


@pytest.mark.rare
@pytest.mark.parametrize("work", ["a text search", "a listing", "a count by extra", "a clear by extra"])
async def test_the_turns_of_the_loop_do_not_grow_with_the_scope(standalone_url: str, work: str) -> None:
    turns = []
    for count in (1_500, 4_500):
        async with RedisMemoryStore(standalone_url, namespace=uuid.uuid4().hex) as store:
            await store.add_many(
                HumanMemory(
                    content=f"saffron and the telescope of number {number}",
                    metadata=MemoryMetadata(user_id="ada", session_id=f"s{number % 7}", extra={"kept": True}),
                )
                for number in range(count)
            )
            calls = {
                "a text search": lambda store=store: store.search(query="saffron", metadata=ADA, mode="text"),
                "a listing": lambda store=store: store.search(metadata=ADA, limit=10**6),
                "a count by extra": lambda store=store: store.count(metadata=SOME),
                "a clear by extra": lambda store=store: store.clear(metadata=SOME),
            }
            turns.append(await longest_block(calls[work]()))
    assert turns[1] < 2 * turns[0]


@pytest.mark.rare
async def test_the_turns_of_the_loop_do_not_grow_with_the_interactions(standalone_url: str) -> None:
    turns = []
    for count in (1_500, 4_500):
        memory = ShortTermMemoryManager(standalone_url, f"agent-{uuid.uuid4().hex}")
        for number in range(count):
            await memory.add_interaction("t", f"number {number}")
        turns.append(await longest_block(memory.get_recent()))
        await memory.disconnect()
    assert turns[1] < 2 * turns[0]
