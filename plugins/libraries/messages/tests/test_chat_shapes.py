"""Every shape of chat message that the SDK documents goes in and comes back equal, or is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from message_shapes import Messages, exactly, kinds, shown_kinds, stored

from memoranda import AIMemory
from memoranda.errors import InputError
from memoranda_messages import from_openai, to_openai

CHAT_USER: dict[str, Any] = {"role": "user", "content": "hi"}


def _call(call_id: str = "c1", **further: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}, **further}


def _asked(*calls: dict[str, Any], **further: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, **further, "tool_calls": list(calls)}


TOLD: dict[str, Any] = {"role": "tool", "tool_call_id": "c1", "content": "done"}

CHAT: dict[str, Messages] = {
    "system": [{"role": "system", "content": "Be brief."}],
    "system with a name": [{"role": "system", "content": "Be brief.", "name": "ops"}],
    "system in parts": [{"role": "system", "content": [{"type": "text", "text": "Be brief."}]}],
    "system between turns": [CHAT_USER, {"role": "system", "content": "Now be long."}, CHAT_USER],
    "developer": [{"role": "developer", "content": "Be brief."}],
    "developer in parts": [
        {"role": "developer", "content": [{"type": "text", "text": "Be"}, {"type": "text", "text": "x"}]}
    ],
    "user": [CHAT_USER],
    "user with an empty text": [{"role": "user", "content": ""}],
    "user without parts": [{"role": "user", "content": []}],
    "user with a null": [{"role": "user", "content": None}],
    "user without content": [{"role": "user"}],
    "user with a name": [{"role": "user", "content": "hi", "name": "ada"}],
    "user with a null name": [{"role": "user", "content": "hi", "name": None}],
    "user in one part": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    "user with an image": [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}}]}
    ],
    "user with sound": [
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}]}
    ],
    "user with a file": [
        {
            "role": "user",
            "content": [{"type": "file", "file": {"file_id": "f"}, "prompt_cache_breakpoint": {"mode": "explicit"}}],
        }
    ],
    "user with a part of a new kind": [{"role": "user", "content": [{"type": "smell", "smell": 1}]}],
    "user with an unknown key": [{"role": "user", "content": "hi", "weight": 0.5, "flags": {"a": [None, True]}}],
    "keys in another order": [{"content": "hi", "role": "user"}],
    "assistant": [{"role": "assistant", "content": "hello"}],
    "assistant with an empty text": [{"role": "assistant", "content": ""}],
    "assistant with a null": [{"role": "assistant", "content": None}],
    "assistant without content": [{"role": "assistant"}],
    "assistant with a name": [{"role": "assistant", "content": "x", "name": "bot"}],
    "assistant in parts": [
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ],
    "assistant that refuses": [{"role": "assistant", "content": None, "refusal": "No."}],
    "assistant that refuses in a part": [{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}],
    "assistant that refuses nothing": [{"role": "assistant", "content": "x", "refusal": None}],
    "assistant aloud": [{"role": "assistant", "audio": {"id": "audio_1"}}],
    "assistant aloud with a transcript": [
        {"role": "assistant", "content": None, "audio": {"id": "a", "data": "AA", "expires_at": 1, "transcript": "hey"}}
    ],
    "assistant with no sound": [{"role": "assistant", "content": "x", "audio": None}],
    "assistant with citations": [
        {
            "role": "assistant",
            "content": "x",
            "annotations": [
                {"type": "url_citation", "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 1}}
            ],
        }
    ],
    "assistant that thinks aloud": [{"role": "assistant", "content": "x", "reasoning_content": "hm"}],
    "no calls": [{"role": "assistant", "content": "x", "tool_calls": []}],
    "null calls": [{"role": "assistant", "content": "x", "tool_calls": None}],
    "call": [_asked(_call()), TOLD],
    "call with a text": [_asked(_call(), content="One moment."), TOLD],
    "call with an empty text": [_asked(_call(), content=""), TOLD],
    "call without content": [{"role": "assistant", "tool_calls": [_call()]}, TOLD],
    "call without a type": [_asked({"id": "c1", "function": {"name": "f", "arguments": "{}"}}), TOLD],
    "call without arguments": [_asked({"id": "c1", "type": "function", "function": {"name": "f"}}), TOLD],
    "call with empty arguments": [
        _asked({"id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}),
        TOLD,
    ],
    "call with spaced arguments": [
        _asked({"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{ "a": 1.0 }'}}),
        TOLD,
    ],
    "call with arguments twice": [
        _asked({"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1,"a":2}'}}),
        TOLD,
    ],
    "call with broken arguments": [
        _asked({"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":'}}),
        TOLD,
    ],
    "call with a list for arguments": [
        _asked({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "[1]"}}),
        TOLD,
    ],
    "call with an index": [_asked(_call(index=0)), TOLD],
    "call with extra content": [_asked(_call(extra_content={"google": {"thought_signature": "s"}})), TOLD],
    "call with more in the function": [
        _asked({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}", "strict": True}}),
        TOLD,
    ],
    "call of a tool with a dot": [
        _asked({"id": "c1", "type": "function", "function": {"name": "a.b", "arguments": "{}"}}),
        TOLD,
    ],
    "call with a long id": [_asked(_call("c" * 64)), TOLD | {"tool_call_id": "c" * 64}],
    "custom call": [_asked({"id": "c1", "type": "custom", "custom": {"name": "code", "input": "1+1"}}), TOLD],
    "calls of two kinds": [
        _asked(_call(), {"id": "c2", "type": "custom", "custom": {"name": "code", "input": ""}}),
        TOLD | {"tool_call_id": "c2"},
        TOLD,
    ],
    "result in parts": [
        _asked(_call()),
        TOLD | {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    ],
    "empty result": [_asked(_call()), TOLD | {"content": ""}],
    "null result": [_asked(_call()), TOLD | {"content": None}],
    "result without parts": [_asked(_call()), TOLD | {"content": []}],
    "result without content": [_asked(_call()), {"role": "tool", "tool_call_id": "c1"}],
    "result with a name": [_asked(_call()), TOLD | {"name": "f"}],
    "result with an unknown key": [_asked(_call()), TOLD | {"artifact": {"rows": 3}}],
    "old call": [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "done"},
    ],
    "old call with a text": [
        {"role": "assistant", "content": "wait", "function_call": {"name": "f", "arguments": "x"}},
        {"role": "function", "name": "f", "content": None},
    ],
    "old calls of one function": 2
    * [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "done"},
    ],
    "no old call": [{"role": "assistant", "content": "x", "function_call": None}],
}


@pytest.mark.parametrize("messages", CHAT.values(), ids=CHAT)
def test_chat_messages_come_back(messages: Messages) -> None:
    assert exactly(to_openai(stored(from_openai(messages)), strict=True)) == exactly(messages)


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ([{"role": "robot", "content": "x"}], "messages[0].role"),
        ([{"role": "function", "content": "x"}], "messages[0].name"),
        ([{"role": "assistant", "function_call": "f"}], "messages[0].function_call"),
        ([{"role": "assistant", "function_call": {}}], "messages[0].function_call.name"),
        (
            [
                {
                    "role": "assistant",
                    "function_call": {"name": "f"},
                    "tool_calls": [{"id": "c", "function": {"name": "f"}}],
                }
            ],
            "messages[0].function_call",
        ),
        ([{"role": "assistant", "refusal": 5}], "messages[0].refusal"),
        ([{"role": "assistant", "audio": "x"}], "messages[0].audio"),
        ([{"role": "assistant", "content": [{"type": "tool_use"}]}], "messages[0].content.tool_use"),
        ([{"role": "user", "content": [{"type": "tool_result"}]}], "messages[0].content.tool_result"),
        ([AIMemory(content="x")], "messages[0]"),
    ],
)
def test_what_would_be_lost_is_refused_by_name(given: Any, place: str) -> None:
    with pytest.raises(InputError) as raised:
        from_openai(given)
    assert raised.value.field == place


def test_every_part_that_the_sdk_documents_for_chat_is_among_the_shapes() -> None:
    chat = pytest.importorskip("openai.types.chat")
    assert kinds(chat.ChatCompletionContentPartParam) <= shown_kinds(CHAT)


def test_objects_of_the_openai_sdk_are_taken_as_they_come() -> None:
    chat = pytest.importorskip("openai.types.chat")
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}, "extra_content": {"x": 1}}
    given = {"role": "assistant", "content": None, "refusal": None, "annotations": [], "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "done"}
    message = chat.ChatCompletionMessage.model_validate(given)
    assert to_openai(from_openai([message, result])) == [given, result]
