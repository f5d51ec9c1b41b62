"""The sliding window of messages."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from memoranda import MemoryError
from memoranda.history import History, Memory, ResponseMem, UserMem


def test_the_documented_example_runs() -> None:
    history = History(size=3)
    history.add(Memory("hi", created="2025-01-01T00:00:00Z", role="user"))
    history.add(ResponseMem("hey", created="2025-01-01T00:00:01Z", tool_calls=[]))

    assert [memory.message for memory in history.MemoryList] == ["hi", "hey"]


def test_reprs_are_exactly_as_documented() -> None:
    call = {"name": "clock"}

    assert repr(Memory("it's", "now", "system")) == '<Memory role=system message="it\'s" created=now>'
    assert repr(UserMem("hi", 1)) == "<Memory role=user message='hi' created=1>"
    assert repr(ResponseMem("hey", 2, [call])) == (
        "<Memory role=assistant message='hey' created=2 tool_calls=[{'name': 'clock'}] tool_results=[]>"
    )


def test_a_response_names_its_tool_calls() -> None:
    first, second = SimpleNamespace(name="clock", zone="UTC"), SimpleNamespace(name="clock", zone="CET")
    response = ResponseMem("", None, [first, {"name": "map"}, second])

    assert response.list_tool_calls() == ["clock", "map", "clock"]
    assert response.get_tool_call("clock") is first
    assert response.get_tool_call("radio") is None


def test_responses_share_no_results() -> None:
    first, second = ResponseMem("a", 1, []), ResponseMem("b", 2, [])

    first.tool_results.append({"name": "clock", "result": "12"})

    assert second.tool_results == []


def test_histories_share_no_list() -> None:
    first, second = History(), History()

    first.add(UserMem("hi", 1))

    assert second.MemoryList == []


def test_the_callers_list_is_not_the_historys() -> None:
    given: list[Memory] = [UserMem("a", 1), UserMem("b", 2), UserMem("c", 3)]

    history = History(given, size=2)
    history.add(UserMem("d", 4))

    assert [memory.message for memory in given] == ["a", "b", "c"]
    assert [memory.message for memory in history.MemoryList] == ["c", "d"]


def test_adding_drops_the_oldest() -> None:
    history = History(size=2)

    for number in range(5):
        history.add(UserMem(str(number), number))

    assert [memory.message for memory in history.MemoryList] == ["3", "4"]


def test_a_smaller_window_acts_at_once() -> None:
    history = History([UserMem(str(number), number) for number in range(5)])

    shown = history.window(2)

    assert [memory.message for memory in shown] == ["3", "4"]
    assert history.size == 2
    assert shown == history.MemoryList


def test_size_zero_keeps_nothing() -> None:
    history = History([UserMem("a", 1)], size=0)

    history.add(UserMem("b", 2))

    assert history.MemoryList == []


@pytest.mark.parametrize("size", [-1, True, 1.5, "3"])
def test_other_sizes_are_refused(size: object) -> None:
    with pytest.raises(ValueError, match="size"):
        History(size=size)  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(MemoryError):
        History().window(size)  # type: ignore[arg-type]  # the point of the test
