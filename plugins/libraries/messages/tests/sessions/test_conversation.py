"""A conversation keeps its order with several writers, and shows a model only what is whole."""

from __future__ import annotations

import asyncio
import math
import sys
from typing import Any

import pytest

import memoranda
from memoranda import AIMemory, HumanMemory, ToolMemory
from memoranda.errors import InputError, TurnConflictError, VersionConflictError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Store
from memoranda_messages.sessions import Conversation, Records, finished, retry_conflicts


def said(*texts: str) -> list[MemoryItem]:
    return [HumanMemory(content=text) for text in texts]


def calling(*ids: str) -> AIMemory:
    return AIMemory(content="", tool_calls=[{"id": each, "name": "look", "arguments": {}} for each in ids])


def answering(call_id: str) -> ToolMemory:
    return ToolMemory(content=f"answer to {call_id}", tool_call_id=call_id, tool_name="look")


def texts(items: list[MemoryItem]) -> list[str]:
    return [item.content for item in items]


async def test_items_come_in_the_order_of_adding(store: Store) -> None:
    conversation = Conversation(store, "s", user_id="ada", app="shop")
    for number in range(5):
        await conversation.append(said(f"{number}a", f"{number}b"))

    items = await conversation.read()

    assert texts(items) == [f"{number}{letter}" for number in range(5) for letter in "ab"]
    assert items[0].metadata == MemoryMetadata(user_id="ada", session_id="s", agent_id="shop")
    assert texts(await conversation.read(3)) == ["3b", "4a", "4b"]
    assert await conversation.read(0) == []
    assert len(await conversation.read(-1)) == 10


async def test_since_leaves_out_what_is_older(store: Store) -> None:
    conversation = Conversation(store, "s")
    old = HumanMemory(content="old", created_at="2020-01-01T00:00:00+00:00")
    await conversation.append([old, *said("new")])

    assert texts(await conversation.read(since="2021-01-01T00:00:00+00:00")) == ["new"]
    assert texts(await conversation.read(1, since="2019-01-01T00:00:00+00:00")) == ["new"]


async def test_sessions_users_and_apps_never_meet(store: Store) -> None:
    owners: list[dict[str, Any]] = [{"user_id": "ada"}, {"user_id": "bob"}, {"user_id": "ada", "app": "shop"}]
    for owner in owners[1:]:
        await Conversation(store, "s", **owner).append(said(str(owner)))

    assert texts(await Conversation(store, "s", **owners[1]).read()) == [str(owners[1])]
    assert texts(await Conversation(store, "s", **owners[2]).read()) == [str(owners[2])]
    assert await Conversation(store, "other", user_id="ada").read() == []
    with pytest.raises(InputError):
        Conversation(store.scoped(user_id="ada"), "s", user_id="bob")


async def test_an_append_that_names_its_head_is_refused_if_the_head_moved(store: Store) -> None:
    conversation = Conversation(store, "s", user_id="ada")
    assert await conversation.head() is None
    await conversation.append(said("one"), after=None)
    head = await conversation.head()
    await conversation.append(said("two"))

    with pytest.raises(TurnConflictError):
        await conversation.append(said("late"), after=head)
    with pytest.raises(TurnConflictError):
        await conversation.append(said("late"), after=None)

    assert texts(await conversation.read()) == ["one", "two"]


async def test_a_refused_append_can_be_tried_again(store: Store) -> None:
    conversation = Conversation(store, "s", user_id="ada")

    async def count_up() -> None:
        items = await conversation.read()
        await conversation.append(said(str(len(items) + 1)), after=items[-1].id if items else None)

    await asyncio.gather(*[retry_conflicts(count_up) for _ in range(8)])

    assert texts(await conversation.read()) == [str(number) for number in range(1, 9)]


async def test_a_half_written_turn_is_read_to_resume_and_never_shown(store: Store) -> None:
    conversation = Conversation(store, "s")
    await conversation.append(said("Hi"))
    await conversation.append([calling("c1", "c2"), answering("c1")])

    assert len(await conversation.read()) == 3
    assert texts(await conversation.shown()) == ["Hi"]

    await conversation.append([*said("Are you there?"), answering("c2")])

    assert texts(await conversation.shown()) == ["Hi", "", "answer to c1", "answer to c2", "Are you there?"]
    assert texts(await conversation.read())[-1] == "answer to c2"


async def test_a_limit_never_shows_half_of_a_group(store: Store) -> None:
    conversation = Conversation(store, "s")
    await conversation.append([*said("Hi"), calling("c1"), answering("c1"), AIMemory(content="Bye")])

    assert [texts(await conversation.shown(limit)) for limit in range(5)] == [
        [],
        ["Bye"],
        ["Bye"],
        ["", "answer to c1", "Bye"],
        ["Hi", "", "answer to c1", "Bye"],
    ]
    assert [len(await conversation.read(limit)) for limit in range(5)] == [0, 1, 2, 3, 4]


