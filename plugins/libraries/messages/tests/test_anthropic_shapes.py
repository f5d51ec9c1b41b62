"""Every shape of Anthropic message that the SDK documents goes in and comes back equal, or is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from message_shapes import Messages, exactly, kinds, shown_kinds, stored

from memoranda.errors import InputError
from memoranda_messages import from_anthropic, to_anthropic

ANTHROPIC_USER: dict[str, Any] = {"role": "user", "content": "hi"}
USE: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
USED: dict[str, Any] = {"type": "tool_result", "tool_use_id": "t1", "content": "done"}


def _said(*blocks: dict[str, Any], role: str = "assistant") -> Messages:
    """Return a conversation in which these blocks are said."""
    message = {"role": role, "content": list(blocks)}
    return [message] if role == "user" else [ANTHROPIC_USER, message]


def _result(*, use: dict[str, Any] = USE, drop: str = "", **changed: Any) -> Messages:
    block = {key: value for key, value in (USED | changed).items() if key != drop}
    return [ANTHROPIC_USER, {"role": "assistant", "content": [use]}, {"role": "user", "content": [block]}]


TEXT_BLOCK: dict[str, Any] = {"type": "text", "text": "hello"}
CACHE: dict[str, Any] = {"cache_control": {"type": "ephemeral", "ttl": "5m"}}
IMAGE: dict[str, Any] = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}

ANTHROPIC: dict[str, Messages] = {
    "text": [ANTHROPIC_USER],
    "text as a block": _said(TEXT_BLOCK, role="user"),
    "text to be cached": _said(TEXT_BLOCK | CACHE, role="user"),
    "several texts": _said(TEXT_BLOCK, TEXT_BLOCK, role="user"),
    "assistant as a text": [ANTHROPIC_USER, {"role": "assistant", "content": "hello"}],
    "assistant as a block": _said(TEXT_BLOCK),
    "assistant in several texts": _said(TEXT_BLOCK, TEXT_BLOCK),
    "assistant first": [{"role": "assistant", "content": [TEXT_BLOCK]}],
    "two users in a row": [ANTHROPIC_USER, ANTHROPIC_USER],
    "two assistants in a row": [*_said(TEXT_BLOCK), {"role": "assistant", "content": "and"}],
    "unknown key of a message": [ANTHROPIC_USER | {"id": "msg_1"}],
    "response as it came": [
        ANTHROPIC_USER,
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [TEXT_BLOCK],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
    ],
    "text with citations": _said(
        TEXT_BLOCK
        | {
            "citations": [
                {
                    "type": "char_location",
                    "cited_text": "x",
                    "document_index": 0,
                    "document_title": None,
                    "start_char_index": 0,
                    "end_char_index": 1,
                }
            ]
        }
    ),
    "text with null citations": _said(TEXT_BLOCK | {"citations": None}),
    "image": _said(IMAGE, role="user"),
    "image by url": _said({"type": "image", "source": {"type": "url", "url": "u"}}, TEXT_BLOCK, role="user"),
    "image by file": _said({"type": "image", "source": {"type": "file", "file_id": "f"}} | CACHE, role="user"),
    "pdf": _said(
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "A"}}, role="user"
    ),
    "pdf by url": _said({"type": "document", "source": {"type": "url", "url": "u"}, "title": "t"}, role="user"),
    "plain document": _said(
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "x"},
            "citations": {"enabled": True},
        },
        role="user",
    ),
    "document of blocks": _said(
        {"type": "document", "source": {"type": "content", "content": [TEXT_BLOCK]}}, role="user"
    ),
    "search result": _said(
        {
            "type": "search_result",
            "source": "u",
            "title": "t",
            "content": [TEXT_BLOCK],
            "citations": {"enabled": False},
        },
        role="user",
    ),
    "container upload": _said({"type": "container_upload", "file_id": "f"}, role="user"),
    "thinking": _said({"type": "thinking", "thinking": "hm", "signature": "s"}, TEXT_BLOCK),
    "empty thinking": _said({"type": "thinking", "thinking": "", "signature": "s"}, TEXT_BLOCK),
    "redacted thinking": _said({"type": "redacted_thinking", "data": "AA"}, TEXT_BLOCK),
    "thinking before a call": [
        ANTHROPIC_USER,
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, TEXT_BLOCK, USE]},
        {"role": "user", "content": [USED]},
    ],
    "server's search": _said(
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srv_1",
            "content": [
                {"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "e", "page_age": None}
            ],
        },
        TEXT_BLOCK,
    ),
    "server's failed search": _said(
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srv_1",
            "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"},
        },
    ),
    "server's fetch": _said(
        {"type": "server_tool_use", "id": "srv_1", "name": "web_fetch", "input": {"url": "u"}},
        {
            "type": "web_fetch_tool_result",
            "tool_use_id": "srv_1",
            "content": {"type": "web_fetch_result", "url": "u", "content": {}},
        },
    ),
    "server's code": _said(
        {"type": "server_tool_use", "id": "srv_1", "name": "code_execution", "input": {"code": "1"}},
        {
            "type": "code_execution_tool_result",
            "tool_use_id": "srv_1",
            "content": {"type": "code_execution_result", "stdout": "1", "stderr": "", "return_code": 0, "content": []},
        },
    ),
    "server's shell": _said(
        {"type": "server_tool_use", "id": "srv_1", "name": "bash_code_execution", "input": {"command": "ls"}},
        {
            "type": "bash_code_execution_tool_result",
            "tool_use_id": "srv_1",
            "content": {"type": "bash_code_execution_result"},
        },
    ),
    "server's editor": _said(
        {"type": "server_tool_use", "id": "srv_1", "name": "text_editor_code_execution", "input": {}},
        {"type": "text_editor_code_execution_tool_result", "tool_use_id": "srv_1", "content": {"type": "x"}},
    ),
    "server's tool search": _said(
        {"type": "server_tool_use", "id": "srv_1", "name": "tool_search_tool_bm25", "input": {"query": "x"}},
        {
            "type": "tool_search_tool_result",
            "tool_use_id": "srv_1",
            "content": {
                "type": "tool_search_tool_search_result",
                "tool_references": [{"type": "tool_reference", "tool_name": "f"}],
            },
        },
    ),
    "block of a new kind": _said({"type": "dream", "dream": {"deep": [1]}}, TEXT_BLOCK),
    "call": _result(),
    "call without input": _result(use={"type": "tool_use", "id": "t1", "name": "f"}),
    "call with a null input": _result(use=USE | {"input": None}),
    "call with an input": _result(use=USE | {"input": {"a": [1, 1.0, None, True, "é"]}}),
    "call to be cached": _result(use=USE | CACHE),
    "call with a caller": _result(use=USE | {"caller": {"type": "code_execution_20250825", "tool_id": "srv_1"}}),
    "call of a tool with a dot": _result(use=USE | {"name": "a.b"}),
    "text behind a call": [
        ANTHROPIC_USER,
        {"role": "assistant", "content": [USE, TEXT_BLOCK]},
        {"role": "user", "content": [USED]},
    ],
    "parallel calls": [
        ANTHROPIC_USER,
        {"role": "assistant", "content": [TEXT_BLOCK, USE, USE | {"id": "t2"}]},
        {"role": "user", "content": [USED | {"tool_use_id": "t2"}, USED]},
    ],
    "results in two messages": [
        ANTHROPIC_USER,
        {"role": "assistant", "content": [USE, USE | {"id": "t2"}]},
        {"role": "user", "content": [USED]},
        {"role": "user", "content": [USED | {"tool_use_id": "t2"}]},
    ],
    "result and a text": [*_result()[:2], {"role": "user", "content": [USED, TEXT_BLOCK, IMAGE]}],
    "result and then a text": [*_result(), ANTHROPIC_USER],
    "result and then a block": [*_result(), {"role": "user", "content": [TEXT_BLOCK]}],
    "result in a message with an unknown key": [
        *_result()[:2],
        {"role": "user", "content": [USED, TEXT_BLOCK], "id": "m"},
    ],
    "result that is no error": _result(is_error=False),
    "result that is an error": _result(is_error=True),
    "result with a null for the error": _result(is_error=None),
    "empty result": _result(content=""),
    "null result": _result(content=None),
    "result without content": _result(drop="content"),
    "result without blocks": _result(content=[]),
    "result of a block": _result(content=[TEXT_BLOCK]),
    "result of an empty block": _result(content=[{"type": "text", "text": ""}]),
    "result with an image": _result(content=[TEXT_BLOCK, IMAGE]),
    "result with a document": _result(content=[{"type": "document", "source": {"type": "url", "url": "u"}}]),
    "result with a reference": _result(content=[{"type": "tool_reference", "tool_name": "f"}]),
    "result to be cached": _result(**CACHE),
    "failed result without content": _result(is_error=True, drop="content"),
    "result with an unknown key": _result(toolset_name="browser"),
    "system among messages": [ANTHROPIC_USER, {"role": "system", "content": "Now be brief."}, ANTHROPIC_USER],
    "system in blocks among messages": [ANTHROPIC_USER, {"role": "system", "content": [TEXT_BLOCK | CACHE]}],
}

SYSTEM: dict[str, Messages] = {
    "none": [],
    "a block": [TEXT_BLOCK],
    "a block to be cached": [TEXT_BLOCK | CACHE],
    "two blocks": [TEXT_BLOCK, TEXT_BLOCK | {"citations": None}],
}


@pytest.mark.parametrize("messages", ANTHROPIC.values(), ids=ANTHROPIC)
def test_anthropic_messages_come_back(messages: Messages) -> None:
    system, returned = to_anthropic(stored(from_anthropic(messages)), strict=True)
    assert (system, exactly(returned)) == ([], exactly(messages))


@pytest.mark.parametrize("blocks", SYSTEM.values(), ids=SYSTEM)
def test_anthropic_system_blocks_come_back(blocks: Messages) -> None:
    assert to_anthropic(stored(from_anthropic([], system=blocks))) == (blocks, [])


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ([{"role": "tool", "content": "x"}], "messages[0].role"),
        ([{"role": "user", "content": [{"type": "tool_use", "id": "t"}]}], "messages[0].content[0]"),
        (
            [{"role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "t"}]}],
            "messages[0].content[0]",
        ),
        (
            [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "tool_result", "tool_use_id": "t"}]}],
            "messages[0].content[1]",
        ),
        (
            [{"role": "assistant", "content": "x", "tool_calls": [{"id": "c"}]}],
            "messages[0].content.tool_calls",
        ),
    ],
)
def test_what_would_be_lost_is_refused_by_name(given: Any, place: str) -> None:
    with pytest.raises(InputError) as raised:
        from_anthropic(given)
    assert raised.value.field == place


def test_every_block_that_the_sdk_documents_for_anthropic_is_among_the_shapes() -> None:
    anthropic = pytest.importorskip("anthropic.types")
    assert kinds(anthropic.ContentBlockParam) | kinds(anthropic.ContentBlock) <= shown_kinds(ANTHROPIC)


def test_objects_of_the_anthropic_sdk_are_taken_as_they_come() -> None:
    anthropic = pytest.importorskip("anthropic.types")
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "x", "citations": None},
    ]
    message = {
        "role": "assistant",
        "content": [anthropic.ThinkingBlock.model_validate(blocks[0]), anthropic.TextBlock.model_validate(blocks[1])],
    }
    user = {"role": "user", "content": "hi"}
    assert to_anthropic(from_anthropic([user, message]))[1] == [user, {"role": "assistant", "content": blocks}]


def test_content_may_be_any_iterable_as_the_types_say() -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    message = {"role": "user", "content": iter(blocks)}
    assert to_anthropic(from_anthropic([message]))[1] == [{"role": "user", "content": blocks}]
