"""The window that the command cuts: of sessions that speak at once, every result stands with its own call."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, ToolMemory
from memoranda_context.explaining import window_of
from memoranda_messages import to_openai


def said_at_once(order: Sequence[str]) -> list[MemoryItem]:
    """Return what sessions say in that order: each asks, calls and answers in turn, and all use the same call id."""
    items: list[MemoryItem] = []
    steps = dict.fromkeys(order, 0)
    for session in order:
        step, scope = steps[session], MemoryMetadata(user_id="ada", session_id=session)
        of = f"{session}/{step // 3}"
        if step % 3 == 0:
            items.append(HumanMemory(content=f"asks {of}", metadata=scope))
        elif step % 3 == 1:
            calls = [{"id": "call_0", "name": "weather", "arguments": {"of": of}}]
            items.append(AIMemory(content=f"calls {of}", tool_calls=calls, metadata=scope))
        else:
            items.append(ToolMemory(content=of, tool_call_id="call_0", tool_name="weather", metadata=scope))
        steps[session] += 1
    return items


@given(st.lists(st.sampled_from(["one", "two", "three"]), max_size=30), st.integers(0, 6), st.integers(0, 400))
def test_no_window_mixes_sessions_up(order: list[str], rounds: int, budget: int) -> None:
    window = window_of(said_at_once(order), rounds=rounds, tokens=budget, count=lambda item: len(item.content))

    called: dict[str, str] = {}
    answered = []
    for message in to_openai(window.shown):
        called |= {
            call["id"]: json.loads(call["function"]["arguments"])["of"] for call in message.get("tool_calls", ())
        }
        if message["role"] == "tool":
            assert called[message["tool_call_id"]] == message["content"]
            answered.append(message["tool_call_id"])
    assert sorted(answered) == sorted(called)
