"""LangChain's chat history on memoranda's stores."""

from __future__ import annotations

import asyncio
import base64
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory

from memoranda import AIMemory, HumanMemory, ToolMemory
from memoranda.store import Store
from memoranda.sync import SyncStore
from memoranda_langchain import MemorandaChatMessageHistory
from memoranda_messages import Dropped, from_anthropic, from_openai, to_anthropic, to_openai
from memoranda_messages.sessions import SyncCallError, parts_of

PNG = base64.b64encode(b"\x89PNG" + bytes(90)).decode()
CALLS: list[Any] = [
    {"name": "weather", "args": {"city": "Oslo"}, "id": "a", "type": "tool_call"},
    {"name": "weather", "args": {"city": "Rome"}, "id": "b", "type": "tool_call"},
]


class Dream(BaseMessage):
    """A kind of message that LangChain does not know."""

    type: str = "dream"
    depth: int = 0


MESSAGES: dict[str, BaseMessage] = {
    "text": HumanMessage("My flat is in Oslo."),
    "text with all that goes with it": HumanMessage(
        "Hi", name="Ada Lovelace", id="m1", additional_kwargs={"k": [1, None]}, response_metadata={"a": 1.5}
    ),
    "text with NUL and half a character": HumanMessage("a\0b \ud800"),
    "image by url": HumanMessage([{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]),
    "image as data": HumanMessage([{"type": "image", "base64": PNG, "mime_type": "image/png"}]),
    "texts and an image": HumanMessage(["a", {"type": "text", "text": "b"}, {"type": "image", "url": "https://e.org"}]),
    "file of a provider": HumanMessage(
        [{"type": "file", "file_id": "f1"}, {"type": "file", "file": {"file_id": "f2"}}]
    ),
    "plain file": HumanMessage([{"type": "text-plain", "text": "x", "mime_type": "text/plain"}]),
    "role of one's own": ChatMessage(content="I object.", role="critic"),
    "system": SystemMessage("Be brief."),
    "answer": AIMessage("Noted.", usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
    "calls": AIMessage("", tool_calls=CALLS),
    "call without an id": AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": None}]),
    "call that is no JSON": AIMessage(
        "", invalid_tool_calls=[{"name": "f", "args": "{", "id": "x", "error": "no", "type": "invalid_tool_call"}]
    ),
    "reasoning": AIMessage(
        [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "Yes."}],
        response_metadata={"model_provider": "anthropic"},
    ),
    "old call": AIMessage("", additional_kwargs={"function_call": {"name": "f", "arguments": "{}"}}),
    "chunk": AIMessageChunk(content="No"),
    "result": ToolMessage("snow", tool_call_id="a", name="weather", artifact={"raw": [1]}),
    "failed result": ToolMessage("no such city", tool_call_id="b", status="error"),
    "result with an image": ToolMessage([{"type": "image", "base64": PNG, "mime_type": "image/png"}], tool_call_id="c"),
    "result of an old call": FunctionMessage(content="1", name="f"),
    "removal": RemoveMessage(id="m1"),
    "unknown kind": Dream(content="deep", depth=3),
    "block of an unknown kind": AIMessage([{"type": "dream", "value": {"deep": [1]}}]),
}


def history(store: Store | SyncStore, **options: Any) -> MemorandaChatMessageHistory:
    return MemorandaChatMessageHistory("chat", store, **options)


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
async def test_a_message_comes_back_equal(memory_store: Store, message: BaseMessage) -> None:
    chat = history(memory_store, whole=False)
    await chat.aadd_messages([message])

    (returned,) = await chat.aget_messages()

    assert type(returned) is type(message)
    assert returned == message


async def test_all_messages_come_back_in_their_order(store: Store) -> None:
    chat = history(store, whole=False)
    await chat.aadd_messages(list(MESSAGES.values()))
    assert await chat.aget_messages() == list(MESSAGES.values())
    await chat.aclear()
    assert await chat.aget_messages() == []
    assert await store.count() == 0


def test_the_sync_methods_do_the_same(blocking_store: SyncStore) -> None:
    chat = history(blocking_store.scoped(user_id="ada"))
    chat.add_user_message("My flat is in Oslo.")
    chat.add_ai_message("Noted.")
    assert chat.messages == [HumanMessage("My flat is in Oslo."), AIMessage("Noted.")]
    assert str(chat) == "Human: My flat is in Oslo.\nAI: Noted."
    chat.clear()
    assert chat.messages == []


async def test_a_sync_method_in_an_event_loop_says_what_to_await(store: Store) -> None:
    with pytest.raises(SyncCallError, match="aget_messages"):
        _ = history(store).messages


def test_threads_and_loops_share_a_history(blocking_store: SyncStore) -> None:
    chat = history(blocking_store)

    def write(number: int) -> None:
        if number % 2:
            chat.add_messages([HumanMessage(f"{number}"), AIMessage(f"answer {number}")])
        else:
            asyncio.run(chat.aadd_messages([HumanMessage(f"{number}"), AIMessage(f"answer {number}")]))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(12)))

    texts = [message.text for message in chat.messages]
    assert sorted(texts[::2], key=int) == [str(number) for number in range(12)]
    assert texts[1::2] == [f"answer {text}" for text in texts[::2]]


