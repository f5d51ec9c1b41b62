"""A session keeps what the SDK gives it, in order and to the last key, and takes it out once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents.memory import Session, SessionSettings

from memoranda import AIMemory, HumanMemory, MemoryItem, ToolMemory
from memoranda.errors import MemoryError
from memoranda.items import SummaryMemory
from memoranda.store import Store
from memoranda_messages import to_responses
from memoranda_openai_agents import MemorandaSession
from memoranda_openai_agents.sdk_items import sdk_items

REASONING = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "b64=="}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": '{"at": "sky"}'}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "blue"}
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "It is blue.", "annotations": [], "logprobs": []}],
}


def said(*texts: str) -> list[Any]:
    return [{"role": "user", "content": text} for text in texts]


def test_it_is_a_session_of_the_sdk() -> None:
    from memoranda.store import InMemoryStore

    assert isinstance(MemorandaSession("chat", InMemoryStore()), Session)


async def test_items_come_back_as_they_were_and_in_order(store: Store) -> None:
    session = MemorandaSession("chat", store)
    turn: list[Any] = [
        *said("What colour is the sky?"),
        REASONING,
        CALL,
        RESULT,
        ANSWER,
        {"type": "of tomorrow", "made": {"up": [1, 2.5, None, True, "\x00", "\ud800", {}]}},
        {"no": "type"},
        {},
    ]

    await session.add_items(turn)

    assert await session.get_items() == turn


PLAIN: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What colour is the sky?"},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": "sky"}'},
    {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{"},
    {"type": "function_call_output", "call_id": "c1", "output": "blue"},
    {"type": "function_call_output", "call_id": "c2", "output": ""},
    {"role": "assistant", "content": "It is blue."},
]
NOT_PLAIN: list[Any] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "assistant", "content": ""},
    {"type": "message", "role": "user", "content": "typed"},
    {"role": "user", "content": [{"type": "input_text", "text": "in a list"}]},
    {"type": "function_call", "call_id": "c" * 65, "name": "look", "arguments": "{}"},
    {"type": "function_call", "call_id": "c", "name": "a name?", "arguments": "{}"},
]


async def test_what_the_fields_say_as_it_stands_is_stored_once(store: Store) -> None:
    session = MemorandaSession("chat", store)
    await session.add_items([*PLAIN, *NOT_PLAIN])

    found = await store.search(mode="substring", order="added", limit=99)

    assert [item.payload is None for item in reversed(found)] == [True] * len(PLAIN) + [False] * len(NOT_PLAIN)
    assert await session.get_items() == [*PLAIN, *NOT_PLAIN]
    assert await session.get_items(limit=7) == [PLAIN[-1], *NOT_PLAIN]


async def test_a_plain_message_that_was_edited_comes_back_edited_and_alone(store: Store) -> None:
    session = MemorandaSession("chat", store)
    await session.add_items([*PLAIN, *NOT_PLAIN])
    (asked,) = await store.search(query="What colour", mode="substring")

    asked.content = "What colour is the sea?"
    await store.update(asked)

    assert await session.get_items() == [PLAIN[0], {"role": "user", "content": asked.content}, *PLAIN[2:], *NOT_PLAIN]


@pytest.mark.parametrize(
    "item",
    [
        MemoryItem(content="hi"),
        HumanMemory(content="hi", name="Ada"),
        HumanMemory.model_validate({"content": "hi", "provider_parts": ["web_search_call"]}),
        SummaryMemory(content="hi"),
        ToolMemory(content="hi"),
        ToolMemory(content="hi", tool_call_id="c1", is_error=True),
        ToolMemory(content="hi", tool_call_id="c1", also_answers=["c2"]),
        AIMemory(content="hi", tool_calls=[{"id": "c1", "name": "look", "arguments": "{}"}]),
        AIMemory(content="", tool_calls=[{"id": "c1", "name": 5, "arguments": "{}"}]),
        AIMemory(content="", tool_calls=[{"id": "c1", "function": {"name": "look", "arguments": "{}"}}]),
        AIMemory(content="", tool_calls=[{"id": "c1", "name": "look", "arguments": "{}"}] * 2),
    ],
    ids=range(11),
)
def test_an_item_that_says_more_than_a_plain_message_is_converted(item: MemoryItem) -> None:
    item.payload_format = "responses"

    assert sdk_items([item]) == to_responses([item])


async def test_a_limit_counts_items_and_takes_the_newest(store: Store) -> None:
    session = MemorandaSession("chat", store)
    await session.add_items([*said("What colour is the sky?"), REASONING, CALL, RESULT, ANSWER])  # type: ignore[list-item]

    assert await session.get_items(limit=2) == [RESULT, ANSWER]
    assert await session.get_items(limit=0) == []
    assert len(await session.get_items(limit=99)) == 5


async def test_the_limit_of_the_settings_holds_where_none_is_named(store: Store) -> None:
    session = MemorandaSession("chat", store, session_settings=SessionSettings(limit=2))
    await session.add_items(said("one", "two", "three"))

    assert await session.get_items() == said("two", "three")
    assert await session.get_items(limit=1) == said("three")
    assert session.session_settings == SessionSettings(limit=2)


async def test_items_of_one_moment_keep_the_order_of_their_adding(store: Store) -> None:
    session = MemorandaSession("chat", store)
    texts = [str(number) for number in range(30)]
    for text in texts:
        await session.add_items(said(text))

    assert await session.get_items() == said(*texts)
    assert await session.get_items(limit=7) == said(*texts[-7:])


async def test_nothing_is_left_of_what_was_popped_or_cleared(store: Store) -> None:
    session = MemorandaSession("chat", store)
    await session.add_items(said("one", "two"))

    assert await session.pop_item() == said("two")[0]
    assert await store.count(include_deleted=True) == 1
    await session.clear_session()
    assert await store.count(include_deleted=True) == 0
    assert await session.pop_item() is None


async def test_each_item_is_popped_once_however_many_ask(store: Store) -> None:
    texts = [str(number) for number in range(24)]
    await MemorandaSession("chat", store).add_items(said(*texts))

    async def take() -> list[Any]:
        session, found = MemorandaSession("chat", store), []
        while (item := await session.pop_item()) is not None:
            found.append(item["content"])  # type: ignore[typeddict-item]
        return found

    taken = await asyncio.gather(*(take() for _ in range(6)))

    assert sorted(text for texts in taken for text in texts) == sorted(texts)


async def test_items_added_at_once_are_not_mixed(store: Store) -> None:
    async def speak(who: int) -> None:
        await MemorandaSession("chat", store).add_items(said(*(f"{who}.{number}" for number in range(5))))

    await asyncio.gather(*(speak(who) for who in range(8)))

    texts = [item["content"] for item in await MemorandaSession("chat", store).get_items()]  # type: ignore[typeddict-item]
    turns = [[text.split(".") for text in texts[at : at + 5]] for at in range(0, 40, 5)]
    assert all([who for who, _ in turn] == [turn[0][0]] * 5 for turn in turns)
    assert all([number for _, number in turn] == ["0", "1", "2", "3", "4"] for turn in turns)


async def test_what_cannot_be_stored_is_refused_with_all_that_came_along(store: Store) -> None:
    session = MemorandaSession("chat", store)

    with pytest.raises(MemoryError):
        await session.add_items([*said("fine"), {"role": "user", "content": object()}])  # type: ignore[list-item]

    assert await session.get_items() == []


@pytest.mark.parametrize("steps", range(0, 12, 2))
async def test_who_cancels_finds_all_of_a_batch_or_nothing(store: Store, steps: int) -> None:
    session = MemorandaSession("chat", store)
    adding = asyncio.create_task(session.add_items(said("one", "two", "three")))
    for _ in range(steps):
        await asyncio.sleep(0)
    was_done = adding.done()
    adding.cancel()
    if was_done:
        await adding
    else:
        with pytest.raises(asyncio.CancelledError):
            await adding

    found = await session.get_items()

    assert found in ([], said("one", "two", "three"))
    await asyncio.sleep(0.01)
    assert await session.get_items() == found


async def test_items_end_with_their_time_to_live(store: Store) -> None:
    session = MemorandaSession("chat", store, ttl=60)
    await session.add_items(said("soon gone"))
    assert await session.get_items() == said("soon gone")

    present = store.clock
    store.clock = lambda: present() + 61  # type: ignore[operator,assignment,return-value]

    assert await session.get_items() == []


async def test_what_others_added_to_the_session_is_shown_in_the_sdks_words(store: Store) -> None:
    session = MemorandaSession("chat", store)
    await session.add_items(said("one"))
    await store.scoped(session_id="chat").add(HumanMemory(content="two"))

    found = [dict(item) for item in await session.get_items()]

    assert [(item["role"], item["content"]) for item in found] == [("user", "one"), ("user", "two")]


async def test_an_item_that_was_changed_since_is_shown_as_it_is_now(store: Store) -> None:
    session = MemorandaSession("chat", store)
    await session.add_items(said("I live in Oslo."))
    (item,) = await store.search(mode="substring")
    item.content = "I live in …"
    await store.update(item)

    (found,) = [dict(item) for item in await session.get_items()]

    assert found["content"] == "I live in …"


async def test_what_was_said_can_be_searched_like_any_memory(store: Store) -> None:
    ada = store.scoped(user_id="ada")
    await MemorandaSession("chat", ada).add_items([*said("My flat is in Oslo."), ANSWER])  # type: ignore[list-item]

    assert [item.content for item in await ada.search(query="oslo")] == ["My flat is in Oslo."]


async def test_a_closed_store_is_said_to_be_closed() -> None:
    from memoranda.store import InMemoryStore

    store = InMemoryStore()
    session = MemorandaSession("chat", store)
    await store.close()

    with pytest.raises(RuntimeError):
        await session.add_items([])
    with pytest.raises(RuntimeError):
        await session.get_items()


def test_no_word_of_the_conversation_is_in_its_repr() -> None:
    from memoranda.store import InMemoryStore

    assert repr(MemorandaSession("chat", InMemoryStore().scoped(user_id="ada"))).startswith("MemorandaSession('chat'")
