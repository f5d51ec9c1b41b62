"""Random items come back equal, and users of one store never meet, whatever they do."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda.store import InMemoryStore
from memoranda_openai_agents import MemorandaSession

CALL_IDS = st.sampled_from(["c1", "c2", "c3", ""])
TYPES = st.sampled_from(
    [
        *("message", "reasoning", "compaction", "item_reference", "mcp_call", "program", "program_output", "custom"),
        *(f"{kind}_call{output}" for kind in ("function", "computer", "shell") for output in ("", "_output")),
        *("custom_tool_call", "custom_tool_call_output", "tool_search_call", "tool_search_output"),
        *("mcp_approval_request", "mcp_approval_response"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
BLOCKS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["input_text", "output_text", "refusal", "input_image", "new"])},
        optional={"text": JSON, "refusal": st.text(), "annotations": st.just([]), "image_url": st.text()},
    ),
    max_size=3,
)
KNOWN = st.fixed_dictionaries(
    {},
    optional={
        "type": TYPES,
        "id": CALL_IDS | JSON,
        "call_id": CALL_IDS | JSON,
        "role": st.sampled_from(["user", "assistant", "system", "developer", "tool", "function", "critic"]) | JSON,
        "content": st.text(max_size=8) | BLOCKS | JSON,
        "name": st.text(max_size=4) | JSON,
        "arguments": st.sampled_from(["{}", '{"a": 1}', "{"]) | JSON,
        "output": st.text(max_size=5) | BLOCKS | JSON,
        "summary": JSON,
        "action": JSON,
        "approve": JSON,
        "approval_request_id": CALL_IDS,
        "status": JSON,
        "caller": JSON,
        "result": JSON,
    },
)
ITEMS = st.builds(lambda known, unknown: {**unknown, **known}, KNOWN, st.dictionaries(st.text(max_size=3), JSON))


@pytest.mark.rare
@given(batches=st.lists(st.lists(ITEMS, max_size=5), max_size=4), limit=st.integers(0, 12))
def test_every_item_comes_back_equal(batches: list[list[Any]], limit: int) -> None:
    async def play() -> None:
        session = MemorandaSession("chat", InMemoryStore())
        for batch in batches:
            await session.add_items(batch)
        given = [item for batch in batches for item in batch]

        assert await session.get_items(limit=len(given)) == given
        assert await session.get_items(limit=limit) == (given[-limit:] if limit else [])
        assert [item for item in await session.get_items() if item.get("type") != "reasoning"] == [
            item for item in given if item.get("type") != "reasoning"
        ]
        assert [await session.pop_item() for _ in given] == given[::-1]

    asyncio.run(play())


PEOPLE = st.sampled_from(["ada", "bob"])
CHATS = st.sampled_from(["chat", "ada"])
STEPS = st.tuples(PEOPLE, CHATS, st.sampled_from(["add", "add", "add", "pop", "clear", "get"]), st.integers(0, 3))


@settings(max_examples=3 * settings.default.max_examples // 2)
@given(steps=st.lists(STEPS, max_size=25))
def test_users_of_one_store_never_meet(steps: list[tuple[str, str, str, int]]) -> None:
    async def play() -> None:
        store = InMemoryStore()
        kept: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for number, (who, chat, deed, count) in enumerate(steps):
            session, own = MemorandaSession(chat, store.scoped(user_id=who)), kept[who, chat]
            if deed == "add":
                # The same ids for everybody: what belongs together is told apart by whose it is.
                turn = [{"type": "function_call", "id": "f", "call_id": "c", "name": who, "arguments": str(number)}]
                turn += [{"type": "function_call_output", "id": "o", "call_id": "c", "output": who}] * count
                await session.add_items(turn)  # type: ignore[arg-type]
                own += turn
            elif deed == "pop":
                assert await session.pop_item() == (own.pop() if own else None)
            elif deed == "clear":
                await session.clear_session()
                own.clear()
            for (other, place), items in kept.items():
                assert await MemorandaSession(place, store.scoped(user_id=other)).get_items() == items

    asyncio.run(play())


@pytest.mark.parametrize("role", ["tool", "function", "Tool"])
@pytest.mark.parametrize("further", [{}, {"tool_call_id": "c1"}, {"content": [{"type": "input_text", "text": "12"}]}])
async def test_a_message_of_a_tool_comes_back_and_is_never_a_persons(role: str, further: dict[str, Any]) -> None:
    """The Responses API has no such role, but the SDK's own sessions return whatever was added."""
    store = InMemoryStore()
    session = MemorandaSession("chat", store)
    message: Any = {"role": role, "content": "12", **further}

    await session.add_items([{"role": "user", "content": "How many?"}, message])

    assert (await session.get_items())[1] == message
    assert [item.memory_type for item in await store.search()] == ["tool", "human"]
    assert [item.content for item in await store.window()] == ["How many?"]
    assert await session.pop_item() == message
