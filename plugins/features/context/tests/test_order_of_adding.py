"""The order of a conversation is that of adding, in every view of it, whatever the times of its items are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import (
    AIMemory,
    HumanMemory,
    MemoryItem,
    MemoryMetadata,
    ShortTermMemory,
    SummaryMemory,
    SystemMemory,
    ToolMemory,
)
from memoranda.store import EVERYTHING, InMemoryStore
from memoranda_context import ContextManager
from memoranda_messages import from_openai, to_openai
from memoranda_summary import SummaryConfig, compact, expand, undo

SCOPE = MemoryMetadata(user_id="ada", session_id="s")
BRIEF = SummaryConfig(message_threshold=0, templates=("brief",), prompts={"brief": "Sum up."}, keep_recent=0)


class Talked:
    async def summarize(self, prompt: str) -> str:
        return "They talked."


@st.composite
def conversations(draw: st.DrawFn) -> list[MemoryItem]:
    """What is added in this order: system items anywhere, whole tool calls, and times at random."""
    items: list[MemoryItem] = []
    for number, kind in enumerate(draw(st.lists(st.sampled_from(["system", "human", "ai", "tool"]), max_size=14))):
        shared: dict[str, Any] = {"content": f"{number}", "metadata": SCOPE}
        if kind == "system":
            items.append(SystemMemory(**shared))
        elif kind == "human":
            items.append(HumanMemory(**shared))
        elif kind == "ai":
            items.append(AIMemory(**shared))
        else:
            items.append(AIMemory(tool_calls=[{"id": f"c{number}", "name": "look", "arguments": {}}], **shared))
            items.append(ToolMemory(**{**shared, "content": f"{number}r"}, tool_call_id=f"c{number}"))
    for item in items:
        item.created_at = f"2024-03-{draw(st.integers(1, 28)):02}T00:00:00+00:00"
    return items


def is_in_order(shown: Sequence[MemoryItem], added: Sequence[MemoryItem]) -> bool:
    places = {item.id: place for place, item in enumerate(added)}
    found = [places[item.id] for item in shown]
    return found == sorted(set(found))


async def filled(kind: type[Any], items: Sequence[MemoryItem]) -> Any:
    store = kind()
    for item in items:
        await store.add(item)
    return store


@pytest.mark.parametrize("kind", [InMemoryStore, ShortTermMemory])
@given(items=conversations(), limit=st.integers(0, 20), budget=st.integers(0, 80))
def test_every_view_shows_things_in_the_order_of_adding(
    kind: type[Any], items: list[MemoryItem], limit: int, budget: int
) -> None:
    async def look() -> None:
        store = await filled(kind, items)
        assert is_in_order(await store.window(metadata=SCOPE, limit=limit, tokens=budget), items)
        assert is_in_order(await store.window(metadata=SCOPE, rounds=limit), items)
        manager = ContextManager(recent_limit=limit, token_budget=budget)
        context = await manager.assemble_context("go", store, metadata=SCOPE)
        assert is_in_order(context.parts.conversation, items)
        if kind is ShortTermMemory:
            assert is_in_order(await store.search(metadata=SCOPE, limit=limit), items)

    asyncio.run(look())


@given(conversations(), st.data())
def test_what_a_caller_has_at_hand_stands_where_the_store_has_it(items: list[MemoryItem], data: st.DataObject) -> None:
    at_hand = [item for item in items if data.draw(st.booleans())]

    async def look() -> None:
        store = await filled(InMemoryStore, items)
        context = await ContextManager(recent_limit=EVERYTHING).assemble_context("go", store, conversation=at_hand)
        assert [item.id for item in context.parts.conversation] == [item.id for item in items]

    asyncio.run(look())


@given(st.lists(st.integers(1, 28), min_size=8, max_size=8), st.integers(0, 7), st.integers(1, 8))
def test_what_was_read_back_from_messages_stands_where_the_store_has_it(days: list[int], first: int, size: int) -> None:
    items = [
        (AIMemory if at % 2 else HumanMemory)(content=f"{at}", metadata=SCOPE, created_at=f"2024-03-{day:02}")
        for at, day in enumerate(days)
    ]
    at_hand = from_openai(to_openai(items[first : first + size]))

    async def look() -> None:
        store = await filled(InMemoryStore, items)
        context = await ContextManager().assemble_context("go", store, conversation=at_hand)
        assert [item.content for item in context.parts.conversation] == [item.content for item in items]

    asyncio.run(look())


async def test_a_system_item_that_messages_moved_to_the_front_moves_nothing_else() -> None:
    said = [
        HumanMemory(content="one", created_at="2024-03-09"),
        AIMemory(content="two", created_at="2024-03-01"),
        HumanMemory(content="three", created_at="2024-03-05"),
        SystemMemory(content="rules", created_at="2024-03-04"),
        AIMemory(content="four", created_at="2024-03-02"),
    ]
    store = await filled(InMemoryStore, said)
    at_hand = [said[3], said[0], said[2], said[4]]
    context = await ContextManager().assemble_context("go", store, conversation=at_hand)
    assert [item.content for item in context.parts.conversation] == ["rules", "one", "two", "three", "four"]


async def test_summaries_stand_behind_the_system_items_however_small_the_limit_is() -> None:
    said: list[MemoryItem] = [
        SystemMemory(content="first rule", created_at="2024-03-09"),
        SystemMemory(content="second rule", created_at="2024-03-05"),
        HumanMemory(content="one", created_at="2024-03-03"),
        SummaryMemory(content="They talked.", created_at="2024-03-02"),
        SummaryMemory(content="They went on.", created_at="2024-03-01"),
        HumanMemory(content="two", created_at="2024-03-01"),
        AIMemory(content="three", created_at="2024-03-08"),
    ]
    store = await filled(InMemoryStore, said)
    context = await ContextManager(recent_limit=5).assemble_context("go", store)
    shown = ["first rule", "second rule", "They talked.", "They went on.", "three"]
    assert [item.content for item in context.parts.conversation] == shown


async def test_system_items_stay_where_the_limit_cuts_a_group() -> None:
    said: list[MemoryItem] = [SystemMemory(content="rules"), HumanMemory(content="one")]
    said += [AIMemory(content=part, group="g") for part in ("thought", "answer")]
    said.append(HumanMemory(content="two"))
    store = await filled(InMemoryStore, said)
    context = await ContextManager(recent_limit=2).assemble_context("go", store)
    assert [item.content for item in context.parts.conversation] == ["rules", "two"]


@given(conversations(), st.integers(0, 14))
def test_summaries_give_things_back_in_the_order_of_adding(items: list[MemoryItem], cut: int) -> None:
    async def look() -> None:
        store = InMemoryStore()
        await store.add_many(items[:cut])
        first = await compact(store, SCOPE, BRIEF, Talked())
        await store.add_many(items[cut:])
        second = await compact(store, SCOPE, BRIEF, Talked())
        for result in (second, first):
            if result.summary_id is not None:
                assert is_in_order(await expand(store, result.summary_id), items)
                assert set(result.archived) == {item.id for item in await undo(store, result.summary_id)}

    asyncio.run(look())


async def test_undo_gives_things_back_in_the_order_of_adding() -> None:
    days = (5, 3, 9, 1)
    said = [HumanMemory(content=f"{day}", metadata=SCOPE, created_at=f"2024-03-0{day}") for day in days]
    store = await filled(InMemoryStore, said)
    result = await compact(store, SCOPE, BRIEF, Talked())
    assert [item.content for item in await undo(store, result.summary_id or "")] == ["5", "3", "9", "1"]