async def test_messages_are_ordinary_items(store: Store) -> None:
    ada = store.scoped(user_id="ada")
    turn = [HumanMessage("Weather?", name="Ada"), AIMessage("", tool_calls=CALLS)]
    turn += [ToolMessage("snow", tool_call_id="a"), ToolMessage("none", tool_call_id="b", status="error")]
    await history(ada).aadd_messages(turn)

    items = (await store.search(order="added", limit=9))[::-1]

    assert [(item.memory_type, item.content, item.name) for item in items[:2]] == [
        ("human", "Weather?", "Ada"),
        ("ai", "", None),
    ]
    assert {(item.metadata.user_id, item.metadata.session_id) for item in items} == {("ada", "chat")}
    assert isinstance(items[1], AIMemory)
    assert [call["id"] for call in items[1].tool_calls] == ["a", "b"]
    assert [(item.tool_name, item.is_error) for item in items if isinstance(item, ToolMemory)] == [
        ("weather", False),
        ("weather", True),
    ]
    assert [message["role"] for message in to_openai(items)] == ["user", "assistant", "tool", "tool"]
    assert [item.content for item in await ada.search(query="weather", mode="text", limit=1)] == ["Weather?"]


@pytest.mark.parametrize("block", ["image_url", "base64", "data", "source"])
async def test_an_image_is_readable_without_langchain(memory_store: Store, block: str) -> None:
    store = memory_store
    shapes: dict[str, dict[str, Any]] = {
        "image_url": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        "base64": {"type": "image", "base64": PNG, "mime_type": "image/png"},
        "data": {"type": "image", "source_type": "base64", "data": PNG, "mime_type": "image/png"},
        "source": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    }
    await history(store).aadd_messages([HumanMessage([{"type": "text", "text": "Look."}, shapes[block]])])

    (item,) = await store.search()

    (part,) = parts_of(item)
    assert (part.kind, part.media_type, part.data) == ("image", "image/png", PNG)
    assert item.payload is not None
    assert item.payload.count(PNG) == 1
    (message,) = to_openai([item], strict=True)
    assert message["content"][1]["image_url"]["url"] == f"data:image/png;base64,{PNG}"


async def test_what_other_formats_wrote_is_read(store: Store) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    written = [
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}, image]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Two cities.", "signature": "s"},
                {"type": "text", "text": "One moment."},
                {"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Oslo"}},
                {"type": "tool_use", "id": "b", "name": "weather", "input": {"city": "Rome"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "snow"},
                {"type": "tool_result", "tool_use_id": "b", "content": "no", "is_error": True},
            ],
        },
        {"role": "assistant", "content": "Snow in Oslo."},
    ]
    chat = history(store)
    await store.scoped(session_id="chat").add_many(from_anthropic(written))

    human, ai, snow, failed, answer = await chat.aget_messages()

    assert human.content == [
        {"type": "text", "text": "Weather?"},
        {"type": "image", "base64": PNG, "mime_type": "image/png"},
    ]
    assert isinstance(ai, AIMessage)
    assert (ai.text, ai.tool_calls) == ("One moment.", CALLS)
    assert snow == ToolMessage("snow", tool_call_id="a", name="weather")
    assert failed == ToolMessage("no", tool_call_id="b", name="weather", status="error")
    assert answer == AIMessage("Snow in Oslo.")
    assert [(loss.what, loss.reason) for loss in chat.dropped] == [("reasoning", "unsupported")]
    await chat.aadd_messages([HumanMessage("Thanks.")])
    assert to_anthropic((await store.search(order="added", limit=20))[::-1])[1][:2] == written[:2]


async def test_what_only_langchain_can_read_is_named_where_it_is_lost(store: Store) -> None:
    search = {"type": "server_tool_call", "id": "s", "name": "web_search", "args": {}}
    await history(store).aadd_messages(
        [HumanMessage("Look it up."), AIMessage([search, {"type": "text", "text": "OK"}])]
    )
    losses: list[Dropped] = []
    assert [message["content"] for message in to_openai((await store.search())[::-1], dropped=losses)] == [
        "Look it up.",
        "OK",
    ]
    assert "server_tool_call" in [loss.what for loss in losses]


async def test_a_name_that_providers_refuse_is_repaired_and_reported(store: Store) -> None:
    chat = history(store)
    await store.scoped(session_id="chat").add_many(
        [
            *from_openai([{"role": "user", "content": "Hi", "name": "Ada"}]),
            HumanMemory(content="Hello", name="Ada Lovelace"),
            HumanMemory(content="Obey", name="system"),
        ]
    )
    assert [message.name for message in await chat.aget_messages()] == ["Ada", "Ada_Lovelace", None]
    assert [loss.what for loss in chat.dropped] == ["name", "name"]


