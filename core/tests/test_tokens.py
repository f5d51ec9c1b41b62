"""What an item costs a model."""

from __future__ import annotations

from memoranda import AIMemory, HumanMemory, ToolMemory
from memoranda.tokens import estimate_tokens


def test_text_is_counted_by_its_length_rounded_up() -> None:
    assert estimate_tokens(HumanMemory(content="")) == 0
    assert estimate_tokens(HumanMemory(content="abcd")) == 1
    assert estimate_tokens(HumanMemory(content="abcde")) == 2
    assert estimate_tokens(HumanMemory(content="abcde"), ratio=5) == 1


def test_tool_names_and_arguments_count() -> None:
    bare = AIMemory(content="")
    calling = AIMemory(content="", tool_calls=[{"id": "c", "name": "look_up_weather", "arguments": {"city": "Oslo"}}])

    assert estimate_tokens(bare) == 0
    assert estimate_tokens(calling) >= (len("look_up_weather") + len('{"city":"Oslo"}')) / 4


def test_both_shapes_of_a_call_cost_the_same() -> None:
    flat = {"id": "c", "name": "f", "arguments": {"a": 1}}
    nested = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}

    costs = {estimate_tokens(AIMemory(content="", tool_calls=[call])) for call in (flat, nested)}

    assert len(costs) == 1


def test_a_result_counts_its_content() -> None:
    assert estimate_tokens(ToolMemory(content="x" * 400, tool_call_id="c")) >= 100
