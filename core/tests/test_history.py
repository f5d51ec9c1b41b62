"""The sliding window of messages."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from memoranda import AIMemory, HumanMemory, MemoryError, MemoryMetadata, SystemMemory, ToolMemory
from memoranda.errors import InputError
from memoranda.history import History, Memory, ResponseMem, UserMem
from memoranda.integrity import is_whole


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


def test_a_history_becomes_items_with_whole_tool_calls() -> None:
    metadata = MemoryMetadata(user_id="u")
    calls = [{"name": "clock", "arguments": {"zone": "UTC"}}, SimpleNamespace(name="map", id="c2", arguments={})]
    results = [{"name": "map", "result": {"x": 1}}, {"name": "clock", "result": "12:00"}]
    history = History(
        [
            Memory("be brief", datetime(2025, 1, 1, tzinfo=UTC), "system"),
            UserMem("time?", "2025-01-01T00:00:01Z"),
            ResponseMem("", 1735689602, calls, results),
        ]
    )

    items = history.to_items(metadata)

    assert [type(item) for item in items] == [SystemMemory, HumanMemory, AIMemory, ToolMemory, ToolMemory]
    assert is_whole(items)
    assert all(item.metadata == metadata for item in items)
    assert [item.created_at for item in items[:3]] == [f"2025-01-01T00:00:0{n}.000000+00:00" for n in range(3)]
    assert items[3].content == '{"x": 1}'


def test_items_and_history_meet() -> None:
    history = History(
        [
            UserMem("time?", "2025-01-01T00:00:00.000000+00:00"),
            ResponseMem(
                "one moment", "2025-01-01T00:00:01.000000+00:00", [{"id": "c", "name": "clock", "arguments": {}}]
            ),
        ]
    )
    response = history.MemoryList[1]
    assert isinstance(response, ResponseMem)
    response.tool_results.append({"name": "clock", "result": "12:00"})

    again = History.from_items(history.to_items())

    assert [repr(memory) for memory in again.MemoryList] == [repr(memory) for memory in history.MemoryList]


def test_a_time_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ValueError, match="created"):
        History([UserMem("a", object())]).to_items()


@pytest.mark.parametrize("created", [float("inf"), float("nan"), 1e300, -1e18, object()])
def test_a_number_that_is_no_time_is_an_input_error(created: object) -> None:
    with pytest.raises(InputError, match="created"):
        History([Memory("hi", created, "user")]).to_items()
