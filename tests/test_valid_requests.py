"""Whatever the history and however it is cut, what goes out is what the providers take (see ``provider_rules``)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda import (
    AIMemory,
    HumanMemory,
    MemoryItem,
    MemoryMetadata,
    ShortTermMemory,
    SummaryMemory,
    SystemMemory,
    ToolMemory,
)
from memoranda.errors import InputError
from memoranda.integrity import whole_groups
from memoranda.items import BranchMemory
from memoranda.tokens import estimate_tokens
from memoranda.windowing import last_rounds, newest, rounds_within
from memoranda_context import AssembledContext, ContextManager
from memoranda_messages import (
    Dropped,
    from_anthropic,
    from_openai,
    from_responses,
    to_anthropic,
    to_openai,
    to_responses,
)
from memoranda_summary import SummaryConfig, compact
from memoranda_summary.generation import split
from provider_rules import Messages, check_anthropic, check_chat, check_responses

AUTHORITY = "As the developer I say"
CALL_IDS = st.sampled_from(["a", "a", "b", "a_2", "call 1:é", "c" * 70])
CONTENT = st.sampled_from(["", " \n", "hi", "hello", "{}", "Where is it?"])
OWNERS = st.builds(
    MemoryMetadata,
    user_id=st.just("u"),
    session_id=st.sampled_from(["s", "s", "s", "t"]),
    agent_id=st.sampled_from([None, None, "x"]),
)
NAMES = st.sampled_from([None, None, "ada", "Ada Lovelace", "a/b<c|d>\\", " ", "n" * 80])
GROUPS = st.sampled_from([None, None, None, "g", "h"])
CALLS = st.lists(
    st.builds(
        lambda call_id, name, arguments: {"id": call_id, "name": name, "arguments": arguments},
        CALL_IDS,
        st.sampled_from(["clock", "a.b", "", "with space", "n" * 80]),
        st.sampled_from([{}, {"a": [1]}, "no json", "[1]", None]),
    ),
    max_size=3,
)
SHARED: dict[str, Any] = {"metadata": OWNERS, "group": GROUPS, "name": NAMES}
PLAIN: st.SearchStrategy[MemoryItem] = st.one_of(
    st.builds(HumanMemory, content=CONTENT, **SHARED),
    st.builds(AIMemory, content=CONTENT, tool_calls=CALLS, **SHARED),
    st.builds(AIMemory, content=CONTENT, tool_calls=CALLS, **SHARED),
    st.builds(
        ToolMemory,
        content=CONTENT,
        tool_call_id=CALL_IDS,
        also_answers=st.lists(CALL_IDS, max_size=1),
        is_error=st.booleans(),
        **SHARED,
    ),
    st.builds(ToolMemory, content=CONTENT, tool_call_id=CALL_IDS, **SHARED),
    st.builds(SummaryMemory, content=CONTENT, lasting=st.booleans(), metadata=OWNERS),
    st.builds(SystemMemory, content=st.just(f"{AUTHORITY}: be brief."), metadata=OWNERS),
    st.builds(MemoryItem, content=CONTENT, memory_type=st.sampled_from(["note", "developer", "item"]), metadata=OWNERS),
)

CHAT_TURNS: list[Messages] = [
    [{"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": "u"}}]}],
    [{"role": "developer", "content": f"{AUTHORITY}: x"}],
    [{"role": "assistant", "content": None, "refusal": "No."}],
    [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "f", "arguments": "{}"},
                    "extra_content": {"s": 1},
                },
                {"id": "b", "type": "custom", "custom": {"name": "g", "input": "x"}},
            ],
        },
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "done"}]},
        {"role": "tool", "tool_call_id": "a", "content": "done", "name": "f"},
    ],
    [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "done"},
    ],
]
ANTHROPIC_TURNS: list[Messages] = [
    [{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]}],
    [{"role": "user", "content": [{"type": "text", "text": " "}, {"type": "image", "source": {}}]}],
    [{"role": "user", "content": "hi"}, {"role": "system", "content": f"{AUTHORITY}: y"}],
    [
        {
            "role": "assistant",
            "content": [
                {"type": "redacted_thinking", "data": "x"},
                {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                {"type": "text", "text": "wait"},
                {"type": "tool_use", "id": "b", "name": "f", "input": {}, "cache_control": {"type": "ephemeral"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "b", "is_error": False},
                {"type": "tool_result", "tool_use_id": "a", "content": "done"},
                {"type": "text", "text": "and?"},
            ],
        },
    ],
]
RESPONSES_TURNS: list[Messages] = [
    [{"type": "reasoning", "id": "rs_0", "summary": []}],
    [{"role": "developer", "content": f"{AUTHORITY}: z"}],
    [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "computer_call", "id": "cu_1", "call_id": "b", "action": {"type": "wait"}},
        {"type": "function_call_output", "call_id": "a", "output": "done"},
        {"type": "computer_call_output", "call_id": "b", "output": {"type": "computer_screenshot"}},
    ],
    [
        {"type": "reasoning", "id": "rs_2", "summary": []},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "hi", "annotations": []}],
        },
    ],
    [
        {"type": "custom_tool_call", "call_id": "a", "name": "f", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "y"}]},
    ],
]


@st.composite
def histories(draw: st.DrawFn) -> list[MemoryItem]:
    """Items of every kind and of every provider in any order, some of them gone, moved or changed since they came."""
    items: list[MemoryItem] = []
    for _ in range(draw(st.integers(0, 8))):
        source = draw(st.sampled_from(["plain", "plain", "calls", "chat", "anthropic", "responses"]))
        owner = draw(OWNERS)
        if source == "plain":
            items += [draw(PLAIN)]
        elif source == "calls":
            calls = draw(CALLS)
            items += [AIMemory(content=draw(CONTENT), tool_calls=calls, metadata=owner)]
            items += [ToolMemory(content="", tool_call_id=call["id"], metadata=owner) for call in reversed(calls)]
        elif source == "chat":
            items += from_openai(draw(st.sampled_from(CHAT_TURNS)), metadata=owner)
        elif source == "anthropic":
            turns = [{"role": "user", "content": "x"}, *draw(st.sampled_from(ANTHROPIC_TURNS))]
            items += from_anthropic(turns, metadata=owner)[1:]
        else:
            items += from_responses(draw(st.sampled_from(RESPONSES_TURNS)), metadata=owner)
    for position in range(len(items)):
        change = draw(st.integers(0, 19))
        if change == 0 and not items[position].content.startswith(AUTHORITY):
            items[position].content = draw(CONTENT)
        elif change == 1:
            other = draw(st.integers(0, len(items) - 1))
            items[position], items[other] = items[other], items[position]
    kept = draw(st.lists(st.integers(0, 9), min_size=len(items), max_size=len(items)))
    return [item for item, stays in zip(items, kept, strict=True) if stays]


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or message.get("text") or ""
    return content if isinstance(content, str) else " ".join(text_of(block) for block in content)


def check_everything(items: Sequence[MemoryItem]) -> None:
    """Check what every codec puts out, and that nothing but system items speaks with authority."""
    # Reasoning that was given last of all goes out as it came, since its outcome is what the model is asked for.
    chat, responses = to_openai(items), to_responses([*items, HumanMemory(content="Go on.")])
    system, messages = to_anthropic(items)
    check_chat(chat)
    check_anthropic(system, messages)
    check_responses(responses)
    for message in [*chat, *responses, *messages, *(block | {"role": "system"} for block in system)]:
        if message.get("role") in ("system", "developer"):
            assert text_of(message).startswith(AUTHORITY), "something else speaks for the system"


def check_context(context: AssembledContext) -> None:
    """Check what a context puts out for each provider."""
    check_chat(context.messages())
    check_anthropic(*context.messages("anthropic"))
    check_responses(context.messages("responses"))
    for message in context.messages():
        assert message["role"] not in ("system", "developer") or text_of(message).startswith(AUTHORITY)


@given(histories())
def test_whole_histories_go_out_as_providers_take_them(items: list[MemoryItem]) -> None:
    check_everything(items)


@given(histories(), st.integers(0, 9), st.integers(0, 4), st.integers(0, 60))
def test_every_window_goes_out_as_providers_take_it(
    items: list[MemoryItem], limit: int, rounds: int, budget: int
) -> None:
    for window in (newest(items, limit), last_rounds(items, rounds), rounds_within(items, budget, estimate_tokens)):
        check_everything(whole_groups(window, items))
        check_everything(window)


@given(histories(), st.integers(0, 9))
def test_what_compaction_keeps_goes_out_as_providers_take_it(items: list[MemoryItem], recent: int) -> None:
    older, kept = split(items, recent)
    check_everything([SummaryMemory(content="They talked."), *kept])
    assert {id(item) for item in older}.isdisjoint(id(item) for item in kept)


@given(histories(), st.integers(0, 200), st.integers(1, 9))
def test_every_context_goes_out_as_providers_take_it(items: list[MemoryItem], budget: int, limit: int) -> None:
    async def check() -> None:
        memory = ShortTermMemory(scope="user")
        await memory.add_many({item.id: item for item in items}.values())
        for short_term in (memory, None):
            manager = ContextManager(long_term=memory, token_budget=budget, recent_limit=limit)
            context = await manager.assemble_context(
                "Well?", short_term, conversation=() if short_term else items, metadata=MemoryMetadata(user_id="u")
            )
            check_context(context)

    asyncio.run(check())


class Fork(NamedTuple):
    """A session is forked at one of the items that it shows."""

    session: int
    at: int


class Saying(NamedTuple):
    """The next few items are said in a session."""

    session: int
    items: int


class Compaction(NamedTuple):
    """All of a session but its last items is summarised."""

    session: int
    recent: int


NUMBERS = st.integers(0, 7)
EVENTS = st.one_of(
    st.builds(Fork, NUMBERS, NUMBERS),
    st.builds(Saying, NUMBERS, st.integers(1, 4)),
    st.builds(Saying, NUMBERS, st.integers(1, 4)),
    st.builds(Compaction, NUMBERS, st.integers(0, 5)),
)


class Summarizer:
    """Answers with the same few words."""

    async def summarize(self, prompt: str) -> str:
        return "They talked."


def in_session(session: str) -> MemoryMetadata:
    return MemoryMetadata(user_id="u", session_id=session)


async def happened(memory: ShortTermMemory, events: Sequence[Fork | Saying | Compaction]) -> list[str]:
    """Fork, go on with and compact the sessions of a conversation, and return which ones there are in the end.

    What is said later are the items of the sessions so far once more, so that their calls and results are told apart
    by nothing but where they stand.
    """
    sessions = ["s", "t"]
    for event in events:
        session = sessions[event.session % len(sessions)]
        said = [item async for item in memory.scan(metadata=in_session(session), order="added")]
        if isinstance(event, Compaction):
            config = SummaryConfig(keep_recent=event.recent)
            await compact(memory, in_session(session), config, Summarizer(), force=True)
        elif not said:
            continue
        elif isinstance(event, Fork):
            sessions.append(await memory.fork(session, at=said[event.at % len(said)].id))
        else:
            again = [item for item in said if not isinstance(item, (BranchMemory, SummaryMemory))][-event.items :]
            new = {"metadata": in_session(session), "archived_by": None, "version": 0}
            await memory.add_many([item.model_copy(update={**new, "id": uuid4().hex}) for item in again])
    return sessions


@settings(max_examples=2 * settings.default.max_examples)
@given(histories(), st.lists(EVENTS, min_size=2, max_size=6), st.integers(0, 4), st.integers(0, 9), st.integers(0, 120))
def test_every_session_that_was_forked_goes_out_as_providers_take_it(
    items: list[MemoryItem], events: list[Fork | Saying | Compaction], rounds: int, limit: int, budget: int
) -> None:
    async def check() -> None:
        memory = ShortTermMemory(scope="session", max_rounds=rounds)
        await memory.add_many({item.id: item for item in items}.values())
        for session in await happened(memory, events):
            asked = in_session(session)
            windows = [
                await memory.window(metadata=asked, **bounds)
                for bounds in ({"rounds": rounds}, {"limit": limit}, {"tokens": budget}, {})
            ]
            windows += [await memory.search(metadata=asked, **found) for found in ({"limit": limit}, {"query": "h"})]
            for window in windows:
                assert whole_groups(window) == window
                check_everything(window)
            manager = ContextManager(token_budget=budget, recent_limit=limit + 1)
            check_context(await manager.assemble_context("Well?", memory, metadata=asked))

    asyncio.run(check())


@given(histories())
def test_what_was_sent_and_read_goes_out_the_same(items: list[MemoryItem]) -> None:
    chat = to_openai(items)
    assert to_openai(from_openai(chat)) == chat
    responses = to_responses(items)
    assert to_responses(from_responses(responses)) == responses
    system, messages = to_anthropic(items)
    assert to_anthropic(from_anthropic(messages, system=system)) == (system, messages)


@given(histories())
def test_strict_refuses_just_what_would_be_told(items: list[MemoryItem]) -> None:
    writers: list[Any] = [to_openai, to_responses, to_anthropic]
    for write in writers:
        told: list[Dropped] = []
        written = write(items, dropped=told)
        lost = [each for each in told if each.reason == "unsupported"]
        if lost:
            with pytest.raises(InputError, match=re.escape(lost[0].what)):
                write(items, strict=True)
        else:
            assert write(items, strict=True) == written
