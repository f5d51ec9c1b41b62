"""Several sessions, tasks and agents in one view, with the same call ids: every result stands with its own call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, ShortTermMemory, SystemMemory, ToolMemory
from memoranda.history import ResponseMem
from memoranda.integrity import whole_groups
from memoranda.windowing import last_rounds, newest, rounds_of, rounds_within
from memoranda_context import ContextManager
from memoranda_messages import results_behind_calls, to_anthropic, to_history, to_openai
from memoranda_summary.generation import split


def scope(session: str | None, **fields: Any) -> MemoryMetadata:
    return MemoryMetadata(user_id="ada", session_id=session, **fields)


def call(of: str, *ids: str, metadata: MemoryMetadata) -> AIMemory:
    """Return an item whose calls say in their arguments which result is theirs."""
    calls = [{"id": call_id, "name": "weather", "arguments": {"of": f"{of} {call_id}"}} for call_id in ids]
    return AIMemory(content=f"calls {of}", tool_calls=calls, metadata=metadata)


def result(of: str, call_id: str = "call_0", *, metadata: MemoryMetadata) -> ToolMemory:
    return ToolMemory(content=f"{of} {call_id}", tool_call_id=call_id, tool_name="weather", metadata=metadata)


def one_task(name: str, metadata: MemoryMetadata, draw: st.DrawFn) -> list[MemoryItem]:
    """Return what is said in one task: turns of parallel calls whose results may be missing, doubled or shuffled."""
    items: list[MemoryItem] = []
    for turn in range(draw(st.integers(0, 4))):
        of = f"{name}/{turn}"
        if draw(st.booleans()):
            items.append(HumanMemory(content=f"asks {of}", metadata=metadata))
        if draw(st.integers(0, 4)) == 0:
            items.append(SystemMemory(content=f"rules {of}", metadata=metadata))
        ids = [f"call_{number}" for number in range(draw(st.integers(0, 3)))]
        items.append(call(of, *ids, metadata=metadata))
        answered = draw(st.permutations(ids)) if ids else []
        for call_id in answered[: draw(st.integers(0, 4))]:
            times = draw(st.sampled_from([1, 1, 1, 2]))
            items += [result(of, call_id, metadata=metadata) for _ in range(times)]
    return items


SESSIONS = [
    MemoryMetadata(user_id=user, session_id=session) for user in ("ada", "bob") for session in (None, "s1", "s2")
]
SCOPES = [
    session.model_copy(update={"task_id": task, "agent_id": agent})
    for session in SESSIONS
    for task in (None, "t1")
    for agent in (None, "a1")
]


@st.composite
def interleavings(draw: st.DrawFn, apart: bool = False) -> list[MemoryItem]:
    """What several sessions and, unless they are to be apart, several tasks and agents in them say at the same time."""
    scopes = draw(st.lists(st.sampled_from(SESSIONS if apart else SCOPES), min_size=1, max_size=4, unique=True))
    left = [one_task(str(number), metadata, draw) for number, metadata in enumerate(scopes)]
    left = [items for items in left if items]
    order: list[MemoryItem] = []
    while left:
        items = draw(st.sampled_from(left))
        order.append(items.pop(0))
        left = [each for each in left if each]
    return order


def mixed_up(messages: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield what an OpenAI-like API, or a reader, would find wrong with messages."""
    waiting: dict[str, str] = {}
    seen: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            wanted = waiting.pop(message["tool_call_id"], None)
            if wanted != message["content"]:
                yield f"{message['content']} where {wanted} was asked for"
            continue
        if waiting:
            yield f"{waiting} is not answered right behind"
        calls = message.get("tool_calls", ())
        waiting = {each["id"]: json.loads(each["function"]["arguments"])["of"] for each in calls}
        if len(waiting) < len(calls) or waiting.keys() & seen:
            yield "an id names two calls"
        seen |= waiting.keys()
    if waiting:
        yield f"{waiting} is not answered"


