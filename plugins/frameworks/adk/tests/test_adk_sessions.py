"""Sessions of ADK on every engine: what its own tests of session services do not ask, and the most important of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from adk_events import CHAT, WHOSE, answered, call, changed, conversation, result, said, texts
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session

from memoranda import MemoryMetadata
from memoranda.store import InMemoryStore, Store
from memoranda_adk import MemorandaSessionService


async def loaded(service: MemorandaSessionService, **config: Any) -> Session:
    """Return the session of these tests."""
    found = await service.get_session(**CHAT, config=GetSessionConfig(**config))
    assert found is not None
    return found


async def test_a_session_comes_back_equal_with_its_events_and_state(store: Store) -> None:
    service = MemorandaSessionService(store)
    session = await service.create_session(**CHAT, state={"plain": 1, "user:name": "Ada", "app:mood": "calm"})
    for event in [*conversation(), changed(plain=2, user__name=None, app__mood={"now": "busy"}, temp__note="gone")]:
        await service.append_event(session, event)

    found = await loaded(service)

    assert found.events == session.events
    assert found.state == {"plain": 2, "user:name": None, "app:mood": {"now": "busy"}}
    assert session.state == {**found.state, "temp:note": "gone"}
    assert found.last_update_time == session.last_update_time
    assert found.model_copy(update={"state": session.state}) == session


async def test_state_is_shared_by_scope(store: Store) -> None:
    service = MemorandaSessionService(store)
    session = await service.create_session(**CHAT, state={"own": 1})
    await service.append_event(session, changed(user__name="Ada", app__mood="calm"))

    same_user = await service.create_session(**WHOSE)
    other_user = await service.create_session(app_name="app", user_id="bob")
    other_app = await service.create_session(app_name="other", user_id="ada")

    assert same_user.state == {"user:name": "Ada", "app:mood": "calm"}
    assert other_user.state == {"app:mood": "calm"}
    assert other_app.state == {}
    assert await service.get_user_state(**WHOSE) == {"name": "Ada"}
    assert await service.get_user_state(app_name="app", user_id="bob") == {}


async def test_the_newest_events_are_whole_whatever_the_limit(store: Store) -> None:
    service = MemorandaSessionService(store)
    session = await service.create_session(**CHAT)
    for turn in range(10):
        answers = [result(f"{turn}.{number}", result="ok") for number in range(8)]
        await service.append_event(session, said("helper", *(call(f"{turn}.{number}") for number in range(8))))
        await service.append_event(session, answered(*answers))

    for most in (0, 1, 2, 3, 7, 20, 99):
        found = await loaded(service, num_recent_events=most)
        assert found.events == session.events[max(20 - most, 0) :]
        assert service.dropped == []


async def test_events_from_a_time_on_and_of_these_the_newest(store: Store) -> None:
    service = MemorandaSessionService(store)
    session = await service.create_session(**CHAT)
    for second in range(6):
        await service.append_event(session, said("user", str(second), timestamp=1_000.0 + second))

    assert texts((await loaded(service, after_timestamp=1_003.0)).events) == ["3", "4", "5"]
    assert texts((await loaded(service, after_timestamp=1_003.0, num_recent_events=2)).events) == ["4", "5"]
    assert texts((await loaded(service, after_timestamp=1e300)).events) == []
    assert len((await loaded(service, after_timestamp=-1e300)).events) == 6


async def test_events_without_content_have_their_own_time(store: Store) -> None:
    service = MemorandaSessionService(store)
    session = await service.create_session(**CHAT)
    for second in range(4):
        event = changed(second=second)
        event.timestamp = 1_000.0 + second
        await service.append_event(session, event)

    found = await loaded(service, after_timestamp=1_002.0)

    assert [event.timestamp for event in found.events] == [1_002.0, 1_003.0]
    assert found.events == session.events[2:]
    items = [item async for item in store.scan(metadata=MemoryMetadata(session_id="chat"))]
    assert next(item.created_at[:19] for item in items if item.memory_type == "item") == "1970-01-01T00:16:40"


async def test_sessions_are_listed_in_pages_the_last_active_one_last(store: Store) -> None:
    service = MemorandaSessionService(store)
    for number in range(5):
        session = await service.create_session(**WHOSE, session_id=str(number), state={"number": number})
        await service.append_event(session, said("user", "hi", timestamp=1_000.0 - number))
    await service.create_session(app_name="app", user_id="bob", session_id="b")
    await service.create_session(app_name="other", user_id="ada", session_id="o")

    async def listed(**page: Any) -> list[str]:
        return [each.id for each in (await service.list_sessions(**WHOSE, **page)).sessions]

    assert await listed() == ["4", "3", "2", "1", "0"]
    assert await listed(limit=2) == ["1", "0"]
    assert await listed(limit=2, offset=2) == ["3", "2"]
    everyone = (await service.list_sessions(app_name="app")).sessions
    assert [each.id for each in everyone] == ["4", "3", "2", "1", "0", "b"]
    assert [each.state.get("number") for each in everyone] == [4, 3, 2, 1, 0, None]
    assert all(each.events == [] for each in everyone)


async def test_a_deleted_session_leaves_nothing_but_shared_state(store: Store) -> None:
    service = MemorandaSessionService(store)
    session = await service.create_session(**CHAT, state={"user:name": "Ada"})
    twin = await service.create_session(app_name="other", user_id="ada", session_id="chat")
    for event in conversation():
        await service.append_event(session, event)
        await service.append_event(twin, event.model_copy(deep=True))

    await service.delete_session(**CHAT)

    assert await service.get_session(**CHAT) is None
    assert await service.get_user_state(**WHOSE) == {"name": "Ada"}
    left = [item async for item in store.scan(metadata=MemoryMetadata(session_id="chat", agent_id="app"))]
    assert left == []
    kept = await service.get_session(app_name="other", user_id="ada", session_id="chat")
    assert kept is not None
    assert len(kept.events) == 4
    with pytest.raises(SessionNotFoundError):
        await service.append_event(session, said("user", "Are you there?"))
    assert (await service.create_session(**CHAT)).events == []


async def test_a_stale_session_is_refused_and_changes_nothing(store: Store) -> None:
    service = MemorandaSessionService(store)
    session = await service.create_session(**CHAT)
    stale = await loaded(service)
    await service.append_event(session, said("user", "first"))

    with pytest.raises(StaleSessionError, match="modified in storage"):
        await service.append_event(stale, changed(lost=1))

    assert stale.events == []
    found = await loaded(service)
    assert (texts(found.events), found.state) == (["first"], {})
    await service.append_event(found, said("user", "second"))
    assert texts((await loaded(service)).events) == ["first", "second"]


async def test_a_session_that_came_as_json_is_stale_only_if_it_has_gone_on(store: Store) -> None:
    service = MemorandaSessionService(store)
    session = await service.create_session(**CHAT)
    await service.append_event(session, said("user", "first"))
    copy = Session.model_validate_json(session.model_dump_json())
    old = copy.model_copy(deep=True)

    await service.append_event(copy, said("user", "second"))
    with pytest.raises(StaleSessionError):
        await service.append_event(old, said("user", "third"))

    assert texts((await loaded(service)).events) == ["first", "second"]


async def test_of_many_appends_to_one_session_at_once_one_is_taken(store: Store) -> None:
    service = MemorandaSessionService(store)
    await service.create_session(**CHAT)
    copies = [await loaded(service) for _ in range(5)]
    appends = [service.append_event(each, said("user", str(number))) for number, each in enumerate(copies)]

    outcomes = await asyncio.gather(*appends, return_exceptions=True)

    taken = [str(number) for number, outcome in enumerate(outcomes) if isinstance(outcome, Event)]
    assert len(taken) == 1
    assert sum(isinstance(outcome, StaleSessionError) for outcome in outcomes) == 4
    assert texts((await loaded(service)).events) == taken


async def test_sessions_that_change_the_state_of_their_app_at_once_lose_nothing(store: Store) -> None:
    service = MemorandaSessionService(store)
    sessions = [await service.create_session(app_name="app", user_id=str(number)) for number in range(8)]

    await asyncio.gather(
        *(service.append_event(each, changed(**{f"app__{number}": number})) for number, each in enumerate(sessions))
    )

    shared = (await service.create_session(app_name="app", user_id="new")).state
    assert shared == {f"app:{number}": number for number in range(8)}


async def test_an_event_that_is_delivered_again_is_stored_once(store: Store) -> None:
    service = MemorandaSessionService(store)
    session = await service.create_session(**CHAT)
    for event in (said("user", "hi"), changed(count=1)):
        await service.append_event(session, event)
        await service.append_event(session, event)
        await service.append_event(session, event.model_copy(deep=True))

    assert len(session.events) == 2
    assert (await loaded(service)).events == session.events


async def test_different_events_with_one_id_are_both_stored(store: Store) -> None:
    service = MemorandaSessionService(store)
    session = await service.create_session(**CHAT)
    await service.append_event(session, said("user", "one", id="same"))
    await service.append_event(session, said("user", "two", id="same"))

    assert texts((await loaded(service)).events) == ["one", "two"]


async def test_a_cancelled_append_has_happened_in_store_and_session_or_in_neither(store: Store) -> None:
    service = MemorandaSessionService(store)
    session = await service.create_session(**CHAT)
    for number in range(20):
        task = asyncio.ensure_future(service.append_event(session, said("user", str(number))))
        for _ in range(number % 7):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})

        assert (await loaded(service)).events == session.events

    await service.append_event(session, said("user", "last"))
    assert texts((await loaded(service)).events)[-1] == "last"


async def test_partial_events_are_not_stored(store: Store) -> None:
    service = MemorandaSessionService(store)
    session = await service.create_session(**CHAT)
    await service.append_event(session, said("helper", "No", partial=True))

    assert session.events == (await loaded(service)).events == []


async def test_ids_are_stripped_and_given_out(store: Store) -> None:
    service = MemorandaSessionService(store)
    assert (await service.create_session(**WHOSE, session_id=" chat\n")).id == "chat"
    with pytest.raises(AlreadyExistsError):
        await service.create_session(**CHAT)
    assert (await service.create_session(**WHOSE, session_id="  ")).id.strip()


async def test_what_json_cannot_hold_is_stored_as_its_text(store: Store) -> None:
    service = MemorandaSessionService(store)
    session = await service.create_session(**CHAT)
    await service.append_event(session, changed(callback=print, ok=2, when={"nan": float("inf")}, nul="a\0b\ud800"))

    state = (await loaded(service)).state
    assert isinstance(state["callback"], str)
    assert (state["ok"], state["when"], state["nul"]) == (2, {"nan": float("inf")}, "a\0b\ud800")


async def test_handles_keep_users_and_tenants_apart() -> None:
    store = InMemoryStore()
    first = MemorandaSessionService(store.scoped(namespace=("tenants", "first")))
    second = MemorandaSessionService(store.scoped(namespace=("tenants", "second")))
    session = await first.create_session(**CHAT, state={"user:name": "Ada"})
    await first.append_event(session, said("user", "hi"))

    assert await second.get_session(**CHAT) is None
    assert (await second.create_session(**CHAT)).state == {}
    assert len((await first.list_sessions(app_name="app")).sessions) == 1
    assert (await loaded(first)).events == session.events


async def test_forgetting_a_user_leaves_no_session_and_no_state(store: Store) -> None:
    service = MemorandaSessionService(store)
    session = await service.create_session(**CHAT, state={"user:name": "Ada", "app:mood": "calm"})
    await service.append_event(session, said("user", "hi"))

    await store.purge(metadata=MemoryMetadata(user_id="ada"))

    assert await service.get_session(**CHAT) is None
    assert await service.get_user_state(**WHOSE) == {}
    assert (await service.create_session(app_name="app", user_id="bob")).state == {"app:mood": "calm"}


async def test_windows_and_searches_show_what_was_said_and_no_records(store: Store) -> None:
    service = MemorandaSessionService(store)
    session = await service.create_session(**CHAT, state={"secret": "cat", "user:secret": "cat"})
    for event in conversation():
        await service.append_event(session, event)

    found = await store.search(query="cat", mode="substring", limit=99)
    shown = await store.window(metadata=MemoryMetadata(user_id="ada", session_id="chat"))

    assert sorted(item.memory_type for item in found) == ["ai", "tool"]
    assert [item.memory_type for item in shown] == ["human", "ai", "tool", "tool", "ai"]
