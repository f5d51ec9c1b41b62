"""Items of a group that expire at different times: windows, views and contexts show all of a group or none."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memoranda import AIMemory, HumanMemory, MemoryMetadata, ShortTermMemory, ToolMemory
from memoranda.store import InMemoryStore
from memoranda_context import ContextManager

LIVES = st.sampled_from([None, None, 1.0, 2.0, 3.0])


@given(
    lives=st.lists(LIVES, min_size=12, max_size=12),
    looks=st.lists(st.sampled_from([0.5, 1.0]), min_size=1, max_size=6),
    swept=st.booleans(),
    budget=st.integers(1, 60),
)
def test_no_reader_is_shown_half_of_a_group_whatever_lifetimes_its_items_have(
    lives: list[float | None], looks: list[float], swept: bool, budget: int
) -> None:
    """Reasoning, two calls at once, their results: in windows, views and contexts."""

    async def play() -> None:
        clock = [1_000.0]
        metadata = MemoryMetadata(user_id="ada", session_id="s")
        store, view = InMemoryStore(), ShortTermMemory()
        turns = []
        for number in range(2):
            calls = [{"id": f"{number}{name}", "name": "look", "arguments": {}} for name in "ab"]
            tied: dict[str, Any] = {"group": f"g{number}", "group_size": 2, "metadata": metadata}
            turns.append(
                [
                    AIMemory(content=f"reasoning {number}", **tied),
                    AIMemory(content=f"calls {number}", tool_calls=calls, **tied),
                    *(ToolMemory(content="blue", tool_call_id=call["id"], metadata=metadata) for call in calls),
                ]
            )
        items = [item for turn in turns for item in (HumanMemory(content="and?", metadata=metadata), *turn)]
        for kept in (store, view):
            kept.clock = lambda: clock[0]
            for item, ttl in zip(items, lives, strict=False):
                await kept.add(item, ttl=ttl)
        for look in looks:
            clock[0] += look
            if swept:
                await store.sweep()
                await view.sweep()
            manager = ContextManager(recent_limit=50)
            context = await manager.assemble_context("and?", store, metadata=metadata, token_budget=10 * budget)
            readers = {
                "window": await store.window(metadata=metadata),
                "bounded window": await store.window(metadata=metadata, limit=budget),
                "view": await view.search(metadata=metadata, limit=budget),
                "context": context.parts.items(),
            }
            for reader, shown in readers.items():
                there = {item.id for item in shown}
                for turn in turns:
                    assert sum(item.id in there for item in turn) in (0, len(turn)), reader

    asyncio.run(play())
