"""A plain message of LlamaIndex is stored without a close look, and as it would be after one."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

from memoranda_llama_index.messages import LlamaIndexFormat


class Wary(LlamaIndexFormat):
    """Looks at every message closely."""

    def plain_fields(self, message: ChatMessage) -> None:
        return None


class Loud(ChatMessage):
    """A message of a program's own class."""

    loud: bool = True


class Word(StrEnum):
    HI = "hi"


def call(call_id: Any = "c", name: Any = "look", **values: Any) -> ToolCallBlock:
    return ToolCallBlock.model_construct(tool_call_id=call_id, tool_name=name, tool_kwargs=values)


def said(*blocks: Any, role: str = "assistant", **beside: Any) -> ChatMessage:
    return ChatMessage(role=role, blocks=list(blocks), additional_kwargs=beside)


HI = TextBlock(text="Hi")
PLAIN = {
    "a text": said(HI, role="user"),
    "a text of the system's": said(HI, role="system"),
    "an answer": said(HI),
    "a text that is not ASCII": said(TextBlock(text="¿Qué tal?"), role="user"),
    "a call": said(call(at="the sky", often=2, now=True, why=None)),
    "a text and calls": said(HI, call("c1"), call("c2", "listen", at="the sea")),
    "a result": said(HI, role="tool", tool_call_id="c"),
    "a result without a text": said(role="tool", tool_call_id="c"),
}
OTHERS = {
    "nothing": said(),
    "an empty text": said(TextBlock(text="")),
    "two texts": said(HI, HI),
    "a text behind a call": said(call(), HI),
    "an image": said(HI, ImageBlock(url="https://example.org/a.png"), role="user"),
    "a thought": said(ThinkingBlock(content="Hm."), HI),
    "a call of a person's": said(call(), role="user"),
    "a call without an id": said(call(None)),
    "a call with an empty id": said(call("")),
    "nested arguments": said(call(at={"sky": ["blue"]})),
    "a fraction": said(call(at=0.5)),
    "an enumeration": said(call(at=Word.HI)),
    "a tuple": said(call(at=(1, 2))),
    "a call in text": said(ToolCallBlock(tool_call_id="c", tool_name="look", tool_kwargs='{"at": 1}')),
    "a name": said(HI, role="user", name="ada"),
    "a result of a tool by name": said(HI, role="tool", tool_call_id="c", name="look"),
    "a result without an id": said(HI, role="tool"),
    "a result with an empty id": said(HI, role="tool", tool_call_id=""),
    "an answer with an id": said(HI, tool_call_id="c"),
    "a role of another kind": said(HI, role="developer"),
    "a class of one's own": Loud(role=MessageRole.USER, blocks=[HI]),
    "a smile": said(TextBlock(text="🙂"), role="user"),
    "a NUL": said(TextBlock(text="a\0b"), role="user"),
    "half a pair": said(TextBlock(text="a\ud800b"), role="user"),
    "a NUL in a call": said(call(at="a\0b")),
}


def stored(written_in: LlamaIndexFormat, *messages: ChatMessage) -> list[dict[str, Any]]:
    """Return the items of messages, without what is new in every item."""
    items = written_in.items(messages, ids=[f"id-{place}" for place in range(len(messages))])
    return [item.model_dump(exclude={"created_at", "updated_at"}) for item in items]


@pytest.mark.parametrize("message", [*PLAIN.values(), *OTHERS.values()], ids=[*PLAIN, *OTHERS])
def test_a_message_is_stored_as_it_is_after_a_close_look(message: ChatMessage) -> None:
    assert stored(LlamaIndexFormat(), message) == stored(Wary(), message)


def test_a_plain_result_gets_the_name_of_the_tool_that_was_called() -> None:
    turn = [PLAIN["a text and calls"], said(HI, role="tool", tool_call_id="c2")]
    assert stored(LlamaIndexFormat(), *turn) == stored(Wary(), *turn)
    assert stored(LlamaIndexFormat(), *turn)[-1]["tool_name"] == "listen"


@pytest.mark.parametrize("message", PLAIN.values(), ids=list(PLAIN))
def test_a_plain_message_is_not_turned_into_json(message: ChatMessage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LlamaIndexFormat, "dump", lambda *_: pytest.fail("a plain message was dumped"))
    assert [item.payload for item in LlamaIndexFormat().items([message])] == [None]


def test_arguments_of_a_plain_call_are_the_items_own() -> None:
    arguments = {"at": "the sky"}
    block = ToolCallBlock.model_construct(tool_call_id="c", tool_name="look", tool_kwargs=arguments)
    (item,) = LlamaIndexFormat().items([ChatMessage.model_construct(role=MessageRole.ASSISTANT, blocks=[block])])
    arguments["at"] = "the sea"
    assert item.model_dump()["tool_calls"][0]["arguments"] == {"at": "the sky"}
