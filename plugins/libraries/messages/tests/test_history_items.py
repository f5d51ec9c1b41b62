"""A history as items, and back."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from memoranda import AIMemory, HumanMemory, MemoryMetadata, SystemMemory, ToolMemory
from memoranda.errors import InputError
from memoranda.history import History, Memory, ResponseMem, UserMem
from memoranda.integrity import is_whole
from memoranda_messages import from_history, to_history


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

    items = from_history(history, metadata=metadata)

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

    again = to_history(from_history(history))

    assert [repr(memory) for memory in again.MemoryList] == [repr(memory) for memory in history.MemoryList]


def test_a_time_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ValueError, match="created"):
        from_history(History([UserMem("a", object())]))


@pytest.mark.parametrize("created", [float("inf"), float("nan"), 1e300, -1e18, object()])
def test_a_number_that_is_no_time_is_an_input_error(created: object) -> None:
    with pytest.raises(InputError, match="created"):
        from_history(History([Memory("hi", created, "user")]))
