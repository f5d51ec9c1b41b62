"""What adapters share beyond one conversation: options, reads by number of messages, scopes of state, sync callers."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

import pytest
from toy_framework import ToyFormat, ToyMessage

import memoranda.sync
from memoranda import HumanMemory
from memoranda.items import MemoryMetadata
from memoranda.store import Store
from memoranda_messages import from_openai
from memoranda_messages.sessions import ScopedState, Sessions, beside, replaced, seen_by, states_of, write_records
from memoranda_messages.sessions.sessions import APP, SESSION, USER

TOY = ToyFormat()


def said(text: str, role: str = "user") -> ToyMessage:
    return ToyMessage(role, [{"text": text}])


def calls(*names: str) -> list[ToyMessage]:
    asked = [{"call": {"id": name, "name": "look", "arguments": {}}} for name in names]
    return [ToyMessage("model", asked), ToyMessage("user", [{"result": {"id": name, "text": name}} for name in names])]


def test_a_wrong_option_is_refused_at_once() -> None:
    store = memoranda.open("memory://")
    wrong: Any = {"tll": 5}

    with pytest.raises(TypeError):
        Sessions(store, **wrong)
    with pytest.raises(ValueError, match="min_trust"):
        Sessions(store, min_trust="very")


async def test_a_copy_uses_the_same_store(store: Store) -> None:
    sessions = Sessions(store)

    await deepcopy({"held": sessions})["held"].stored("chat").append([HumanMemory(content="Hi")])

    assert len(await sessions.view("chat").read()) == 1


async def test_what_is_not_trusted_is_stored_and_not_shown(store: Store) -> None:
    sessions = Sessions(store, min_trust="user")
    await sessions.stored("chat").append([HumanMemory(content="trusted"), HumanMemory(content="odd", trust="tool")])

    assert [item.content for item in await sessions.view("chat").read()] == ["trusted"]
    assert [item.content for item in await sessions.stored("chat").read()] == ["trusted", "odd"]


async def test_a_read_notes_what_it_could_not_carry_over(store: Store) -> None:
    sessions = Sessions(store)
    conversation = sessions.view("chat", user_id="ada")
    await conversation.append(from_openai([{"role": "user", "content": "Hi", "name": "Ada"}]))

    ((message, items),) = sessions.messages(TOY, await conversation.read())

    assert message == said("Hi")
    assert [item.metadata.user_id for item in items] == ["ada"]
    assert [loss.what for loss in sessions.dropped] == ["name"]
    sessions.messages(TOY, [])
    assert sessions.dropped == []


@pytest.mark.parametrize("most", [None, 0, 1, 2, 3, 5, 99])
async def test_the_newest_messages_are_whole_whatever_their_number(store: Store, most: int | None) -> None:
    sessions = Sessions(store)
    conversation = sessions.view("chat")
    messages = [said("first"), *(each for turn in range(4) for each in calls(*(f"{turn}.{n}" for n in range(9))))]
    for message in messages:
        await conversation.append(TOY.items([message]))

    found = await sessions.newest(conversation, TOY, most, agent="app")

    assert [message for message, _ in found] == messages[len(messages) - most if most in (0, 1, 2, 3, 5) else 0 :]
    assert sessions.dropped == []


async def test_of_the_newest_those_are_returned_that_are_wanted(store: Store) -> None:
    sessions = Sessions(store)
    conversation = sessions.view("chat")
    await conversation.append(TOY.items([said(str(number)) for number in range(50)]))

    found = await sessions.newest(
        conversation, TOY, 2, agent="app", wanted=lambda message: message.pieces[0]["text"].endswith("3")
    )

    assert [message.pieces[0]["text"] for message, _ in found] == ["33", "43"]


async def test_an_app_sees_all_but_what_other_apps_of_its_framework_said(store: Store) -> None:
    for app in ("shop", "other"):
        await store.add_many(TOY.items([said(app)], metadata=MemoryMetadata(session_id="chat", agent_id=app)))
    await store.add_many(from_openai([{"role": "user", "content": "elsewhere"}]))
    items = (await store.search(order="added"))[::-1]

    assert [item.content for item in seen_by("shop", items, TOY.name)] == ["shop", "elsewhere"]


async def test_items_are_replaced_in_their_place(store: Store) -> None:
    conversation = Sessions(store).stored("chat")
    items = TOY.items([said("one"), said("two"), said("three")])
    await conversation.append(items)

    await replaced(conversation.items, [items[0].id], [items[1].model_copy(update={"content": "2"})])

    assert [item.content for item in await conversation.read()] == ["2", "three"]
    assert await store.count(include_deleted=True) == 2


async def test_a_session_shares_state_with_its_user_and_its_app(store: Store) -> None:
    async def change(whose: str, chat: str, **values: Any) -> ScopedState:
        state = ScopedState(store, "toy", "shop", whose, chat)
        changes = {scope: values.get(scope, {}) for scope in (SESSION, USER, APP)}
        records, after = state.changed(await state.read(), changes, {"turns": 1}, None)
        await write_records(store, records)
        assert (await state.read()).values(SESSION) == after.values(SESSION)
        return state

    await change("ada", "one", session={"step": 1}, user={"name": "Ada"}, app={"open": True})
    second = await (await change("ada", "two")).read()
    other = await (await change("bob", "one")).read()

    assert [second.values(scope) for scope in (SESSION, USER, APP)] == [{}, {"name": "Ada"}, {"open": True}]
    assert [other.values(scope) for scope in (SESSION, USER, APP)] == [{}, {}, {"open": True}]
    assert second.session is not None
    assert second.session.value == {"state": {}, "id": "two", "turns": 1, "user_id": "ada"}
    found = await states_of(store, "toy", "shop", "ada")
    assert [each.session.value["id"] for each in found if each.session] == ["two", "one"]
    assert len(await states_of(store, "toy", "shop", None)) == 3
    assert len(await states_of(store, "toy", "shop", None, limit=2, offset=2)) == 1


def test_a_sync_caller_gets_a_result_within_a_loop_and_without() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    async def within() -> str:
        return beside(work())

    assert beside(work()) == "done"
    assert asyncio.run(within()) == "done"
