"""``memoranda context``: the window that it cuts, what it says of the rest, and the messages that it writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, ToolMemory
from memoranda_context.explaining import window_of
from memoranda_messages import to_openai

Command = Callable[..., Any]


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


def test_context_is_whole_and_says_what_it_left_out(command: Command, talk: str) -> None:
    result = json.loads(command("context", "--session", "s", "--rounds", "1", "--json", "--store", talk).stdout)

    assert [item["content"] for item in result["items"]] == ["Be brief.", "Thanks. Book a flight."]
    reasons = [entry["reason"] for entry in result["left_out"]]
    assert reasons == ["before the last round"] * 4 + ["a call without all its results"]


def test_context_keeps_to_a_token_budget(command: Command, talk: str) -> None:
    result = json.loads(command("context", "--session", "s", "--tokens", "20", "--json", "--store", talk).stdout)

    assert result["tokens"] <= 20
    assert {entry["reason"] for entry in result["left_out"]} >= {"over the budget of 20 tokens"}


def test_context_groups_what_it_leaves_out_of_a_long_history(command: Command, tmp_path: Path) -> None:
    url = f"shelf:///{tmp_path / 'long'}"
    lines = [{"content": f"said {number}", "memory_type": "human"} for number in range(300)]
    lines += [
        {"content": f"old {number}", "memory_type": "item", "archived_by": f"summary-{number // 2}"}
        for number in range(20)
    ]
    (tmp_path / "long.jsonl").write_text("\n".join(map(json.dumps, lines)))
    command("import", "long.jsonl", "--store", url)

    shown = command("context", "--all", "--rounds", "2", "--explain", "--store", url)
    document = json.loads(command("context", "--all", "--rounds", "2", "--json", "--store", url).stdout)

    assert "298 items" in shown.stderr
    assert "10 summaries stand for them" in shown.stderr
    assert len(shown.stderr.splitlines()) < 20
    assert len(document["left_out"]) == 318


def test_context_explains_itself_beside_the_window(command: Command, talk: str) -> None:
    result = command("context", "--session", "s", "--explain", "--store", talk)

    assert "Oslo: snow" in result.stdout
    assert "a call without all its results" in result.stderr
    assert "a call without all its results" not in result.stdout


def test_context_writes_provider_messages(command: Command, talk: str) -> None:
    openai = json.loads(command("context", "--session", "s", "--format", "openai", "--store", talk).stdout)
    anthropic = json.loads(command("context", "--session", "s", "--format", "anthropic", "--store", talk).stdout)

    assert [message["role"] for message in openai] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert [block["text"] for block in anthropic["system"]] == ["Be brief."]
    assert [message["role"] for message in anthropic["messages"]] == ["user", "assistant", "user", "user"]


def test_an_unknown_token_counter_says_which_there_are(command: Command, talk: str) -> None:
    result = command("context", "--all", "--tokens", "5", "--counter", "abacus", "--store", talk)

    assert result.exit_code == 3
    assert "estimate" in result.stderr


def test_a_question_shows_the_whole_prompt_and_what_it_costs(command: Command, talk: str) -> None:
    done = command("context", "--store", talk, "--user", "ada", "--session", "new", "-q", "What do you know about me?")
    assert "# Request" in done.stdout
    assert "What was said before" in done.stdout
    assert "a cache can reuse" in done.stderr
    found = json.loads(
        command("context", "--store", talk, "--user", "ada", "--session", "new", "-q", "Hello?", "--json").stdout
    )
    assert found["messages"][-1] == {"role": "user", "content": "Hello?"}
    assert found["reusable"] <= found["tokens"]


def test_a_prompt_needs_an_owner(command: Command, talk: str) -> None:
    done = command("context", "--store", talk, "--all", "-q", "Hello?")
    assert done.exit_code == 2
    assert "name an owner" in done.stderr
