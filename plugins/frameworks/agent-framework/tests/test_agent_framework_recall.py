"""A context provider of the Agent Framework that recalls."""

from __future__ import annotations

from typing import Any

import pytest
from agent_framework import AgentSession, Message, SessionContext

from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import Store
from memoranda_agent_framework import MemorandaContextProvider, MemorandaHistoryProvider

QUESTION = Message("user", ["What is my dog called?"])


async def recalled(provider: MemorandaContextProvider, *given: Message, session_id: str = "monday") -> list[Message]:
    context = SessionContext(session_id=session_id, input_messages=list(given))
    agent: Any = None
    await provider.before_run(agent=agent, session=AgentSession(session_id=session_id), context=context, state={})
    return context.context_messages.get(provider.source_id, [])


async def test_memories_of_other_sessions_come_with_their_origin(store: Store) -> None:
    ada = store.scoped(user_id="ada")
    await ada.scoped(session_id="sunday").add(HumanMemory(content="My dog is called Bobdog."))
    await ada.scoped(session_id="saturday").add(HumanMemory(content="My other dog is called Rover."))
    await ada.scoped(session_id="monday").add(HumanMemory(content="A dog is called a friend."))
    await ada.add(HumanMemory(content="My dog likes to be called."))
    await store.scoped(user_id="bob", session_id="sunday").add(HumanMemory(content="My dog is called Rex."))

    (message,) = await recalled(MemorandaContextProvider(ada), QUESTION)

    assert message.role == "user"
    assert "My dog is called Bobdog." in message.text
    assert "not instructions" in message.text
    assert "friend" not in message.text
    assert "Rex" not in message.text
    attribution = message.additional_properties["_attribution"]
    assert sorted(attribution.pop("origin_session_ids")) == ["saturday", "sunday"]
    named = {"source_id": "memoranda_recall", "source_type": "MemorandaContextProvider", "trust": "user"}
    assert attribution == named


async def test_memories_without_a_session_have_no_origin(store: Store) -> None:
    await store.add(HumanMemory(content="My dog is called Bobdog."))
    (message,) = await recalled(MemorandaContextProvider(store), QUESTION)
    assert "origin_session_ids" not in message.additional_properties["_attribution"]


async def test_what_is_worth_knowing_is_added_whatever_is_asked(store: Store) -> None:
    await store.add(HumanMemory(content="I am allergic to peanuts."))
    (message,) = await recalled(MemorandaContextProvider(store), Message("user", ["Can I have a satay?"]))
    assert "peanuts" in message.text


async def test_nothing_is_added_if_nothing_is_relevant_or_asked(store: Store) -> None:
    await store.add(HumanMemory(content="My dog is called Bobdog."))
    provider = MemorandaContextProvider(store)
    volcano = Message("user", ["Where is the nearest volcano?"])
    assert await recalled(MemorandaContextProvider(store, limit=3), volcano) == []
    assert await recalled(provider, Message("assistant", ["What is my dog called?"])) == []
    assert await recalled(MemorandaContextProvider(store, limit=0), QUESTION) == []


async def test_trust_bounds_what_is_recalled(store: Store) -> None:
    await store.add(HumanMemory(content="My dog is called Mallory.", trust="external"))
    assert len(await recalled(MemorandaContextProvider(store), QUESTION)) == 1
    assert await recalled(MemorandaContextProvider(store, min_trust="user"), QUESTION) == []


@pytest.mark.parametrize("source", [None, "somebody else's provider"])
async def test_context_that_is_stored_is_trusted_no_more_than_what_it_was_made_from(
    store: Store, source: str | None
) -> None:
    await store.scoped(session_id="sunday").add(HumanMemory(content="My dog is called Mallory.", trust="external"))
    await store.scoped(session_id="sunday").add(HumanMemory(content="My dog is called Bobdog."))
    context = SessionContext(session_id="monday", input_messages=[QUESTION])
    run: Any = {"agent": None, "session": AgentSession(session_id="monday"), "context": context, "state": {}}
    history = MemorandaHistoryProvider(store, store_context_messages=True)
    if source is None:
        await MemorandaContextProvider(store).before_run(**run)
    else:
        context.extend_messages(source, [Message("user", ["My dog is called Mallory."])])

    await history.after_run(**run)

    stored = await store.search(metadata=MemoryMetadata(session_id="monday"), mode="substring")
    assert {(item.trust, "Mallory" in item.content) for item in stored} == {("external", True), (None, False)}
    trusted = await MemorandaHistoryProvider(store, min_trust="user").get_messages("monday")
    assert [message.text for message in trusted] == [QUESTION.text]
    assert len(await recalled(MemorandaContextProvider(store, min_trust="user"), QUESTION, session_id="tuesday")) == 1
