"""Memory of ADK: what was added is found, by its owner alone, and nothing is stored twice."""

from __future__ import annotations

from typing import Any

import pytest
from adk_events import CHAT, WHOSE, said
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session
from google.genai import types

from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import Store
from memoranda_adk import MemorandaMemoryService, MemorandaSessionService

QUESTION = "Where is the flat?"


async def found(service: MemorandaMemoryService, query: str = QUESTION, **whose: Any) -> list[str]:
    """Return the texts of the memories that a search finds."""
    response = await service.search_memory(**{**WHOSE, **whose}, query=query)
    return [(memory.content.parts or [])[0].text or "" for memory in response.memories]


def entry(text: str, **fields: Any) -> MemoryEntry:
    """Return a memory."""
    return MemoryEntry(content=types.Content(role="user", parts=[types.Part(text=text)]), **fields)


@pytest.fixture
async def session(store: Store) -> Session:
    service = MemorandaSessionService(store)
    session = await service.create_session(**CHAT)
    await service.append_event(session, said("user", "The flat is in Oslo."))
    await service.append_event(session, said("helper", "The rent of the flat is due in May."))
    return session


async def test_a_session_is_found_once_it_is_added_and_stored_once(store: Store, session: Session) -> None:
    memory = MemorandaMemoryService(store)
    before = await store.count()
    assert await found(memory) == []

    for _ in range(2):
        await memory.add_session_to_memory(session)

    assert sorted(await found(memory)) == ["The flat is in Oslo.", "The rent of the flat is due in May."]
    assert await store.count() == before
    assert await found(memory, user_id="bob") == []
    assert await found(memory, app_name="other") == []
    again = await MemorandaSessionService(store).get_session(**CHAT)
    assert again is not None
    assert again.events == session.events


async def test_a_session_of_another_service_is_stored(store: Store) -> None:
    sessions, memory = InMemorySessionService(), MemorandaMemoryService(store)
    session = await sessions.create_session(**CHAT)
    await sessions.append_event(session, said("user", "The flat is in Oslo."))
    await memory.add_session_to_memory(session)
    await sessions.append_event(session, said("user", "The flat has a balcony."))
    await memory.add_session_to_memory(session)

    assert sorted(await found(memory)) == ["The flat has a balcony.", "The flat is in Oslo."]
    assert await store.count() == 2


async def test_some_events_are_added_with_values_to_search_by(store: Store, session: Session) -> None:
    memory = MemorandaMemoryService(store)
    chosen = session.events[:1]
    await memory.add_events_to_memory(**WHOSE, events=chosen, session_id="chat", custom_metadata={"topic": "home"})
    await memory.add_events_to_memory(**WHOSE, events=[said("user", "A flat in Rome.")])

    assert sorted(await found(memory)) == ["A flat in Rome.", "The flat is in Oslo."]
    assert len(await store.search(where={"topic": "home"})) == 1


async def test_a_memory_says_who_said_it_when_and_where(store: Store, session: Session) -> None:
    memory = MemorandaMemoryService(store)
    await memory.add_session_to_memory(session)
    response = await memory.search_memory(**WHOSE, query="When is the rent due?")
    best = response.memories[0]

    assert best.author == "helper"
    assert best.custom_metadata == {"session_id": "chat"}
    assert best.timestamp is not None
    assert best.timestamp.startswith("20")


async def test_memories_of_no_session_are_added_and_replaced(store: Store) -> None:
    memory = MemorandaMemoryService(store)
    await memory.add_memory(
        **WHOSE, memories=[entry("The boat is red.", id="boat", timestamp="2024-05-01T10:00:00+00:00")]
    )
    await memory.add_memory(**WHOSE, memories=[entry("The boat is blue.", id="boat"), entry("The car is green.")])

    assert (await found(memory, "Which colour has the boat?"))[0] == "The boat is blue."
    assert await store.count() == 2
    await memory.delete_memory(**WHOSE, memory_id="boat")
    assert "The boat is blue." not in await found(memory, "Which colour has the boat?")
    assert await store.count() == 1


async def test_a_deleted_memory_stays_in_its_session_and_is_not_added_again(store: Store, session: Session) -> None:
    memory = MemorandaMemoryService(store)
    await memory.add_session_to_memory(session)
    response = await memory.search_memory(**WHOSE, query="Is the flat in Oslo?")

    await memory.delete_memory(**WHOSE, memory_id=response.memories[0].id)
    await memory.delete_memory(**WHOSE, memory_id="none")
    await memory.add_session_to_memory(session)

    assert await found(memory) == ["The rent of the flat is due in May."]
    kept = await MemorandaSessionService(store).get_session(**CHAT)
    assert kept is not None
    assert len(kept.events) == 2


async def test_everything_a_user_said_anywhere_can_be_searched(store: Store, session: Session) -> None:
    elsewhere = MemoryMetadata(user_id="ada", session_id="elsewhere")
    await store.add(HumanMemory(content="The flat has a view.", metadata=elsewhere))
    memory = MemorandaMemoryService(store, everything=True)

    assert "The flat has a view." in await found(memory)
    assert "The flat is in Oslo." in await found(memory)
    assert await found(memory, app_name="other") == ["The flat has a view."]
    assert await found(memory, user_id="bob") == []


async def test_a_session_of_another_framework_can_be_added(store: Store) -> None:
    await store.add(
        HumanMemory(content="The flat has a view.", metadata=MemoryMetadata(user_id="ada", session_id="chat"))
    )
    session = await MemorandaSessionService(store).get_session(**CHAT)
    assert session is not None
    memory = MemorandaMemoryService(store)
    await memory.add_session_to_memory(session)

    assert await found(memory) == ["The flat has a view."]
    assert await store.count() == 1


async def test_deleting_reaches_nothing_but_the_memory_of_the_app(store: Store, session: Session) -> None:
    memory = MemorandaMemoryService(store)
    await memory.add_memory(app_name="other", user_id="ada", memories=[entry("The boat is red.", id="boat")])
    other = await memory.search_memory(app_name="other", user_id="ada", query="boat")
    note = HumanMemory(content="The boat is at sea.", metadata=MemoryMetadata(user_id="ada"))
    await store.add(note)

    for one in (note.id, other.memories[0].id, session.events[0].id):
        await memory.delete_memory(app_name="app", user_id="ada", memory_id=one)
    for whose in ({"app_name": "app", "user_id": "bob"}, {"app_name": "third", "user_id": "ada"}):
        await memory.delete_memory(**whose, memory_id=other.memories[0].id)

    assert await store.get(note.id) is not None
    assert await found(memory, "boat", app_name="other") == ["The boat is red."]


async def test_a_search_returns_what_matches_and_not_what_was_said_beside_it(store: Store) -> None:
    memory = MemorandaMemoryService(store)
    sessions = MemorandaSessionService(store)
    session = await sessions.create_session(**CHAT)
    await sessions.append_event(session, said("user", "The ADK Rocks."))
    await sessions.append_event(session, said("helper", "I am glad to hear it."))
    await memory.add_session_to_memory(session)

    assert await found(memory, "rocks") == ["The ADK Rocks."]
