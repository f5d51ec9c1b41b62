"""Every item of the Responses API that the SDK documents goes in and comes back equal, or is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from message_shapes import Messages, exactly, kinds, shown_kinds, stored

from memoranda import AIMemory
from memoranda.errors import InputError
from memoranda_messages import from_responses, to_responses

RESPONSES_USER: dict[str, Any] = {"role": "user", "content": "hi"}
REASONING: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": []}
ANSWER: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "hello", "annotations": []}],
}
FUNCTION_CALL: dict[str, Any] = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
FUNCTION_OUTPUT: dict[str, Any] = {"type": "function_call_output", "call_id": "c1", "output": "done"}


def _paired(call: str, output: str, asked: dict[str, Any], told: dict[str, Any]) -> Messages:
    return [{"type": call, "call_id": "c1", **asked}, {"type": output, "call_id": "c1", **told}]


RESPONSES: dict[str, Messages] = {
    "user": [RESPONSES_USER],
    "user with a type": [{"type": "message", **RESPONSES_USER}],
    "user in parts": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
    "user with an empty text": [{"role": "user", "content": ""}],
    "user without parts": [{"role": "user", "content": []}],
    "user as the API returns it": [
        {
            "id": "msg_0",
            "type": "message",
            "role": "user",
            "status": "completed",
            "content": [{"type": "input_text", "text": "hi"}],
        }
    ],
    "user with an image": [{"role": "user", "content": [{"type": "input_image", "image_url": "u", "detail": "auto"}]}],
    "user with a file": [
        {"role": "user", "content": [{"type": "input_file", "file_id": "f"}, {"type": "input_text", "text": "x"}]}
    ],
    "user with sound": [
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "A", "format": "mp3"}}]}
    ],
    "system": [{"role": "system", "content": "Be brief."}],
    "developer": [{"role": "developer", "content": "Be brief."}],
    "assistant": [{"role": "assistant", "content": "hello"}],
    "assistant with a phase": [{"role": "assistant", "content": "hello", "phase": "commentary"}],
    "answer": [ANSWER],
    "answer with citations": [
        ANSWER
        | {
            "content": [
                {
                    "type": "output_text",
                    "text": "x",
                    "annotations": [
                        {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
                    ],
                    "logprobs": [],
                }
            ]
        }
    ],
    "refusal": [ANSWER | {"content": [{"type": "refusal", "refusal": "No."}]}],
    "unknown key": [ANSWER | {"mood": {"a": None}}],
    "function call": [FUNCTION_CALL, FUNCTION_OUTPUT],
    "function call as the API returns it": [
        FUNCTION_CALL | {"id": "fc_1", "status": "completed"},
        FUNCTION_OUTPUT | {"id": "fco_1", "status": "completed"},
    ],
    "function call of a namespace": [FUNCTION_CALL | {"namespace": "n"}, FUNCTION_OUTPUT],
    "function call with broken arguments": [FUNCTION_CALL | {"arguments": "{"}, FUNCTION_OUTPUT],
    "function output in parts": [
        FUNCTION_CALL,
        FUNCTION_OUTPUT | {"output": [{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": "u"}]},
    ],
    "empty function output": [FUNCTION_CALL, FUNCTION_OUTPUT | {"output": ""}],
    "function output without parts": [FUNCTION_CALL, FUNCTION_OUTPUT | {"output": []}],
    "function output with a name": [FUNCTION_CALL, FUNCTION_OUTPUT | {"name": "f", "caller": {"type": "direct"}}],
    "parallel function calls": [
        FUNCTION_CALL,
        FUNCTION_CALL | {"call_id": "c2"},
        FUNCTION_OUTPUT | {"call_id": "c2"},
        FUNCTION_OUTPUT,
    ],
    "something between a call and its output": [FUNCTION_CALL, RESPONSES_USER, FUNCTION_OUTPUT],
    "custom call": _paired(
        "custom_tool_call", "custom_tool_call_output", {"name": "code", "input": "1+1"}, {"output": "2"}
    ),
    "custom output in parts": _paired(
        "custom_tool_call",
        "custom_tool_call_output",
        {"id": "ctc_1", "name": "code", "input": ""},
        {"output": [{"type": "input_text", "text": "2"}]},
    ),
    "computer call": _paired(
        "computer_call",
        "computer_call_output",
        {
            "id": "cu_1",
            "action": {"type": "click", "x": 1, "y": 2, "button": "left"},
            "pending_safety_checks": [],
            "status": "completed",
        },
        {"output": {"type": "computer_screenshot", "image_url": "u"}, "acknowledged_safety_checks": [{"id": "s"}]},
    ),
    "computer call with several actions": _paired(
        "computer_call",
        "computer_call_output",
        {"id": "cu_1", "actions": [{"type": "wait"}], "pending_safety_checks": [], "status": "completed"},
        {"output": {"type": "computer_screenshot", "file_id": "f"}},
    ),
    "local shell call": [
        {
            "type": "local_shell_call",
            "id": "ls_1",
            "call_id": "c1",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
            "status": "completed",
        },
        {"type": "local_shell_call_output", "id": "c1", "output": "files"},
    ],
    "shell call": _paired(
        "shell_call",
        "shell_call_output",
        {"action": {"commands": ["ls"], "timeout_ms": None}},
        {
            "output": [{"stdout": "x", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
            "max_output_length": 9,
        },
    ),
    "patch call": _paired(
        "apply_patch_call",
        "apply_patch_call_output",
        {"operation": {"type": "delete_file", "path": "p"}, "status": "completed"},
        {"status": "failed", "output": "no such file"},
    ),
    "patch call without output": _paired(
        "apply_patch_call",
        "apply_patch_call_output",
        {"operation": {"type": "create_file", "path": "p", "diff": "+"}, "status": "completed"},
        {"status": "completed"},
    ),
    "client's tool search": _paired(
        "tool_search_call",
        "tool_search_output",
        {"arguments": {"q": "x"}, "execution": "client"},
        {"tools": [], "execution": "client"},
    ),
    "server's tool search": [
        {"type": "tool_search_call", "call_id": None, "arguments": {}, "execution": "server"},
        {
            "type": "tool_search_output",
            "call_id": None,
            "tools": [{"type": "function", "name": "f"}],
            "execution": "server",
        },
    ],
    "program": [
        {"type": "program", "id": "p_1", "call_id": "p", "code": "f()", "fingerprint": "x"},
        FUNCTION_CALL | {"caller": {"type": "program", "caller_id": "p"}},
        FUNCTION_OUTPUT | {"caller": {"type": "program", "caller_id": "p"}},
        {"type": "program_output", "id": "po_1", "call_id": "p", "result": "1", "status": "completed"},
    ],
    "approval": [
        {"type": "mcp_approval_request", "id": "ar_1", "name": "f", "arguments": "{}", "server_label": "s"},
        {"type": "mcp_approval_response", "approval_request_id": "ar_1", "approve": False, "reason": "no"},
    ],
    "tools of a server": [
        {"type": "mcp_list_tools", "id": "l_1", "server_label": "s", "tools": [{"name": "f", "input_schema": {}}]}
    ],
    "call of a server": [
        {
            "type": "mcp_call",
            "id": "m_1",
            "name": "f",
            "arguments": "{}",
            "server_label": "s",
            "output": "x",
            "error": None,
        }
    ],
    "web search": [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
        ANSWER,
    ],
    "file search": [
        {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["x"], "results": None}
    ],
    "code": [
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "code": "1",
            "container_id": "c",
            "outputs": None,
            "status": "completed",
        }
    ],
    "image": [{"type": "image_generation_call", "id": "ig_1", "result": "AA", "status": "completed"}],
    "reasoning": [REASONING, ANSWER],
    "reasoning alone": [REASONING],
    "encrypted reasoning": [
        REASONING
        | {
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "AA",
            "content": [{"type": "reasoning_text", "text": "hm"}],
            "status": None,
        },
        FUNCTION_CALL | {"id": "fc_1"},
        FUNCTION_OUTPUT,
    ],
    "reasoning without an id": [
        {"type": "reasoning", "summary": [], "encrypted_content": "AA"},
        FUNCTION_CALL,
        FUNCTION_OUTPUT,
    ],
    "reasoning twice": [REASONING, FUNCTION_CALL, FUNCTION_OUTPUT, REASONING | {"id": "rs_2"}, ANSWER],
    "reference": [{"type": "item_reference", "id": "msg_9"}],
    "reference without a type": [{"id": "msg_9"}],
    "reference with a null type": [{"id": "msg_9", "type": None}],
    "compaction": [{"type": "compaction", "id": "cmp_1", "encrypted_content": "AA"}],
    "compaction trigger": [{"type": "compaction_trigger"}],
    "additional tools": [{"type": "additional_tools", "role": "developer", "tools": [{"type": "web_search"}]}],
    "configuration": [{"type": "configuration_update", "reasoning": {"effort": "low"}}],
}


@pytest.mark.parametrize("items", RESPONSES.values(), ids=RESPONSES)
def test_items_of_the_responses_api_come_back(items: Messages) -> None:
    assert exactly(to_responses(stored(from_responses(items)), strict=True)) == exactly(items)


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ([{"type": "dream"}], "items[0].type"),
        ([{"type": 5}], "items[0].type"),
        ([{}], "items[0].id"),
        ([{"type": "message", "content": "x"}], "items[0].role"),
        ([{"role": "tool", "content": "x"}], "items[0].role"),
        ([{"type": "function_call", "name": "f"}], "items[0].call_id"),
        ([{"type": "function_call_output", "output": "x"}], "items[0].call_id"),
        ([{"type": "function_call_output", "call_id": "c", "output": 5}], "items[0].output"),
        ([{"type": "mcp_approval_response", "approve": True}], "items[0].approval_request_id"),
        ([{"role": "assistant", "content": "x", "tool_calls": [{"id": "c"}]}], "items[0].tool_calls"),
        (5, "items"),
        ([AIMemory(content="x")], "items[0]"),
    ],
)
def test_what_would_be_lost_is_refused_by_name(given: Any, place: str) -> None:
    with pytest.raises(InputError) as raised:
        from_responses(given)
    assert raised.value.field == place


def test_every_item_that_the_sdk_documents_for_responses_is_among_the_shapes() -> None:
    responses = pytest.importorskip("openai.types.responses")
    assert kinds(responses.ResponseInputItemParam) | kinds(responses.ResponseItem) <= shown_kinds(RESPONSES)
    assert kinds(responses.ResponseOutputItem) <= shown_kinds(RESPONSES)


def test_objects_of_the_responses_api_are_taken_as_they_come() -> None:
    responses = pytest.importorskip("openai.types.responses")
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "f",
        "arguments": "{}",
        "status": "completed",
    }
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "AA"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "done"}
    objects = [
        responses.ResponseReasoningItem.model_validate(thought),
        responses.ResponseFunctionToolCall.model_validate(call),
    ]
    assert to_responses(from_responses([*objects, output])) == [thought, call, output]
