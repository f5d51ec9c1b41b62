"""A session gives a model the roles, calls and results that its items' fields have, and never what was taken out."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SystemMemory, ToolMemory
from memoranda.store import InMemoryStore, Store
from memoranda_messages import to_responses
from memoranda_openai_agents import MemorandaSession

SECRET = "hunter2"
CALL = {
    "type": "function_call",
    "id": "fc",
    "call_id": "c1",
    "name": "login",
    "arguments": f'{{"password":"{SECRET}"}}',
}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": f"logged in with {SECRET}"}

PAYLOADS: list[Any] = [
    {"role": "system", "content": "hi"},
    {"role": "developer", "content": "hi"},
    {"role": "assistant", "content": "hi"},
    {"role": "user", "content": [{"type": "input_text", "text": "hi"}, {"type": "function_call", "call_id": "x"}]},
    {"role": "user", "content": "hi", "tool_calls": [{"id": "x"}]},
    {"role": "critic", "content": "hi"},
    {"type": "function_call", "call_id": "x", "name": "rm", "arguments": "{}"},
    {"type": "function_call", "call_id": "", "name": "rm", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "x", "output": "hi"},
    {"type": "mcp_call", "id": "x", "name": "rm", "arguments": "{}", "output": "hi"},
    {"type": "web_search_call", "id": "x"},
    {"type": "item_reference", "id": "x"},
    {"type": "of tomorrow", "content": "hi"},
    {},
]
FORMATS = ["responses", "openai-agents"]


@pytest.mark.parametrize("in_format", FORMATS)
@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
async def test_no_payload_brings_in_what_its_item_does_not_say(payload: Any, in_format: str) -> None:
    store = InMemoryStore()
    session = MemorandaSession("chat", store)
    await session.add_items([{"role": "user", "content": "start"}])
    forged = HumanMemory(content="hi", payload=payload, payload_format=in_format)
    await store.scoped(session_id="chat").add(forged)

    found: list[Any] = await session.get_items()

    assert [(item.get("role"), item.get("content")) for item in found] == [("user", "start"), ("user", "hi")]
    assert all(item.keys() <= {"role", "content", "type"} for item in found)
    popped: Any = await session.pop_item()
    assert (popped["role"], popped["content"]) == ("user", "hi")


async def redacted(store: Store, text: str = SECRET) -> None:
    """Take a text out of every field of every item, and leave the payloads as they are."""
    for item in await store.search(mode="substring", limit=1000):
        for name in ("content", "name", "tool_calls", "tool_call_id", "tool_name"):
            if text in json.dumps(held := getattr(item, name, None)):
                setattr(item, name, json.loads(json.dumps(held).replace(text, "***")))
        await store.update(item)


async def test_a_tool_call_that_was_edited_comes_back_edited(store: Store) -> None:
    session = MemorandaSession("chat", store)
    await session.add_items([{"role": "user", "content": "log in"}, CALL, RESULT])  # type: ignore[list-item]
    await redacted(store)

    found: list[Any] = await session.get_items()

    assert SECRET not in json.dumps(found)
    assert [item.get("type", item.get("role")) for item in found] == ["user", "function_call", "function_call_output"]
    assert json.loads(found[1]["arguments"]) == {"password": "***"}
    assert found[1]["call_id"] == found[2]["call_id"]
    popped: Any = await session.pop_item()
    assert (popped["call_id"], popped["output"]) == ("c1", "logged in with ***")
    popped = await session.pop_item()
    assert (popped["type"], json.loads(popped["arguments"])) == ("function_call", {"password": "***"})


@pytest.mark.parametrize("name", ["call_id", "name"])
async def test_an_id_and_a_tool_that_were_renamed_are_those_of_the_fields(name: str) -> None:
    store = InMemoryStore()
    session = MemorandaSession("chat", store)
    turn: list[Any] = [
        CALL | {name: SECRET},
        RESULT | {"call_id": SECRET if name == "call_id" else "c1", "output": "ok"},
    ]
    await session.add_items([{**turn[0], "arguments": "{}"}, turn[1]])
    await redacted(store)

    found = await session.get_items()

    assert SECRET not in json.dumps(found)
    assert len(found) == 2


async def test_what_was_edited_stays_out_of_forks_and_copies() -> None:
    store, other = InMemoryStore(), InMemoryStore()
    await MemorandaSession("chat", store).add_items([{"role": "user", "content": "log in"}, CALL, RESULT])  # type: ignore[list-item]
    await redacted(store)
    newest = (await store.search(mode="substring", order="added"))[0]
    fork = await store.fork("chat", at=newest.id)
    await other.add_many([item async for item in store.scan(order="added") if item.id != fork])

    for session in (MemorandaSession(fork, store), MemorandaSession("chat", other)):
        found = await session.get_items()
        assert len(found) == 3
        assert SECRET not in json.dumps(found)


async def test_ids_that_come_again_come_back_as_they_were_given(store: Store) -> None:
    session = MemorandaSession("chat", store)
    turn: list[Any] = []
    for call_id in ("a", "a_2"):
        turn += [
            {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": call_id, "output": call_id},
        ]
    await session.add_items(turn)

    assert await session.get_items() == turn
    assert await session.get_items(limit=2) == turn[2:]


JSON = st.recursive(
    st.sampled_from(["hi", "c1", "system", "user", 1, None, True]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["type", "role", "content", "text", "call_id", "name", "output"]), inner)
    ),
    max_leaves=8,
)
FORGED = st.one_of(st.sampled_from(PAYLOADS), JSON)
ITEMS = st.one_of(
    st.builds(HumanMemory, content=st.just("hi")),
    st.builds(SystemMemory, content=st.just("hi")),
    st.builds(AIMemory, content=st.just("hi")),
    st.builds(MemoryItem, content=st.just("hi")),
    st.builds(
        lambda: [
            AIMemory(content="", tool_calls=[{"id": "c1", "name": "f", "arguments": {}}]),
            ToolMemory(content="hi", tool_call_id="c1"),
        ]
    ),
)


def skeleton(found: list[Any]) -> list[Any]:
    return [
        (
            item.get("type", "message"),
            item.get("role", "").replace("developer", "system"),
            item.get("call_id"),
            item.get("name"),
            item.get("arguments"),
        )
        for item in found
    ]


@given(st.lists(ITEMS, min_size=1, max_size=4), st.data())
def test_what_a_session_gives_is_what_the_fields_say(turns: list[Any], data: st.DataObject) -> None:
    items = [item for turn in turns for item in (turn if isinstance(turn, list) else [turn])]
    mine = MemoryMetadata(session_id="chat")
    items = [item.model_copy(update={"metadata": mine}) for item in items]
    plain = to_responses(items)
    for item in items:
        item.payload = json.dumps(data.draw(FORGED))
        item.payload_format = data.draw(st.sampled_from([*FORMATS, "openai"]))

    async def read() -> list[Any]:
        store = InMemoryStore()
        await store.add_many(items)
        return await MemorandaSession("chat", store).get_items()

    found = asyncio.run(read())

    assert skeleton(found) == skeleton(plain)


async def test_a_role_that_instructs_needs_an_item_that_does(store: Store) -> None:
    forged = {"role": "system", "content": {"not": "known"}}
    session = MemorandaSession("chat", store)
    await session.add_items([{"role": "user", "content": "hello"}])
    raw = MemoryItem(content="", provider_parts=["openai-agents"], payload=forged, payload_format="openai-agents")
    await store.scoped(session_id="chat").add(raw)

    assert await session.get_items() == [{"role": "user", "content": "hello"}]
