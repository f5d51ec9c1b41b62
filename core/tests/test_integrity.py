"""Tool calls and their results: shown whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SystemMemory, ToolMemory
from memoranda.integrity import (
    answered_ids,
    answers,
    call_ids,
    is_whole,
    pairs,
    shown_together,
    whole_groups,
)
from memoranda.windowing import last_rounds, newest


def conversation(*shapes: str) -> list[MemoryItem]:
    """Return items: "call a b" is an AI item with two calls, "result a" its result, anything else a human's words."""
    items: list[MemoryItem] = []
    for shape in shapes:
        kind, *ids = shape.split()
        if kind == "call":
            items.append(AIMemory(content=shape, tool_calls=[{"id": call_id} for call_id in ids]))
        elif kind == "result":
            items.append(ToolMemory(content=shape, tool_call_id=ids[0]))
        else:
            items.append(HumanMemory(content=shape))
    return items


def shown(*shapes: str) -> list[str]:
    return [item.content for item in whole_groups(conversation(*shapes))]


def kept_by_oracle(items: Sequence[MemoryItem]) -> list[int]:
    """Say by search which positions stay: give each result, in turn, to the nearest caller before it if that waits."""
    waiting: list[tuple[int, str]] = []
    superseded: set[int] = set()
    results: dict[int, list[int]] = {}
    for position, item in enumerate(items):
        if isinstance(item, AIMemory):
            ids = {call["id"] for call in item.tool_calls}
            superseded |= {caller for caller, call_id in waiting if call_id in ids}
            waiting = [slot for slot in waiting if slot[1] not in ids]
            waiting += [(position, call["id"]) for call in item.tool_calls]
        elif isinstance(item, ToolMemory):
            matching = [slot for slot in waiting if slot[1] == item.tool_call_id]
            if matching:
                nearest = max(matching)
                waiting.remove(nearest)
                results.setdefault(nearest[0], []).append(position)
    incomplete = superseded | {caller for caller, _ in waiting}
    answered = {position for caller, each in results.items() if caller not in incomplete for position in each}
    return [
        position
        for position, item in enumerate(items)
        if (position in answered if isinstance(item, ToolMemory) else position not in incomplete)
    ]


@st.composite
def histories(draw: Any) -> list[MemoryItem]:
    """Conversations with parallel calls, ids used again, results before their calls, missing and doubled results."""
    items: list[MemoryItem] = []
    for _ in range(draw(st.integers(0, 14))):
        kind = draw(st.sampled_from("HSACCRRR"))
        if kind == "H":
            items.append(HumanMemory(content="h"))
        elif kind == "S":
            items.append(SystemMemory(content="s"))
        elif kind == "A":
            items.append(AIMemory(content="a"))
        elif kind == "C":
            ids = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=3))
            items.append(AIMemory(content="c", tool_calls=[{"id": call_id} for call_id in ids]))
        else:
            items.append(ToolMemory(content="r", tool_call_id=draw(st.sampled_from("abcd"))))
    return items


def assert_every_call_has_its_results(items: Sequence[MemoryItem]) -> None:
    """Check a context as a provider's API would, counting by id."""
    open_calls: dict[str, int] = {}
    for item in items:
        if isinstance(item, ToolMemory):
            assert open_calls.get(item.tool_call_id, 0) > 0, "a result without its call"
            open_calls[item.tool_call_id] -= 1
        for call_id in call_ids(item):
            open_calls[call_id] = open_calls.get(call_id, 0) + 1
    assert not any(open_calls.values()), "a call without its result"


@pytest.mark.parametrize(
    ("shapes", "wanted"),
    [
        (["hi", "call a", "result a", "bye"], ["hi", "call a", "result a", "bye"]),
        (["hi", "call a"], ["hi"]),
        (["result a", "hi"], ["hi"]),
        (["result a", "call a"], []),
        (["call a b", "result b", "result a"], ["call a b", "result b", "result a"]),
        (["call a b", "result a", "hi"], ["hi"]),
        (["call a", "hi", "result a"], ["call a", "hi", "result a"]),
        (["call a", "result a", "result a"], ["call a", "result a"]),
        (["call a", "result a", "call a", "result a"], ["call a", "result a", "call a", "result a"]),
        (["call a", "hi", "call a", "result a"], ["hi", "call a", "result a"]),
        (["call a", "hi", "call a", "result a", "result a"], ["hi", "call a", "result a"]),
        (["call a b", "result a", "call a", "result a"], ["call a", "result a"]),
        (["call a", "call b", "result a", "result b"], ["call a", "call b", "result a", "result b"]),
        (["call a", "call b", "result b"], ["call b", "result b"]),
        (["call a a", "result a"], []),
        (["call a a", "result a", "result a"], ["call a a", "result a", "result a"]),
        ([], []),
    ],
)
def test_only_whole_groups_are_shown(shapes: list[str], wanted: list[str]) -> None:
    assert shown(*shapes) == wanted


