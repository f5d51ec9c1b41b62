"""Messages that somebody spoilt at any place come back equal, or are refused by name, or what changed is told."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from memoranda.errors import InputError
from memoranda_messages import (
    Dropped,
    from_anthropic,
    from_openai,
    from_responses,
    to_anthropic,
    to_openai,
    to_responses,
)

Messages = list[dict[str, Any]]

CHAT: list[Messages] = [
    [
        {
            "role": "user",
            "name": "ada",
            "content": [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {}}],
        }
    ],
    [{"role": "assistant", "content": None, "refusal": "No.", "audio": {"id": "a", "transcript": "No."}}],
    [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}, "index": 0},
                {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "x"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "x"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "x", "name": "f"},
    ],
    [
        {"role": "assistant", "content": "x", "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "x"},
    ],
]
ANTHROPIC: list[Messages] = [
    [
        {"role": "user", "content": "x"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "x", "citations": None},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
                {"type": "tool_use", "id": "t2", "name": "f", "input": {}, "cache_control": {"type": "ephemeral"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "x"}]},
                {"type": "tool_result", "tool_use_id": "t2", "is_error": False},
                {"type": "text", "text": "x"},
            ],
        },
        {"role": "system", "content": [{"type": "text", "text": "x"}]},
    ],
]
RESPONSES: list[Messages] = [
    [
        {"type": "reasoning", "id": "rs", "summary": []},
        {"type": "function_call", "id": "fc", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "x"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "x"}]},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "x"},
        {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]},
    ],
    [
        {"type": "program", "id": "p1", "call_id": "p", "code": "f()", "fingerprint": "x"},
        {
            "type": "shell_call",
            "call_id": "c",
            "action": {"commands": ["ls"]},
            "caller": {"type": "program", "caller_id": "p"},
        },
        {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "x", "stderr": ""}]},
        {"type": "program_output", "id": "p2", "call_id": "p", "result": "x", "status": "completed"},
        {"type": "mcp_approval_request", "id": "ar", "name": "f", "arguments": "{}", "server_label": "s"},
        {"type": "mcp_approval_response", "approval_request_id": "ar", "approve": True},
    ],
    [{"type": "web_search_call", "id": "ws", "action": {}}, {"id": "r"}, {"role": "user", "content": "x"}],
]
VALUES: list[Any] = [
    *(None, "", [], {}, 5, 0, 1.5, True, "x", " ", ["x"], [{}], {"id": "a"}),
    *({"type": "text"}, [{"type": "text", "text": "x"}]),
]
KEYS = (
    "extra",
    "role",
    "type",
    "content",
    "id",
    "name",
    "tool_calls",
    "function_call",
    "is_error",
    "refusal",
    "caller",
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every key of every object and every position of every list, with what holds it."""
    held = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(held):
        yield value, key
        yield from places(inner)


def spoilt(messages: Messages, randomly: Random) -> Messages:
    messages = copy.deepcopy(messages)
    for _ in range(randomly.choice([1, 1, 1, 2, 3])):
        found = list(places(messages))
        if not found:
            break
        holder, key = randomly.choice(found)
        way = randomly.random()
        if way < 0.3:
            del holder[key]
        elif way < 0.8 or not isinstance(holder, dict):
            holder[key] = copy.deepcopy(randomly.choice(VALUES))
        else:
            holder[randomly.choice(KEYS)] = copy.deepcopy(randomly.choice(VALUES))
    return messages


def in_any_order(messages: Any) -> list[str]:
    """Return messages as texts, sorted, since results are moved up to their calls."""
    return sorted(json.dumps(message, sort_keys=True) for message in messages)


@pytest.mark.parametrize(
    ("shapes", "read", "write"),
    [
        (CHAT, from_openai, to_openai),
        (ANTHROPIC, from_anthropic, lambda items, dropped: to_anthropic(items, dropped=dropped)[1]),
        (RESPONSES, from_responses, to_responses),
    ],
    ids=["chat", "anthropic", "responses"],
)
@pytest.mark.parametrize("seed", range(4))
def test_nothing_changes_in_silence(shapes: list[Messages], read: Any, write: Any, seed: int) -> None:
    randomly = Random(seed)
    refused: list[str | None] = []
    for _ in range(250):
        messages = spoilt(randomly.choice(shapes), randomly)
        try:
            items = read(messages)
        except InputError as error:
            refused.append(error.field)
            continue
        told: list[Dropped] = []
        sent = write(items, dropped=told)
        assert told or in_any_order(sent) == in_any_order(messages)
    assert all(refused), "what is refused is named"