async def test_messages_and_records_are_written_all_or_none(store: Store) -> None:
    handle = store.scoped(user_id="ada")
    conversation, records = Conversation(handle, "s"), Records(handle, "toy")
    await conversation.append(said("one"), records=[records.item("state", "s", {"count": 1})])

    with pytest.raises(VersionConflictError):
        await conversation.append(said("two"), records=[records.item("state", "s", {"count": 2})])
    stored = await records.get("state", "s")
    assert stored is not None
    assert stored.value == {"count": 1}
    await conversation.append(said("two"), records=[records.item("state", "s", {"count": 2}, version=stored.version)])

    assert texts(await conversation.read()) == ["one", "two"]
    with pytest.raises(TurnConflictError):
        await conversation.append([], records=[records.item("state", "new", {})], after=None)
    assert await records.get("state", "new") is None


async def test_pop_replace_and_clear_leave_records_and_other_sessions(store: Store) -> None:
    handle = store.scoped(user_id="ada")
    conversation, records = Conversation(handle, "s"), Records(handle, "toy")
    await records.put("state", "s", [1])
    await Conversation(handle, "other").append(said("stays"))
    await conversation.append(said("one", "two"))

    popped = await conversation.pop()
    await conversation.replace([*said("three"), *await conversation.read()])

    assert popped is not None
    assert popped.content == "two"
    assert sorted(texts(await conversation.read())) == ["one", "three"]
    await conversation.clear()
    assert await conversation.read() == []
    assert await conversation.pop() is None
    assert texts(await Conversation(handle, "other").read()) == ["stays"]
    assert await records.get("state", "s") is not None


@pytest.mark.parametrize("between", [0, 200])
async def test_the_rest_of_a_popped_group_stays_wherever_it_stands(store: Store, between: int) -> None:
    conversation = Conversation(store, "s")
    chat = said(*map(str, range(between)))
    await conversation.append([calling("a", "b"), answering("a"), *chat, answering("b")])

    popped = await conversation.pop()

    assert popped is not None
    assert popped.content == "answer to b"
    assert [item.content for item in await conversation.read()][:2] == ["", "answer to a"]
    assert all(item.group_size is None for item in await conversation.read())


async def test_a_cancelled_write_has_finished_or_failed(store: Store) -> None:
    conversation = Conversation(store, "s")
    tasks = [asyncio.ensure_future(conversation.append(said(str(number)))) for number in range(20)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    at_once = len(await conversation.read())

    await asyncio.sleep(0.05)

    assert any(isinstance(each, asyncio.CancelledError) for each in ended)
    assert len(await conversation.read()) == at_once


async def test_a_cancelled_caller_gets_the_cancellation_once_the_change_is_done() -> None:
    done: list[str] = []

    async def change(error: Exception | None) -> None:
        await asyncio.sleep(0.02)
        done.append("changed")
        if error:
            raise error

    for error in (None, ValueError("wrong")):
        task = asyncio.ensure_future(finished(change(error)))
        await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert done == ["changed", "changed"]
    with pytest.raises(ValueError, match="wrong"):
        await finished(change(ValueError("wrong")))


async def test_retrying_ends_with_the_error() -> None:
    calls = []

    async def never() -> None:
        calls.append(1)
        raise VersionConflictError("x", 0, 1)

    with pytest.raises(VersionConflictError):
        await retry_conflicts(never, attempts=3)
    assert len(calls) == 3


async def test_a_group_is_shown_until_the_first_of_it_expires(store: Store) -> None:
    conversation = Conversation(store, "s", ttl=1000)
    await conversation.append([*said("Hi"), calling("c1"), answering("c1")])
    items = await conversation.read()
    await store.touch([items[1].id], ttl=0.001)
    await store.touch([items[0].id], ttl=math.inf)
    await asyncio.sleep(0.01)

    assert texts(await conversation.read()) == ["Hi"]
    assert texts(await conversation.shown(3)) == ["Hi"]


async def test_what_is_trusted_too_little_is_left_out_with_its_call(store: Store) -> None:
    await Conversation(store, "s").append([*said("Hi"), calling("c1"), answering("c1")])

    assert texts(await Conversation(store, "s", min_trust="user").read()) == ["Hi"]
    with pytest.raises(InputError):
        Conversation(store, "s", min_trust="everyone")


WRITER = """
import asyncio, sys
import memoranda
from memoranda import HumanMemory
from memoranda_messages.sessions import Conversation, retry_conflicts

async def main(url, name):
    async with memoranda.open(url) as store:
        conversation = Conversation(store, "s", user_id="ada")
        async def turn(number):
            head = await conversation.head()
            pair = [HumanMemory(content=f"{name} {number} {half}") for half in (1, 2)]
            await conversation.append(pair, after=head)
        for number in range(10):
            await retry_conflicts(lambda: turn(number))

asyncio.run(main(*sys.argv[1:]))
"""


async def test_two_processes_write_to_one_session_and_no_turn_is_torn(lasting_url: str) -> None:
    async with memoranda.open(lasting_url) as store:
        conversation = Conversation(store, "s", user_id="ada")
        await conversation.append(said("start"))
        writers = [
            await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, lasting_url, name) for name in "ab"
        ]
        assert [await writer.wait() for writer in writers] == [0, 0]

        found = texts(await conversation.read())[1:]

    pairs = [(first[:-2], second[:-2]) for first, second in zip(found[::2], found[1::2], strict=True)]
    assert len(found) == 40
    assert all(first == second for first, second in pairs)
    for name in "ab":
        assert [turn for turn, _ in pairs if turn[0] == name] == [f"{name} {number}" for number in range(10)]
