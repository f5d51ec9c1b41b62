"""What a context shows of a long-term store when the search leaves room: the newest, within budget and limit."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from stepwise import StepwiseStore

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, ShortTermMemory, ToolMemory
from memoranda.errors import StoreUnavailableError
from memoranda.integrity import is_whole
from memoranda.store import InMemoryStore
from memoranda.store.backend import Filter
from memoranda_context import AssembledContext, ContextManager

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOME = "My flat is in Oslo."
QUESTION = "Where do I live?"


def at(minute: int) -> str:
    return (NOON + timedelta(minutes=minute)).isoformat()


def said(content: str, minute: int = 0) -> HumanMemory:
    """Return a memory in a session of its own: a search finds the neighbours of what it finds as well."""
    return HumanMemory(content=content, created_at=at(minute), metadata=MemoryMetadata(session_id=content[:20]))


def call(minute: int, content: str = "", call_id: str = "c1") -> AIMemory:
    return AIMemory(content=content, tool_calls=[{"id": call_id, "name": "look"}], created_at=at(minute))


def result(minute: int, content: str, call_id: str = "c1") -> ToolMemory:
    return ToolMemory(content=content, tool_call_id=call_id, created_at=at(minute))


def words(item: MemoryItem) -> int:
    return len(item.content.split())


async def assembled(query: str, *items: MemoryItem, **options: Any) -> AssembledContext:
    store = InMemoryStore()
    await store.add_many(items)
    return await ContextManager(long_term=store, **{"long_term_limit": 10, **options}).assemble_context(query)


def reasons(context: AssembledContext) -> dict[str, str]:
    return {each.item_id: each.reason for each in context.explain().kept if each.source == "long-term"}


def remembered(context: AssembledContext) -> list[str]:
    return [item.content for item in context.parts.long_term]


async def test_a_memory_that_shares_no_word_with_the_query_is_shown_where_there_is_room() -> None:
    assert remembered(await assembled(QUESTION, said(HOME))) == [HOME]


async def test_each_long_term_memory_says_whether_it_was_found_or_is_new() -> None:
    found, new = said("I live with a cat", 1), said(HOME, 2)

    context = await assembled(QUESTION, found, new)

    assert reasons(context) == {found.id: "the search found it", new.id: "it is one of the newest"}


async def test_memories_stand_in_the_order_of_time_whatever_brought_them() -> None:
    items = [said(HOME, 1), said("I live with a cat", 2), said("it rains", 3)]

    assert remembered(await assembled(QUESTION, *items)) == [item.content for item in items]


async def test_the_newest_take_no_place_from_what_the_search_found() -> None:
    found = said("I live in Oslo with a cat", 0)
    context = await assembled(QUESTION, found, *(said(f"note {number}", number) for number in range(1, 9)))

    assert found.id in reasons(context)

    context = await assembled(
        QUESTION, found, said("note " * 20, 1), token_budget=40, token_counter=words, long_term_limit=5
    )
    assert remembered(context) == [found.content]


async def test_found_and_newest_together_are_no_more_than_the_limit() -> None:
    items = [said("I live here", 0), *(said(f"note {number}", number) for number in range(1, 9))]

    assert remembered(await assembled(QUESTION, *items, long_term_limit=3)) == ["I live here", "note 7", "note 8"]


async def test_what_the_search_found_and_does_not_fit_leaves_its_room_to_the_newest() -> None:
    context = await assembled(
        QUESTION, said("live " * 80, 0), said("a note", 1), token_budget=40, token_counter=words, long_term_limit=1
    )

    assert remembered(context) == ["a note"]


async def test_a_new_memory_that_the_conversation_or_the_query_says_is_not_repeated() -> None:
    store = InMemoryStore()
    await store.add_many([said("hello", 1), said("what now?", 2)])

    context = await ContextManager(long_term=store).assemble_context("what now?", conversation=[said("hello", 1)])

    assert str(context).count("hello") == 1


async def test_a_call_among_the_newest_completes_a_result_that_was_found() -> None:
    made, answered = call(1), result(2, "you live in Oslo")

    context = await assembled(QUESTION, made, answered)

    assert set(reasons(context)) == {made.id, answered.id}


async def test_half_a_group_takes_no_room_from_other_new_memories() -> None:
    context = await assembled(
        "hm", said("note", 1), result(2, "a result without its call"), long_term_limit=2, token_budget=60
    )

    assert remembered(context) == ["note"]
    (dropped,) = context.explain().dropped
    assert "its tool call" in dropped.reason


async def test_a_group_that_does_not_fit_as_a_whole_leaves_its_room_to_older_memories() -> None:
    items = [said("an older note", 1), call(2), result(3, "long " * 80)]

    context = await assembled("hm", *items, token_budget=60, token_counter=words)

    assert remembered(context) == ["an older note"]
    assert len(context.explain().dropped) == 2


async def test_a_conversation_view_gives_its_newest_first_where_not_all_fit() -> None:
    memory = ShortTermMemory()
    for minute in range(5):
        await memory.add(said(f"note {minute}", minute))

    context = await ContextManager(long_term=memory, long_term_limit=2).assemble_context("zebra")

    assert remembered(context) == ["note 3", "note 4"]


async def test_only_the_scope_fills_a_context() -> None:
    ada, bob = MemoryMetadata(user_id="ada"), MemoryMetadata(user_id="bob")
    store = InMemoryStore()
    await store.add(HumanMemory(content=HOME, metadata=ada))
    await store.add(HumanMemory(content="My flat is in Rome.", metadata=bob))

    handle = await ContextManager(long_term=store.scoped(user_id="ada"), long_term_limit=10).assemble_context(QUESTION)
    filtered = await ContextManager(long_term=store, long_term_limit=10).assemble_context(QUESTION, metadata=ada)

    assert remembered(handle) == remembered(filtered) == [HOME]


async def test_what_was_found_stays_when_the_newest_cannot_be_read() -> None:
    class Halting(StepwiseStore):
        async def _search(self, wanted: Filter, limit: int) -> list[MemoryItem]:
            raise StoreUnavailableError("gone")

    store = Halting()
    await store.add(said("I live in Oslo"))

    context = await ContextManager(long_term=store, long_term_limit=10).assemble_context(QUESTION)

    assert remembered(context) == ["I live in Oslo"]
    assert "could not be fetched" in " ".join(context.explain().warnings)


_KINDS = st.sampled_from(["live", "note", "call", "result"])


@given(st.lists(st.tuples(_KINDS, st.integers(1, 30)), max_size=12), st.integers(0, 120), st.integers(0, 8))
def test_no_filling_breaks_a_group_the_order_the_budget_or_the_limit(
    kinds: list[tuple[str, int]], budget: int, limit: int
) -> None:
    made = {
        "live": lambda minute, text: said(f"live {text}", minute),
        "note": lambda minute, text: said(text, minute),
        "call": call,
        "result": result,
    }
    items = [made[kind](minute, "word " * length) for minute, (kind, length) in enumerate(kinds)]

    context = asyncio.run(assembled("live", *items, token_budget=budget, long_term_limit=limit, token_counter=words))

    shown = context.parts.long_term
    assert is_whole(shown)
    assert list(shown) == sorted(shown, key=lambda item: item.created_at)
    assert len(shown) <= limit
    assert context.tokens <= max(budget, 1)
    assert set(reasons(context)) == {item.id for item in shown}