def mixed_up_blocks(messages: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield what the Anthropic API would find wrong."""
    asked: dict[str, str] = {}
    seen: set[str] = set()
    for message in messages:
        blocks = message["content"]
        results = {block["tool_use_id"]: block["content"] for block in blocks if block["type"] == "tool_result"}
        if results != asked:
            yield f"{results} where {asked} was asked for"
        asked = {block["id"]: block["input"]["of"] for block in blocks if block["type"] == "tool_use"}
        if asked.keys() & seen:
            yield "an id names two calls"
        seen |= asked.keys()
    if asked:
        yield f"{asked} is not answered"


def assert_every_result_is_its_calls(items: Sequence[MemoryItem]) -> None:
    assert list(mixed_up(to_openai(items))) == []
    assert list(mixed_up_blocks(to_anthropic(items)[1])) == []


PARIS, ROME = scope("paris"), scope("rome")
TWO_SESSIONS: list[MemoryItem] = [
    HumanMemory(content="Paris?", metadata=PARIS),
    HumanMemory(content="Rome?", metadata=ROME),
    call("Paris", "call_0", metadata=PARIS),
    call("Rome", "call_0", metadata=ROME),
    result("Paris", metadata=PARIS),
    result("Rome", metadata=ROME),
]


def test_a_result_answers_the_call_of_its_own_session() -> None:
    assert_every_result_is_its_calls(TWO_SESSIONS)
    assert len(to_openai(TWO_SESSIONS)) == 6


def test_ids_that_two_sessions_share_go_out_under_two_names() -> None:
    messages = to_openai(TWO_SESSIONS)
    assert [message["tool_call_id"] for message in messages if message["role"] == "tool"] == ["call_0", "call_0_2"]


def test_a_conversation_that_goes_on_goes_out_the_same_up_to_there() -> None:
    further = [call("Rome 2", "call_0", metadata=ROME), result("Rome 2", metadata=ROME)]
    assert to_openai([*TWO_SESSIONS, *further])[: len(TWO_SESSIONS)] == to_openai(TWO_SESSIONS)


def test_a_result_of_another_session_answers_nothing() -> None:
    items = [call("Paris", "call_0", metadata=PARIS), result("Rome", metadata=ROME)]
    assert whole_groups(items) == []


def test_a_session_of_another_user_is_another_session() -> None:
    other = MemoryMetadata(user_id="bob", session_id="paris")
    items = [call("Paris", "call_0", metadata=PARIS), result("Rome", metadata=other)]
    assert whole_groups(items) == []


@pytest.mark.parametrize("field", ["task_id", "agent_id"])
def test_tasks_and_agents_of_one_session_have_their_own_results(field: str) -> None:
    first, second = scope("s", **{field: "one"}), scope("s", **{field: "two"})
    items: list[MemoryItem] = [
        call("one", "call_0", metadata=first),
        call("two", "call_0", metadata=second),
        result("one", metadata=first),
        result("two", metadata=second),
    ]
    assert_every_result_is_its_calls(items)
    assert whole_groups(items) == items


@pytest.mark.parametrize("metadata", [scope("s", task_id="sub"), scope("s", agent_id="worker"), scope("s")])
def test_a_sub_agent_may_answer_under_its_own_name(metadata: MemoryMetadata) -> None:
    items: list[MemoryItem] = []
    for turn in "ab":
        items += [call(turn, "call_0", metadata=scope("s", task_id="main")), result(turn, metadata=metadata)]
    assert_every_result_is_its_calls(items)
    assert whole_groups(items) == items


def test_a_result_of_whoever_made_such_a_call_itself_is_not_taken_for_a_sub_agents() -> None:
    main, sub = scope("s", agent_id="main"), scope("s", agent_id="sub")
    items: list[MemoryItem] = [
        call("never answered", "call_0", metadata=main),
        call("looked up", "call_0", metadata=sub),
        result("looked up", metadata=sub),
        result("looked up", metadata=sub),
    ]
    assert whole_groups(items) == items[1:3]


def test_a_result_that_two_agents_wait_for_answers_neither() -> None:
    items: list[MemoryItem] = [
        call("one", "call_0", metadata=scope("s", agent_id="one")),
        call("two", "call_0", metadata=scope("s", agent_id="two")),
        result("one", metadata=scope("s")),
    ]
    assert whole_groups(items) == []


def test_the_call_that_an_agents_own_result_answers_is_left_to_it() -> None:
    main, lost = scope("s", task_id="main"), scope("s", task_id="lost")
    items: list[MemoryItem] = [
        call("main", "call_0", metadata=main),
        result("lost", metadata=lost),
        result("main", metadata=main),
    ]
    assert whole_groups(items) == [items[0], items[2]]


def test_a_result_whose_call_was_cut_away_answers_no_other() -> None:
    history: list[MemoryItem] = [
        call("cut away", "call_0", metadata=scope("s", task_id="one")),
        call("never answered", "call_0", metadata=scope("s", task_id="two")),
        result("cut away", metadata=scope("s", task_id="one")),
    ]
    assert whole_groups(history[1:], history) == []


async def test_a_keyword_never_joins_the_call_of_one_turn_with_the_result_of_another() -> None:
    memory = ShortTermMemory(scope="user")
    await memory.add_many(
        [
            AIMemory(content="tea one", tool_calls=[{"id": "call_0"}], metadata=PARIS),
            ToolMemory(content="first", tool_call_id="call_0", metadata=PARIS),
            AIMemory(content="two", tool_calls=[{"id": "call_0"}], metadata=PARIS),
            ToolMemory(content="tea second", tool_call_id="call_0", metadata=PARIS),
        ]
    )
    assert await memory.search(query="tea") == []


def test_rounds_are_those_of_a_session() -> None:
    items: list[MemoryItem] = [
        HumanMemory(content="Paris?", metadata=PARIS),
        HumanMemory(content="Rome?", metadata=ROME),
        AIMemory(content="Paris!", metadata=PARIS),
        AIMemory(content="Rome!", metadata=ROME),
    ]
    assert rounds_of(items) == [[0, 2], [1, 3]]
    assert [item.content for item in last_rounds(items, 1)] == ["Rome?", "Rome!"]


def test_a_history_gives_results_to_the_response_of_their_session() -> None:
    responses = [each for each in to_history(TWO_SESSIONS).MemoryList if isinstance(each, ResponseMem)]
    assert [each.tool_results[0]["result"] for each in responses] == ["Paris call_0", "Rome call_0"]


def test_a_call_that_waits_is_not_compacted_because_another_session_goes_on() -> None:
    waiting = call("Paris", "call_0", metadata=PARIS)
    items = [waiting, *(HumanMemory(content="Rome?", metadata=ROME) for _ in range(3))]
    older, kept = split(items, 1)
    assert older == items[1:3], "each session has a cut of its own"
    assert kept == [waiting, items[3]]


async def test_a_prompt_shows_results_behind_their_calls() -> None:
    prompt = str(await ContextManager().assemble_context("and now", conversation=TWO_SESSIONS))
    lines = [line.strip("- ") for line in prompt.splitlines()]
    assert lines.index("tool (weather): Paris call_0") < lines.index("assistant: calls Rome")


@given(interleavings())
def test_whatever_speaks_at_once_is_sent_with_its_own_results(items: list[MemoryItem]) -> None:
    assert_every_result_is_its_calls(items)


@given(interleavings(), st.integers(0, 6), st.integers(0, 40), st.integers(0, 400))
def test_no_window_mixes_sessions_up(items: list[MemoryItem], rounds: int, limit: int, budget: int) -> None:
    windows = [
        whole_groups(last_rounds(items, rounds), items),
        whole_groups(newest(items, limit), items),
        whole_groups(rounds_within(items, budget, lambda item: len(item.content)), items),
        *(whole_groups(side, items) for side in split(items, limit)),
    ]
    for window in windows:
        assert_every_result_is_its_calls(window)


@given(interleavings(apart=True), st.integers(0, 6), st.integers(0, 40))
def test_sessions_are_told_apart_by_whoever_sees_only_a_window(
    items: list[MemoryItem], rounds: int, limit: int
) -> None:
    for window in (last_rounds(items, rounds), newest(items, limit), *split(items, limit)):
        assert_every_result_is_its_calls(window)


@given(interleavings(), st.integers(0, 6), st.integers(0, 40), st.sampled_from(["", "/1", "call_0", "0/", "calls"]))
def test_no_search_mixes_sessions_up(items: list[MemoryItem], rounds: int, limit: int, query: str) -> None:
    async def found() -> list[MemoryItem]:
        memory = ShortTermMemory(scope="user", max_rounds=rounds)
        await memory.add_many(items)
        return await memory.search(query=query, metadata=MemoryMetadata(user_id="ada"), limit=limit)

    shown = asyncio.run(found())
    assert whole_groups(shown) == shown
    assert_every_result_is_its_calls(shown)


@given(interleavings(), st.integers(0, 200))
def test_no_budget_of_a_context_mixes_sessions_up(items: list[MemoryItem], budget: int) -> None:
    context = asyncio.run(ContextManager(token_budget=budget).assemble_context("go", conversation=items))
    assert list(mixed_up(context.messages())) == []


@given(interleavings(), st.data())
def test_no_choice_from_a_history_mixes_it_up(items: list[MemoryItem], data: st.DataObject) -> None:
    chosen = [item for item in items if data.draw(st.booleans())]
    shown = whole_groups(chosen, items)
    assert_every_result_is_its_calls(shown)
    assert whole_groups(shown) == shown


@given(interleavings())
def test_moving_results_up_loses_nothing(items: list[MemoryItem]) -> None:
    moved = results_behind_calls(items)
    assert sorted(map(id, moved)) == sorted(map(id, items))
