"""What the providers refuse, written from their published rules; it shares nothing with the library."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

Messages = list[dict[str, Any]]
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check_chat(messages: Messages) -> None:
    """Raise AssertionError where OpenAI's chat completions would answer with an error."""
    used: set[str] = set()
    waiting: set[str] = set()
    function: str | None = None
    for message in messages:
        role = message["role"]
        assert role in {"system", "developer", "user", "assistant", "tool", "function"}
        if role == "tool":
            assert message["tool_call_id"] in waiting, "a result that no call right before it asked for"
            waiting.remove(message["tool_call_id"])
        elif role == "function":
            assert message["name"] == function, "a function's result without its call"
            function = None
        else:
            assert not waiting, "a call without its result right behind it"
            assert function is None, "a function call without its result right behind it"
        if role not in ("tool", "function") and "name" in message:
            assert re.fullmatch(r"[^\s<|\\/>]{1,64}", message["name"])
        calls = message.get("tool_calls")
        assert calls is None or calls, "an empty list of calls"
        for call in calls or ():
            assert role == "assistant"
            assert call["id"] not in used, "an id names two calls"
            assert 0 < len(call["id"]) <= 40
            used.add(call["id"])
            waiting.add(call["id"])
            held = call.get("function") or call["custom"]
            assert TOOL_NAME.fullmatch(held["name"])
            assert isinstance(held.get("arguments", held.get("input")), str)
        if message.get("function_call"):
            function = message["function_call"]["name"]
        if role == "assistant":
            says = any(message.get(key) for key in ("tool_calls", "function_call", "refusal", "audio"))
            assert says or message.get("content") is not None, "an assistant that says nothing"
        elif role != "function":
            assert isinstance(message["content"], (str, list))
    assert not waiting
    assert function is None


def check_anthropic(system: Messages, messages: Messages) -> None:
    """Raise AssertionError where Anthropic's messages would answer with an error."""
    assert all(block["type"] == "text" and block["text"].strip() for block in system)
    turns: list[tuple[str, Messages]] = []
    for message in messages:
        assert message["role"] in {"user", "assistant", "system"}
        content = message["content"]
        assert content, "a message without content"
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        assert all(block["text"].strip() for block in blocks if block["type"] == "text"), "blank text"
        if message["role"] != "system":
            turns.append((message["role"], blocks))
    if turns:
        assert turns[0][0] == "user", "the first message is not the user's"
    used: set[str] = set()
    asked: set[str] = set()
    for role, parts in groupby(turns, key=lambda turn: turn[0]):  # Turns of one role in a row count as one.
        blocks = [block for _, inner in parts for block in inner]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert sorted(results) == sorted(asked), "not the results of all calls before, each once"
        assert all(block["type"] == "tool_result" for block in blocks[: len(results)]), "results come first"
        assert role == "user" or not results
        uses = [block for block in blocks if block["type"] == "tool_use"]
        assert role == "assistant" or not uses
        asked = {block["id"] for block in uses}
        assert len(asked) == len(uses)
        assert not asked & used, "an id names two calls"
        used |= asked
        for block in uses:
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block["id"])
            assert TOOL_NAME.fullmatch(block["name"])
            assert isinstance(block["input"], dict)
    assert not asked, "a call without its result"


ANSWERS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
}


def check_responses(items: Messages) -> None:
    """Raise AssertionError where OpenAI's Responses API would answer with an error."""
    ids = [item["id"] for item in items if "id" in item]
    assert len(ids) == len(set(ids)), "an item is there twice"
    calls: dict[str, str] = {}
    answered: set[str] = set()
    for position, item in enumerate(items):
        kind = item.get("type", "message")
        if kind in ANSWERS:
            assert item["call_id"] not in calls, "an id names two calls"
            assert 0 < len(item["call_id"]) <= 64
            calls[item["call_id"]] = kind
            assert TOOL_NAME.fullmatch(item.get("name", "computer"))
        elif kind in ANSWERS.values():
            assert item["call_id"] in calls, "an output without its call"
            assert item["call_id"] not in answered, "a second output"
            assert ANSWERS[calls[item["call_id"]]] == kind
            answered.add(item["call_id"])
        elif kind == "reasoning":
            following = items[position + 1]
            made = following.get("role") == "assistant" or following.get("type") in {*ANSWERS, "reasoning"}
            assert made, "reasoning without what it led to"
        else:
            assert kind == "message"
            assert item["role"] in {"user", "assistant", "system", "developer"}
            assert isinstance(item["content"], (str, list))
    assert answered == set(calls), "a call without its output"
