"""A conversation is an ordinary session: others read it, go on with it, and none of it is lost or shown twice."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from pydantic_ai import BinaryContent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from memoranda.store import Store
from memoranda_messages import from_openai, to_anthropic, to_openai
from memoranda_messages.sessions import Conversation as Session
from memoranda_pydantic_ai import MemorandaConversationStore
from memoranda_summary import SummaryConfig, compact

IMAGE = BinaryContent.narrow_type(BinaryContent(bytes(range(256)), media_type="image/png"))
TURN: list[ModelMessage] = [
    ModelRequest(
        parts=[SystemPromptPart("Be brief."), UserPromptPart(["What is this?", IMAGE])], instructions="Hurry."
    ),
    ModelResponse(
        parts=[
            ThinkingPart("Two tools.", signature="sig", provider_name="anthropic"),
            TextPart("Let me see."),
            ToolCallPart("look", {"at": "it"}, "c1"),
            ToolCallPart("search", '{"for": "it"}', "c2"),
        ]
    ),
    ModelRequest(
        parts=[
            ToolReturnPart("look", ["a cat", IMAGE], "c1"),
            ToolReturnPart("search", "nothing", "c2", outcome="failed"),
        ]
    ),
    ModelResponse(parts=[TextPart("A cat.")]),
]
GOING_ON = from_openai(
    [
        {"role": "user", "content": "And where?"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "d1", "type": "function", "function": {"name": "map", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "d1", "content": "Oslo"},
        {"role": "assistant", "content": "In Oslo."},
    ]
)


def said(*texts: str) -> list[ModelMessage]:
    return [ModelRequest(parts=[UserPromptPart(text)]) for text in texts]


def texts(messages: list[ModelMessage]) -> list[Any]:
    return [getattr(message.parts[0], "content", message.parts[0].part_kind) for message in messages]


async def loaded(conversations: MemorandaConversationStore, name: str = "chat") -> Conversation:
    found = await conversations.load(name)
    assert found is not None
    return found


async def saved(store: Store, *messages: ModelMessage) -> MemorandaConversationStore:
    conversations = MemorandaConversationStore(store)
    await conversations.save(Conversation(conversation_id="chat", messages=list(messages)))
    return conversations


async def test_entries_are_ordinary_items_of_the_session(store: Store) -> None:
    handle = store.scoped(user_id="ada")
    conversations = await saved(handle, *TURN)

    items = await Session(handle, "chat").shown()

    assert [item.memory_type for item in items] == ["system", "human", "ai", "tool", "tool", "ai"]
    assert (await loaded(conversations)).messages == TURN
    chat = to_openai(items)
    image = base64.b64encode(IMAGE.data).decode()
    assert chat[1]["content"][1]["image_url"]["url"] == f"data:image/png;base64,{image}"
    assert [call["id"] for call in chat[2]["tool_calls"]] == ["c1", "c2"]
    _, anthropic = to_anthropic(items)
    assert anthropic[1]["content"][0] == {"type": "thinking", "thinking": "Two tools.", "signature": "sig"}
    assert anthropic[2]["content"][1]["is_error"] is True


async def test_what_another_framework_adds_is_part_of_the_conversation(store: Store) -> None:
    conversations = await saved(store, *TURN)
    await Session(store, "chat").append(GOING_ON)

    conversation = await loaded(conversations)
    assert conversation.messages[:4] == TURN
    assert [[part.part_kind for part in message.parts] for message in conversation.messages[4:]] == [
        ["user-prompt"],
        ["tool-call"],
        ["tool-return"],
        ["text"],
    ]
    conversation.messages += said("Thanks.")
    await conversations.save(conversation)

    assert len((await loaded(conversations)).messages) == 9
    assert texts((await loaded(conversations)).messages)[-2:] == ["In Oslo.", "Thanks."]
    assert [item.content for item in await Session(store, "chat").read()][-1] == "Thanks."


async def test_a_session_of_another_framework_can_be_loaded_forked_and_deleted(store: Store) -> None:
    await Session(store, "chat").append(GOING_ON)
    conversations = MemorandaConversationStore(store)

    conversation = await loaded(conversations)
    assert len(conversation.messages) == 4
    assert await conversations.load("nothing") is None
    fork = await conversations.fork("chat", at=1, new_conversation_id="fork")
    fork.messages += said("Otherwise.")
    await conversations.save(fork)
    conversation.messages += said("Go on.")
    await conversations.save(conversation)

    assert texts((await loaded(conversations, "fork")).messages) == ["And where?", "Otherwise."]
    assert texts((await loaded(conversations)).messages)[-1] == "Go on."
    await conversations.delete("chat")
    assert texts((await loaded(conversations, "fork")).messages) == ["And where?", "Otherwise."]
    await conversations.delete("fork")
    assert await store.count(include_deleted=True) == 0


async def test_a_session_that_was_never_saved_here_can_be_deleted(store: Store) -> None:
    await Session(store, "chat").append(GOING_ON)

    await MemorandaConversationStore(store).delete("chat")

    assert await store.count(include_deleted=True) == 0


async def test_a_save_is_refused_if_another_framework_came_first(store: Store) -> None:
    conversations = await saved(store, *said("one"))
    conversation = await loaded(conversations)
    await Session(store, "chat").append(GOING_ON[:1])

    conversation.messages += said("two")
    with pytest.raises(ConversationConflict):
        await conversations.save(conversation)

    assert texts((await loaded(conversations)).messages) == ["one", "And where?"]


async def test_other_frameworks_see_only_the_branch_that_goes_on(store: Store) -> None:
    conversations = await saved(store, *said("one", "two", "three"))
    session = Session(store, "chat")
    current = await loaded(conversations)

    again = await conversations.branch("chat", at=1, expected_revision=current.revision)
    again.messages += said("other")
    await conversations.save(again)
    assert [item.content for item in await session.read()] == ["one", "other"]

    (record,) = await conversations.list_conversations()
    back = await conversations.branch("chat", from_entry=record.branches[0], expected_revision=again.revision)
    assert texts(back.messages) == ["one", "two", "three"]
    assert [item.content for item in await session.read()] == ["one", "two", "three"]
    await session.append(GOING_ON[:1])
    assert texts((await loaded(conversations)).messages) == ["one", "two", "three", "And where?"]


async def test_a_conversation_ends_where_another_framework_has_cut_it(store: Store) -> None:
    conversations = await saved(store, *said("one", "two"))
    session = Session(store, "chat")

    await session.pop()
    assert texts((await loaded(conversations)).messages) == ["one"]
    conversation = await loaded(conversations)
    conversation.messages += said("new")
    await conversations.save(conversation)
    assert texts((await loaded(conversations)).messages) == ["one", "new"]
    await session.clear()

    assert (await loaded(conversations)).messages == []


class Summarizer:
    async def summarize(self, prompt: str) -> str:
        return "They counted."


async def test_a_compacted_session_is_whole_here(store: Store) -> None:
    conversations = await saved(store, *said(*"abcdefgh"))
    handle = store.scoped(session_id="chat")

    await compact(handle, None, SummaryConfig(keep_recent=2), Summarizer(), force=True)

    assert texts((await loaded(conversations)).messages) == [*"abcdefgh"]
    assert (await Session(store, "chat").read())[0].content == "They counted."
    conversation = await loaded(conversations)
    conversation.messages += said("i")
    await conversations.save(conversation)
    assert texts((await loaded(conversations)).messages) == [*"abcdefghi"]


async def test_what_cannot_be_carried_over_is_reported(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    conversations = MemorandaConversationStore(store)
    await Session(store, "chat").append(from_openai([{"role": "user", "name": "Ada", "content": "Hi"}]))

    await loaded(conversations)

    assert [(loss.what, loss.reason) for loss in conversations.dropped] == [("name", "unsupported")]
    assert len(caplog.records) == 1