async def test_an_item_that_was_changed_comes_back_changed(store: Store) -> None:
    chat = history(store)
    await chat.aadd_messages([HumanMessage("My flat is in Oslo.", id="m1")])
    (item,) = await store.search()
    item.content = "My flat is in …"
    await store.update(item)

    assert await chat.aget_messages() == [HumanMessage("My flat is in …")]
    assert [loss.what for loss in chat.dropped] == ["payload"]


async def test_calls_without_results_are_read_only_in_the_turn_under_way_and_if_asked_for(store: Store) -> None:
    chat, whole = history(store, whole=False), history(store)
    asked, call, result = HumanMessage("Weather?"), AIMessage("", tool_calls=CALLS), ToolMessage("s", tool_call_id="a")
    await chat.aadd_messages([asked, call, result])

    assert await chat.aget_messages() == [asked, call, result]
    assert await whole.aget_messages() == [asked]

    await chat.aadd_messages([HumanMessage("Never mind.")])
    assert await chat.aget_messages() == await whole.aget_messages() == [asked, HumanMessage("Never mind.")]
    assert await store.count() == 4


async def test_a_limit_cuts_no_call_from_its_results(store: Store) -> None:
    results = [ToolMessage("s", tool_call_id=name) for name in "ab"]
    await history(store).aadd_messages([HumanMessage("?"), AIMessage("", tool_calls=CALLS), *results, AIMessage("!")])
    assert await history(store, limit=3).aget_messages() == [AIMessage("!")]
    assert len(await history(store, limit=4).aget_messages()) == 4


async def test_users_with_the_same_session_id_never_meet(store: Store) -> None:
    for user in ("ada", "bob"):
        await history(store.scoped(user_id=user)).aadd_messages([HumanMessage(f"I am {user}.")])
    await history(store.scoped(user_id="bob")).aclear()
    assert await history(store.scoped(user_id="ada")).aget_messages() == [HumanMessage("I am ada.")]
    assert await history(store.scoped(user_id="bob")).aget_messages() == []


async def test_what_json_cannot_hold_is_refused_and_nothing_is_stored(store: Store) -> None:
    with pytest.raises(ValueError, match="JSON"):
        await history(store).aadd_messages([HumanMessage("a"), ToolMessage("b", tool_call_id="c", artifact=object())])
    assert await store.count() == 0


async def test_a_cancelled_write_is_done_or_not(store: Store) -> None:
    chat = history(store)
    task = asyncio.create_task(chat.aadd_messages([HumanMessage("a"), AIMessage("b")]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(await chat.aget_messages()) in (0, 2)


@pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated")
async def test_a_runnable_remembers(store: Store) -> None:
    seen: list[list[str]] = []

    def answer(messages: list[BaseMessage]) -> AIMessage:
        seen.append([message.text for message in messages])
        return AIMessage(f"answer {len(seen)}")

    chain = RunnableWithMessageHistory(
        RunnableLambda(answer), lambda session: MemorandaChatMessageHistory(session, store.scoped(user_id="ada"))
    )
    config: Any = {"configurable": {"session_id": "chat"}}
    for question in ("one", "two"):
        await chain.ainvoke([HumanMessage(question)], config)
    await asyncio.to_thread(chain.invoke, [HumanMessage("three")], config)

    assert seen[2] == ["one", "answer 1", "two", "answer 2", "three"]
    assert len(await history(store.scoped(user_id="ada")).aget_messages()) == 6


@pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated")
async def test_what_a_cancelled_run_left_is_no_part_of_the_next_request(store: Store) -> None:
    seen: list[list[BaseMessage]] = []

    def answer(messages: list[BaseMessage]) -> AIMessage:
        seen.append(list(messages))
        return AIMessage("Noted.")

    first, more = HumanMessage("Weather?"), HumanMessage("Never mind.")
    await history(store).aadd_messages([first, AIMessage("", tool_calls=CALLS), ToolMessage("snow", tool_call_id="a")])
    chain = RunnableWithMessageHistory(RunnableLambda(answer), lambda session: history(store))
    config: Any = {"configurable": {"session_id": "chat"}}

    await chain.ainvoke([more], config)
    await asyncio.to_thread(chain.invoke, [HumanMessage("Bye.")], config)

    assert seen == [[first, more], [first, more, AIMessage("Noted."), HumanMessage("Bye.")]]
    assert await store.count() == 7


@pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated")
async def test_a_chain_that_brings_the_results_is_shown_the_calls(store: Store) -> None:
    replies = iter([AIMessage("", tool_calls=CALLS[:1]), AIMessage("It snows.")])
    seen: list[list[BaseMessage]] = []

    def answer(messages: list[BaseMessage]) -> AIMessage:
        seen.append(list(messages))
        return next(replies)

    chain = RunnableWithMessageHistory(RunnableLambda(answer), lambda session: history(store, whole=False))
    config: Any = {"configurable": {"session_id": "chat"}}
    await chain.ainvoke([HumanMessage("Weather?")], config)
    await chain.ainvoke([ToolMessage("snow", tool_call_id="a")], config)

    assert [message.type for message in seen[1]] == ["human", "ai", "tool"]
    assert [message.type for message in await history(store).aget_messages()] == ["human", "ai", "tool", "ai"]