def test_a_second_result_is_dropped_and_the_first_one_stays() -> None:
    items = conversation("call a", "result a", "result a")
    assert whole_groups(items) == items[:2]


def test_a_result_that_is_there_twice_leaves_its_call_answered() -> None:
    call = AIMemory(content="", tool_calls=[{"id": "a", "name": "look"}])
    result = ToolMemory(content="found", tool_call_id="a")
    assert whole_groups([call, result, result]) == [call, result]
    assert is_whole(whole_groups([call, result, result], [call, result, result]))


@given(histories())
def test_random_histories_are_cut_as_the_oracle_says(items: list[MemoryItem]) -> None:
    assert whole_groups(items) == [items[position] for position in kept_by_oracle(items)]


@given(histories())
def test_what_is_shown_is_a_valid_context(items: list[MemoryItem]) -> None:
    assert_every_call_has_its_results(whole_groups(items))


@given(histories())
def test_nothing_but_calls_and_results_is_dropped(items: list[MemoryItem]) -> None:
    kept = whole_groups(items)
    others = [item for item in items if not call_ids(item) and not isinstance(item, ToolMemory)]
    assert [item for item in kept if not call_ids(item) and not isinstance(item, ToolMemory)] == others
    positions = [next(at for at, item in enumerate(items) if item is each) for each in kept]
    assert all(first < second for first, second in pairwise(positions))


@given(histories())
def test_a_context_that_was_cut_stays_as_it_is(items: list[MemoryItem]) -> None:
    kept = whole_groups(items)
    assert whole_groups(kept) == kept
    assert is_whole(kept)
    assert is_whole(items) is (kept == items)


@given(histories(), st.integers(0, 15), st.integers(0, 4))
def test_any_window_is_a_valid_context_after_the_cut(items: list[MemoryItem], limit: int, rounds: int) -> None:
    assert_every_call_has_its_results(whole_groups(newest(last_rounds(items, rounds), limit)))


@st.composite
def told_in_turns(draw: Any) -> list[MemoryItem]:
    """Conversations in which results mostly stand right behind their calls, now and then another agent's or none."""
    items: list[MemoryItem] = []
    for _ in range(draw(st.integers(0, 5))):
        agent = draw(st.sampled_from("xy"))
        ids = draw(st.lists(st.sampled_from("ab"), max_size=2))
        calls = [{"id": call_id} for call_id in ids]
        items.append(AIMemory(content="c", tool_calls=calls, metadata=MemoryMetadata(agent_id=agent)))
        for call_id in draw(st.permutations(ids)):
            who = MemoryMetadata(agent_id=draw(st.sampled_from([agent, agent, agent, "z"])))
            further = draw(st.sampled_from([[], [], [], ["b"]]))
            items.append(ToolMemory(content="r", tool_call_id=call_id, also_answers=further, metadata=who))
        items += draw(st.sampled_from([[], [HumanMemory(content="h")], [HumanMemory(content="h", group="g")]]))
    gone = draw(st.sampled_from([None, None, *range(len(items))]))
    return [item for position, item in enumerate(items) if position != gone]


@given(told_in_turns())
def test_of_what_is_whole_everything_stays(items: list[MemoryItem]) -> None:
    assert not is_whole(items) or whole_groups(items) == items


def test_pairs_name_the_caller_of_each_result_and_what_is_missing() -> None:
    callers, missing = pairs(conversation("call a b", "result b", "result x"))
    assert callers == {1: 0}
    assert missing == {0: 1}


def test_items_of_another_type_call_nothing() -> None:
    assert call_ids(MemoryItem.model_validate({"content": "", "tool_calls": [{"id": "a"}]})) == []
    assert call_ids(AIMemory(content="")) == []


def test_calls_that_cannot_be_answered_are_not_shown() -> None:
    item = AIMemory(content="", tool_calls=[{"id": "a"}])
    item.tool_calls.append("spoilt later")  # type: ignore[arg-type]
    assert whole_groups([item, ToolMemory(content="", tool_call_id="a")]) == []


