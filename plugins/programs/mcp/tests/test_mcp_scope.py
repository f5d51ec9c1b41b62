"""One person's server reaches nobody else's memories, whatever it is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given as every
from hypothesis import settings
from hypothesis import strategies as st
from mcp import Client, MCPError

from memoranda.items import HumanMemory, MemoryItem, MemoryMetadata
from memoranda.store import InMemoryStore
from memoranda_mcp import Rights, ScopedMemory, make_server
from memoranda_mcp.memory import address

SECRET = "Grace's secret"


def memory_for(store: InMemoryStore, user: str, rights: Rights | None = None) -> ScopedMemory:
    return ScopedMemory(store.scoped(user_id=user), store.scoped(user_id=user), rights or Rights(allow_purge=True))


@pytest.fixture
def hers() -> MemoryItem:
    return HumanMemory(
        id="grace-1", content=SECRET, metadata=MemoryMetadata(user_id="grace", session_id="talk", extra={"tag:x": True})
    )


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("list_memories", {"ids": ["grace-1"]}),
    ("update_memory", {"id": "grace-1", "version": 1, "content": "mine"}),
    ("forget", {"ids": ["grace-1"]}),
    ("forget", {"ids": ["grace-1"], "purge": True}),
    ("forget", {"ids": ["grace-1"], "undo": True}),
    ("recall", {"query": "secret"}),
    ("recall", {"query": "secret", "mode": "text", "conversation": "talk"}),
    ("recall", {"query": "secret", "tags": ["x"]}),
    ("recall", {"query": "secret", "user_id": "grace"}),
    ("recall", {"query": "secret", "metadata": {"user_id": "grace"}}),
    ("list_memories", {"since": "2000-01-01T00:00:00Z"}),
    ("list_memories", {"conversation": "talk"}),
    ("list_memories", {"containing": "secret", "conversation": "talk"}),
    ("remember", {"content": "x", "user_id": "grace"}),
    ("remember", {"content": "x", "conversation": "talk"}),
    ("context", {"question": "secret", "conversation": "talk"}),
    ("summarize_conversation", {"conversation": "talk"}),
]


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
async def test_no_call_shows_or_changes_what_belongs_to_another(
    ada: Client, store: InMemoryStore, hers: MemoryItem, tool: str, arguments: dict[str, Any]
) -> None:
    await store.add(hers)
    before = await store.get(hers.id)
    result = await ada.call_tool(tool, arguments)
    assert SECRET not in json.dumps(result.structured_content) + str(result.content)
    assert await store.get(hers.id) == before


async def test_resources_and_prompts_show_nothing_of_another(
    ada: Client, store: InMemoryStore, hers: MemoryItem
) -> None:
    await store.add(hers)
    for uri in (
        "memory://items/grace-1",
        "memory://conversations/talk",
        "memory://items/..%2Fgrace-1",
        "memory://users/grace",
    ):
        with pytest.raises(MCPError, match="no such resource"):
            await ada.read_resource(uri)
    assert [resource.uri for resource in (await ada.list_resources()).resources] == [
        "memory://recent",
    ]
    assert SECRET not in str((await ada.read_resource("memory://recent")).contents)
    assert SECRET not in str(await ada.get_prompt("what_do_you_know_about_me", {"topic": "secret"}))


async def test_a_server_of_one_conversation_stays_in_it(store: InMemoryStore) -> None:
    await store.scoped(user_id="ada", session_id="other").add(HumanMemory(id="other", content="said elsewhere"))
    memory = ScopedMemory(store.scoped(user_id="ada", session_id="this"), store.scoped(user_id="ada"))
    async with Client(make_server(memory)) as client:
        for tool, arguments in (("list_memories", {}), ("recall", {"query": "said"})):
            refused = await client.call_tool(tool, {**arguments, "conversation": "other"})
            assert refused.is_error
            assert "bound to one conversation" in str(refused.content)
            assert (await client.call_tool(tool, arguments)).structured_content["memories"] == []
        assert (await client.call_tool("list_memories", {"ids": ["other"]})).structured_content["not_found"] == [
            "other"
        ]
        mine = (await client.call_tool("remember", {"content": "here", "conversation": "this"})).structured_content
        assert mine["conversation"] == "this"


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
NAMES = st.sampled_from(["ada", "grace", "ad", "ada ", "Ada", "*", "%"])


@settings(max_examples=settings.default.max_examples // 6)
@every(said=st.lists(st.tuples(NAMES, TEXTS, TEXTS), min_size=1, max_size=8))
async def test_several_people_in_one_store_never_meet(said: list[tuple[str, str, str]]) -> None:
    async with InMemoryStore() as store:
        for user, content, conversation in said:
            async with Client(make_server(memory_for(store, user))) as client:
                await client.call_tool("remember", {"content": content, "conversation": conversation})
        for user in {user for user, _, _ in said}:
            own = sorted(content for owner, content, _ in said if owner == user)
            async with Client(make_server(memory_for(store, user))) as client:
                shown = (await client.call_tool("list_memories", {"limit": 100})).structured_content["memories"]
                assert sorted(memory["content"] for memory in shown) == own
                listed = {resource.uri for resource in (await client.list_resources()).resources}
                talks = {address("conversations", talk) for owner, _, talk in said if owner == user}
                assert {uri for uri in listed if "conversations" in uri} == talks
