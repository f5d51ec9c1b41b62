"""Spaces under the adapters of frameworks: a conversation is its user's own, what is recalled reaches what is granted.

A session on a handle with ``spaces="granted"`` shows and writes nothing of a space, even where a space has items of the
same session and agent. What is recalled says that somebody else wrote it, until the grant ends.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import framework_turns
from framework_turns import APP, CHAT, FRAMEWORKS, QUESTION, USER, framework
from memoranda import AIMemory, HumanMemory, MemoryMetadata, SystemMemory
from memoranda.errors import InputError, NotGrantedError
from memoranda.store import InMemoryStore, Store
from memoranda_spaces import Grants, space_of, user

CANARY = "The ferry costs forty euros."
ASKED = "What does the ferry cost?"


async def shared(may: str = "write") -> Store:
    """Return a store with a space that is granted to Ada and has a conversation of the same session and agent."""
    store = InMemoryStore()
    place = MemoryMetadata(session_id=CHAT, agent_id=APP)
    kinds = {"human": HumanMemory, "ai": AIMemory, "system": SystemMemory}
    await store.space("acme").add_many([kinds[kind](id=kind, content=CANARY, metadata=place) for kind in kinds])
    await Grants(store).give("acme", to=user(USER), may=may, by="vera")
    return store


@pytest.mark.parametrize("name", FRAMEWORKS)
async def test_a_conversation_stays_in_the_scope_of_its_user(name: str) -> None:
    used, store = framework(name), await shared("manage")
    ada = store.scoped(user_id=USER, spaces="granted")

    await used.write(ada)
    await used.go_on(ada)
    sent = json.dumps((await used.next_request(ada)).request)

    assert QUESTION in sent
    assert CANARY not in sent
    assert {item.id async for item in store.space("acme").scan()} == {"human", "ai", "system"}
    assert {item.metadata.user_id async for item in store.scan(archived=False)} == {USER, "space:acme"}
    assert any(space_of(item) for item in await ada.recall(ASKED, min_score=0))
    await Grants(store).revoke("acme", to=user(USER), by="vera")
    assert not any(space_of(item) for item in await ada.recall(ASKED, min_score=0))
    await used.go_on(ada)


@pytest.mark.parametrize("name", [name for name in FRAMEWORKS if name not in ("adk", "strands")])
async def test_a_conversation_in_a_space_stays_there_and_needs_the_grant(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``handle.space(name)`` works in the space alone."""
    monkeypatch.setattr(framework_turns, "handle", lambda store: store)
    used, store = framework(name), InMemoryStore()
    await Grants(store).give("acme", to=user(USER), may="write", by="vera")
    space = store.scoped(user_id=USER).space("acme")

    await used.write(space)
    await used.go_on(space)
    sent = json.dumps((await used.next_request(space)).request)

    assert QUESTION in sent
    assert {item.metadata.user_id async for item in store.scan(archived=False)} == {"space:acme"}
    assert {str(item.trust) async for item in store.space("acme").scan()} == {"external"}
    await Grants(store).revoke("acme", to=user(USER), by="vera")
    with pytest.raises(NotGrantedError):
        await used.next_request(space)


@pytest.mark.parametrize("name", ["adk", "strands"])
async def test_who_names_users_is_refused_in_a_space(name: str) -> None:
    used, store = framework(name), await shared()

    with pytest.raises(InputError, match="user_id"):
        await used.write(store.scoped(user_id=USER).space("acme"))


# What each adapter recalls for a question, as text


async def recalled_by_llama_index(store: Store) -> str:
    from llama_index.core.base.llms.types import ChatMessage

    from memoranda_llama_index import MemorandaMemoryBlock

    messages = await MemorandaMemoryBlock(store).aget([ChatMessage(role="user", content=ASKED)])
    return "\n".join(message.content or "" for message in messages)


async def recalled_by_agent_framework(store: Store) -> str:
    from agent_framework import AgentSession, Message, SessionContext

    from memoranda_agent_framework import MemorandaContextProvider

    context = SessionContext(session_id="now", input_messages=[Message("user", [ASKED])])
    agent: Any = None
    await MemorandaContextProvider(store).before_run(agent=agent, session=AgentSession(), context=context, state={})
    return "\n".join(message.text for messages in context.context_messages.values() for message in messages)


