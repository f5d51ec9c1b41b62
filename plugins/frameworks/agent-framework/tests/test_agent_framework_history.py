"""The Agent Framework's history on memoranda's stores."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    SessionContext,
    tool,
)

from memoranda import AIMemory, ToolMemory
from memoranda.store import Store
from memoranda_agent_framework import MemorandaHistoryProvider
from memoranda_messages import from_anthropic, to_openai
from memoranda_messages.sessions import parts_of

PNG = b"\x89PNG" + bytes(90)
DATA = base64.b64encode(PNG).decode()


def call(name: str, **options: Any) -> Content:
    return Content.from_function_call(name, "weather", arguments=f'{{"city": "{name}"}}', **options)


def result(name: str, given: Any = "snow", **options: Any) -> Content:
    return Content.from_function_result(name, result=given, **options)


def picture(name: str | None = None) -> Content:
    made = Content.from_data(PNG, "image/png")
    made.name = name
    return made


APPROVAL = Content.from_function_approval_request("ask", call("c"))
MESSAGES: dict[str, Message] = {
    "text": Message("user", ["My flat is in Oslo."]),
    "texts with all that goes with them": Message(
        "user", ["a", "b"], author_name="Ada", message_id="m1", additional_properties={"k": [1, None, {"_x": 1.5}]}
    ),
    "number that JSON does not have": Message("user", ["a"], additional_properties={"n": float("inf")}),
    "nothing": Message("assistant", []),
    "system": Message("system", ["Be brief."]),
    "image": Message("user", ["Look.", picture("a.png")]),
    "image by url": Message("user", [Content.from_uri("https://example.org/a.png", media_type="image/png")]),
    "reasoning": Message("assistant", [Content.from_text_reasoning(id="r", text="Hm.", protected_data="e"), "Yes."]),
    "calls": Message("assistant", ["One moment.", call("a"), call("b")]),
    "call of a provider": Message("assistant", [call("h", informational_only=True), "Done."]),
    "results": Message(
        "tool", [result("a"), result("b", [Content.from_text("x"), Content.from_data(PNG, "image/png")])]
    ),
    "failed result": Message("tool", [result("a", "no", exception="FunctionInvocationError")]),
    "call and result in one": Message("assistant", [call("a"), result("a"), "Snow."]),
    "request for approval": Message("assistant", [call("c"), APPROVAL]),
    "approval": Message("user", [APPROVAL.to_function_approval_response(True)]),
    "code that the provider ran": Message(
        "assistant",
        [
            Content.from_code_interpreter_tool_call(call_id="x", inputs=[Content.from_text("1+1")]),
            Content.from_code_interpreter_tool_result(call_id="x", outputs=[Content.from_text("2")]),
        ],
    ),
    "file of a provider": Message("user", [Content.from_hosted_file("f1")]),
    "usage": Message("assistant", ["a", Content.from_usage({"input_token_count": 1})]),
}


def plain(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [message.to_dict() for message in messages]


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
async def test_a_message_comes_back_equal(memory_store: Store, message: Message) -> None:
    provider = MemorandaHistoryProvider(memory_store)
    await provider.save_messages("chat", [message])
    assert plain(await provider.get_messages("chat")) == plain([message])
    assert provider.dropped == []


async def test_all_messages_come_back_in_their_order(store: Store) -> None:
    provider = MemorandaHistoryProvider(store)
    turn = [MESSAGES[name] for name in MESSAGES if name not in ("failed result", "call and result in one")]
    await provider.save_messages("chat", turn)
    assert plain(await provider.get_messages("chat")) == plain(turn)


async def test_messages_are_ordinary_items(store: Store) -> None:
    provider = MemorandaHistoryProvider(store.scoped(user_id="ada"))
    await provider.save_messages("chat", [MESSAGES["image"], MESSAGES["calls"], MESSAGES["results"]])

    items = (await store.search(order="added", limit=9))[::-1]

    assert [(item.memory_type, item.content) for item in items] == [
        ("human", "Look."),
        ("ai", "One moment."),
        ("tool", "snow"),
        ("tool", "x"),
    ]
    assert {(item.metadata.user_id, item.metadata.session_id) for item in items} == {("ada", "chat")}
    assert isinstance(items[1], AIMemory)
    assert [made["id"] for made in items[1].tool_calls] == ["a", "b"]
    assert [item.tool_name for item in items if isinstance(item, ToolMemory)] == ["weather", "weather"]
    (part,) = parts_of(items[0])
    assert (part.kind, part.media_type, part.data, part.name) == ("image", "image/png", DATA, "a.png")
    (seen,) = parts_of(items[3], {item.id: item for item in items})
    assert seen.data == DATA
    assert [message["role"] for message in to_openai(items)] == ["user", "assistant", "tool", "tool"]


async def test_what_other_formats_wrote_is_read(store: Store) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}
    thought = {"type": "thinking", "thinking": "Two cities.", "signature": "s"}
    uses = [{"type": "tool_use", "id": name, "name": "weather", "input": {"city": name}} for name in "ab"]
    answers = [{"type": "tool_result", "tool_use_id": name, "content": "snow"} for name in "ab"]
    answers[1] |= {"is_error": True, "content": [{"type": "text", "text": "no"}, image]}
    written = [
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}, image]},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "One moment."}, *uses]},
        {"role": "user", "content": answers},
    ]
    await store.scoped(session_id="chat").add_many(from_anthropic(written))
    provider = MemorandaHistoryProvider(store)

    human, ai, results = await provider.get_messages("chat")

    assert human.contents == [Content.from_text("Weather?"), picture()]
    assert (ai.role, ai.text, [content.call_id for content in ai.contents[1:]]) == (
        "assistant",
        "One moment.",
        ["a", "b"],
    )
    assert ai.contents[1].parse_arguments() == {"city": "a"}
    assert results.role == "tool"
    assert [content.result for content in results.contents] == ["snow", "no"]
    assert results.contents[1].exception is not None
    assert results.contents[1].items == [Content.from_text("no"), picture()]
    assert [(loss.what, loss.reason) for loss in provider.dropped] == [("reasoning", "unsupported")]


async def test_a_session_without_an_id_has_a_default_one(store: Store) -> None:
    provider = MemorandaHistoryProvider(store)
    await provider.save_messages(None, [MESSAGES["text"]])
    assert plain(await provider.get_messages(None)) == plain([MESSAGES["text"]])
    assert [item.metadata.session_id for item in await store.search()] == ["default"]
    assert plain(await provider.get_messages("default")) == plain([MESSAGES["text"]])
    assert await provider.get_messages("chat") == []


def said(role: str, *texts: str) -> list[Message]:
    return [Message(role, [text]) for text in texts]


async def test_a_transcript_that_is_saved_again_is_stored_once(store: Store) -> None:
    provider = MemorandaHistoryProvider(store)
    asked, answered = said("user", "hello"), said("assistant", "hi")
    await provider.save_messages("chat", [*asked, *answered])
    await provider.save_messages("chat", [*asked, *answered])
    await provider.save_messages("chat", [*asked, *answered, *said("user", "more")])
    await provider.save_messages("chat", said("user", "more"))
    assert [message.text for message in await provider.get_messages("chat")] == ["hello", "hi", "more", "more"]


async def test_a_long_session_takes_a_new_turn_whole(store: Store) -> None:
    provider = MemorandaHistoryProvider(store)
    for number in range(40):
        await provider.save_messages("chat", [*said("user", f"q{number}"), *said("assistant", f"a{number}")])
    await provider.save_messages("chat", [*said("assistant", "a39"), *said("user", "last")])
    texts = [message.text for message in await provider.get_messages("chat")]
    assert texts == [text for number in range(40) for text in (f"q{number}", f"a{number}")] + ["last"]


async def test_excluded_messages_are_skipped_if_asked_for(store: Store) -> None:
    hidden = Message("assistant", ["skip"], additional_properties={"_excluded": True})
    await MemorandaHistoryProvider(store).save_messages("chat", [MESSAGES["text"], hidden])
    assert len(await MemorandaHistoryProvider(store).get_messages("chat")) == 2
    assert len(await MemorandaHistoryProvider(store, skip_excluded=True).get_messages("chat")) == 1


async def loaded(provider: MemorandaHistoryProvider, *given: Message) -> list[Message]:
    """Return what a run with this input is shown of the history."""
    context = SessionContext(session_id="chat", input_messages=list(given))
    agent: Any = None
    await provider.before_run(agent=agent, session=AgentSession(session_id="chat"), context=context, state={})
    return context.context_messages.get(provider.source_id, [])


async def test_a_half_written_turn_is_shown_only_to_a_run_that_answers_it(store: Store) -> None:
    provider = MemorandaHistoryProvider(store)
    asked = Message("user", ["Weather?"])
    await provider.save_messages("chat", [asked, MESSAGES["calls"], Message("tool", [result("a")])])

    assert [message.role for message in await loaded(provider, Message("tool", [result("b")]))] == [
        "user",
        "assistant",
        "tool",
    ]
    assert [message.text for message in await loaded(provider, Message("user", ["Never mind."]))] == ["Weather?"]

    await provider.save_messages("chat", said("user", "Never mind."))
    assert [message.text for message in await provider.get_messages("chat")] == ["Weather?", "Never mind."]
    assert await store.count() == 4


async def test_a_call_that_waits_for_approval_is_shown_to_the_run_that_approves(store: Store) -> None:
    provider = MemorandaHistoryProvider(store)
    await provider.save_messages("chat", [Message("user", ["Weather?"]), MESSAGES["request for approval"]])
    assert [message.role for message in await loaded(provider, MESSAGES["approval"])] == ["user", "assistant"]


async def test_users_with_the_same_session_id_never_meet(store: Store) -> None:
    ada, bob = (MemorandaHistoryProvider(store.scoped(user_id=name)) for name in ("ada", "bob"))
    await ada.save_messages("chat", [MESSAGES["text"]])
    assert await bob.get_messages("chat") == []


async def test_writers_that_save_at_once_lose_nothing(store: Store) -> None:
    provider = MemorandaHistoryProvider(store)
    turns = [[*said("user", f"q{number}"), *said("assistant", f"a{number}")] for number in range(8)]
    await asyncio.gather(*(provider.save_messages("chat", turn) for turn in turns))
    texts = [message.text for message in await provider.get_messages("chat")]
    assert sorted(texts[::2]) == [f"q{number}" for number in range(8)]
    assert texts[1::2] == [text.replace("q", "a") for text in texts[::2]]


async def test_saves_of_one_session_that_overlap_are_stored_in_the_order_of_their_calls(store: Store) -> None:
    provider = MemorandaHistoryProvider(store)
    texts = [f"message {number}" for number in range(6)]
    roles = ("user", "assistant")

    await asyncio.gather(
        *(provider.save_messages("chat", said(roles[number % 2], text)) for number, text in enumerate(texts))
    )

    assert [message.text for message in await provider.get_messages("chat")] == texts


async def test_a_cancelled_save_is_done_or_not(store: Store) -> None:
    provider = MemorandaHistoryProvider(store)
    task = asyncio.create_task(provider.save_messages("chat", [MESSAGES["text"], MESSAGES["system"]]))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(await provider.get_messages("chat")) in (0, 2)


class Scripted(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """A model that gives the next of its answers, and remembers what it was shown."""

    def __init__(self, *answers: Message) -> None:
        super().__init__()
        self.answers = list(answers)
        self.shown: list[list[Message]] = []

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse[Any]]:
        async def answer() -> ChatResponse[Any]:
            self.shown.append(list(messages))
            return ChatResponse(messages=[self.answers.pop(0)])

        return answer()


@tool(approval_mode="never_require")
def weather(city: str) -> str:
    """Return the weather."""
    return f"snow in {city}"


async def test_a_run_stores_its_messages_and_the_next_one_loads_them(store: Store) -> None:
    model = Scripted(Message("assistant", ["hi there"]), Message("assistant", ["And again."]))
    provider = MemorandaHistoryProvider(store)
    agent = Agent(model, context_providers=[provider])
    session = agent.create_session(session_id="s1")

    await agent.run("hello", session=session)

    items = await store.search(order="added")
    assert [(item.memory_type, item.content, item.metadata.session_id) for item in items] == [
        ("ai", "hi there", "s1"),
        ("human", "hello", "s1"),
    ]
    assert not any("session_id" in item.metadata.extra for item in items)

    await agent.run("again", session=session)

    assert [[message.text for message in shown] for shown in model.shown] == [
        ["hello"],
        ["hello", "hi there", "again"],
    ]


async def test_an_agent_goes_on_in_another_process_or_provider(store: Store) -> None:
    first = Scripted(Message("assistant", [call("a"), call("b")]), Message("assistant", ["Snow everywhere."]))
    provider = MemorandaHistoryProvider(store)
    agent = Agent(first, tools=[weather], context_providers=[provider])
    answer = await agent.run("Weather?", session=agent.create_session(session_id="chat"))
    assert answer.text == "Snow everywhere."

    second = Scripted(Message("assistant", ["As I said."]))
    again = Agent(second, context_providers=[MemorandaHistoryProvider(store)])
    await again.run("Really?", session=again.create_session(session_id="chat"))

    shown = second.shown[0]
    assert [message.role for message in shown] == ["user", "assistant", "tool", "assistant", "user"]
    assert [content.result for content in shown[2].contents] == ["snow in a", "snow in b"]
    assert await store.count() == 7