def test_a_call_without_an_id_is_answered_by_nothing() -> None:
    call = MemoryItem(content="", memory_type="ai", tool_calls=[{"name": "search"}])  # type: ignore[call-arg]  # a field that the class does not know
    assert whole_groups([call, ToolMemory(content="found")]) == []


def thought(group: str, session: str | None = None) -> MemoryItem:
    """What led to a call and makes none itself."""
    return AIMemory(content="thought", group=group, metadata=MemoryMetadata(session_id=session))


def led_to(group: str, *call_ids: str) -> AIMemory:
    return AIMemory(content="call", group=group, tool_calls=[{"id": call_id} for call_id in call_ids])


def test_what_led_to_an_unanswered_call_is_not_shown() -> None:
    asked = HumanMemory(content="?")
    assert whole_groups([asked, thought("g"), led_to("g", "a")]) == [asked]


def test_a_group_whose_call_lacks_its_result_takes_its_other_calls_and_their_results_along() -> None:
    items = [thought("g"), led_to("g", "a"), led_to("g", "b"), ToolMemory(content="", tool_call_id="a")]
    assert whole_groups(items) == []
    whole = [*items, ToolMemory(content="", tool_call_id="b")]
    assert whole_groups(whole) == whole


def test_the_groups_of_two_conversations_have_nothing_in_common() -> None:
    items = [thought("g", "other"), thought("g"), led_to("g", "a")]
    assert whole_groups(items) == items[:1]


def test_a_group_is_that_of_the_history_where_one_is_given() -> None:
    history = [thought("g"), thought("g"), HumanMemory(content="hi")]
    assert whole_groups(history[1:], history) == history[2:]
    assert whole_groups(history[1:]) == history[1:]


def test_one_item_answers_several_calls() -> None:
    calls = conversation("call a b", "call c")
    result = ToolMemory(content="", tool_call_id="b", also_answers=["c", "a"])
    assert whole_groups([*calls, result]) == [*calls, result]
    assert whole_groups([calls[0], result]) == []
    assert [link.caller for link in answers([*calls, result])] == [0, 1, 0]


@pytest.mark.parametrize("agent", [None, "a sub-agent"])
def test_a_result_that_names_a_call_twice_answers_it_once(agent: str | None) -> None:
    (call,) = conversation("call a")
    owner = call.metadata.model_copy(update={"agent_id": agent})
    assert whole_groups([call, ToolMemory(content="", tool_call_id="a", also_answers=["a"], metadata=owner)]) == []


@st.composite
def tied_histories(draw: Any) -> list[MemoryItem]:
    """Histories whose items are in groups, and whose results may answer several calls."""
    items = draw(histories())
    for item in items:
        item.group = draw(st.sampled_from([None, None, "g", "h"]))
        if isinstance(item, ToolMemory):
            item.also_answers = draw(st.lists(st.sampled_from("abcd"), max_size=2))
    return items


@given(tied_histories() | told_in_turns(), st.data())
def test_whatever_is_chosen_groups_and_pairs_are_shown_all_or_none(history: list[MemoryItem], data: Any) -> None:
    picked = data.draw(st.lists(st.booleans(), min_size=len(history), max_size=len(history)))
    kept = {
        id(item) for item in whole_groups([item for item, is_in in zip(history, picked, strict=True) if is_in], history)
    }
    for group in ("g", "h"):
        assert len({id(item) in kept for item in history if item.group == group}) <= 1
    for link in answers(history):
        assert (id(history[link.result]) in kept) == (id(history[link.caller]) in kept)
    for position, item in enumerate(history):
        own = [link.call_id for link in answers(history) if position in (link.result, link.caller)]
        if id(item) in kept:
            assert sorted(own) == sorted(call_ids(item) + answered_ids(item))


@given(told_in_turns(), st.data())
def test_of_a_whole_history_everything_stays_that_was_chosen_with_all_it_belongs_to(
    history: list[MemoryItem], data: Any
) -> None:
    history = whole_groups(history)
    picked = data.draw(st.lists(st.booleans(), min_size=len(history), max_size=len(history)))
    torn = {place for places in shown_together(history) for place in places if not all(picked[at] for at in places)}
    chosen = [item for item, is_in in zip(history, picked, strict=True) if is_in]
    wanted = [item for place, item in enumerate(history) if picked[place] and place not in torn]
    assert whole_groups(chosen, history) == wanted