async def recalled_by_adk(store: Store) -> str:
    from memoranda_adk import MemorandaMemoryService

    service = MemorandaMemoryService(store, everything=True)
    found = (await service.search_memory(app_name=APP, user_id=USER, query=ASKED)).memories
    return "\n".join(
        f"{memory.custom_metadata.get('space')} {memory.author}: {memory.content.parts[0].text}" for memory in found
    )


async def recalled_by_strands(store: Store) -> str:
    from memoranda_strands import MemorandaMemoryStore

    found = await MemorandaMemoryStore(store, everything=True).search(ASKED)
    return "\n".join(f"{(memory.metadata or {}).get('space')} {memory.content}" for memory in found)


async def recalled_by_langchain(store: Store) -> str:
    from memoranda_langchain import MemorandaRetriever

    return "\n".join(
        f"{document.metadata['user_id']} {document.page_content}"
        for document in await MemorandaRetriever(store=store).ainvoke(ASKED)
    )


RECALLING: dict[str, Callable[[Store], Awaitable[str]]] = {
    "llama-index": recalled_by_llama_index,
    "agent-framework": recalled_by_agent_framework,
    "adk": recalled_by_adk,
    "strands": recalled_by_strands,
    "langchain": recalled_by_langchain,
}
SAYS_WHO = ("llama-index", "agent-framework", "adk")
"""Those that say who spoke."""


@pytest.mark.parametrize("name", RECALLING)
async def test_what_is_recalled_reaches_spaces_and_is_not_the_users_word(name: str) -> None:
    framework(name)
    store = InMemoryStore()
    await Grants(store).give("acme", to=user("bob"), may="write", by="vera")
    await Grants(store).give("acme", to=user(USER), by="vera")
    await store.scoped(user_id="bob", spaces="granted").add(HumanMemory(content=CANARY), space="acme")
    await store.scoped(user_id="eve").add(HumanMemory(content="Eve's ferry costs nothing."))
    ada = store.scoped(user_id=USER, spaces="granted")
    await ada.add(HumanMemory(content="My ferry leaves at nine.", metadata=MemoryMetadata(session_id="before")))

    told = await RECALLING[name](ada)

    (line,) = (line for line in told.splitlines() if CANARY in line)
    assert "leaves at nine" in told
    assert "Eve" not in told
    assert "acme" in told
    assert name not in SAYS_WHO or "someone else: " in line
    assert CANARY not in await RECALLING[name](store.scoped(user_id=USER))
    await Grants(store).revoke("acme", to=user(USER), by="vera")
    assert CANARY not in await RECALLING[name](ada)


async def test_a_context_with_memories_of_a_space_does_not_become_part_of_a_session() -> None:
    pytest.importorskip("agent_framework")
    from agent_framework import AgentSession, Message, SessionContext

    from memoranda_agent_framework import MemorandaContextProvider, MemorandaHistoryProvider

    store = await shared()
    ada = store.scoped(user_id=USER, spaces="granted")
    context = SessionContext(session_id="now", input_messages=[Message("user", [ASKED])])
    run: Any = {"agent": None, "session": AgentSession(session_id="now"), "context": context, "state": {}}
    await MemorandaContextProvider(ada).before_run(**run)

    await MemorandaHistoryProvider(ada, store_context_messages=True).after_run(**run)

    assert [item.content async for item in store.scoped(user_id=USER).scan()] == [ASKED]


async def test_a_memory_of_a_space_is_not_deleted_through_a_session_of_its_reader() -> None:
    pytest.importorskip("google.adk")
    from memoranda_adk import MemorandaMemoryService

    store = await shared("manage")
    service = MemorandaMemoryService(store.scoped(user_id=USER, spaces="granted"), everything=True)

    await service.delete_memory(app_name=APP, user_id=USER, memory_id="human")

    assert await store.get("human") is not None
