"""What is no message, no item or no memory is an input error that names the place, and nothing else ever comes out."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, ToolMemory
from memoranda.errors import InputError
from memoranda.history import History, Memory, ResponseMem, UserMem
from memoranda_context import ContextManager
from memoranda_messages import from_anthropic, from_history, from_openai, to_anthropic, to_history, to_openai

OPENAI: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [{"type": "text", "text": "Weather?"}, {"type": "image_url", "image_url": {"url": "x"}}],
    },
    {
        "role": "assistant",
        "content": None,
        "name": "nova",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
            {"id": "c2", "type": "custom", "custom": {"name": "code", "input": "1+1"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    {"role": "tool", "tool_call_id": "c2", "content": "2"},
]
ANTHROPIC: list[Any] = [
    {"role": "user", "content": [{"type": "text", "text": "Weather?", "cache_control": {"type": "ephemeral"}}]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Oslo"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "rain"}]},
            {"type": "text", "text": "Well?"},
        ],
    },
]
SYSTEM: list[Any] = [{"type": "text", "text": "Be brief."}]

LEAVES: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["user", "assistant", "tool", "text", "tool_use", "tool_result", "function", "custom", "c1"])
    # Each time another: what is drawn may be changed afterwards.
    | st.sampled_from([b"bytes", {1, 2}, object(), {1: 2}, (), "\ud800", "\0", math.nan]).map(copy.deepcopy)
)
KEYS = st.text(max_size=3) | st.sampled_from(
    ["role", "content", "name", "tool_calls", "tool_call_id", "id", "type", "text", "function", "arguments", "input"]
)
ANYTHING = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container in a value with every key or index in it."""
    pairs = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, inner in pairs:
        yield value, key
        yield from places(inner)


@st.composite
def nearly(draw: st.DrawFn, valid: list[Any]) -> list[Any]:
    """A valid value in which one or two places hold something else, or nothing."""
    changed = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, 2))):
        found = list(places(changed))
        if found:
            holder, key = draw(st.sampled_from(found))
            if draw(st.booleans()):
                holder[key] = draw(ANYTHING)
            else:
                del holder[key]
    return changed


def only_input_errors(act: Callable[[], object]) -> None:
    """Do something; an input error may come of it, and nothing else."""
    with contextlib.suppress(InputError):
        act()


@pytest.mark.parametrize(
    ("read", "given_messages", "place"),
    [
        (from_openai, 5, "messages"),
        (from_openai, "text", "messages"),
        (from_openai, {"role": "user"}, "messages"),
        (from_openai, [1], "messages[0]"),
        (from_openai, [OPENAI[0], None], "messages[1]"),
        (from_openai, [{"content": "hi"}], "messages[0].role"),
        (from_openai, [{"role": ["user"]}], "messages[0].role"),
        (from_openai, [{"role": "user", "content": 5}], "messages[0].content"),
        (from_openai, [{"role": "user", "content": ["x"]}], "messages[0].content[0]"),
        (from_openai, [{"role": "user", "content": [{"type": "text", "text": 5}]}], "messages[0].content[0].text"),
        (from_openai, [{"role": "user", "name": 5}], "messages[0].name"),
        (from_openai, [{"role": "user", "content": "\ud800"}], "messages[0].content"),
        (from_openai, [{"role": "tool", "tool_call_id": 5}], "messages[0].tool_call_id"),
        (from_openai, [{"role": "assistant", "tool_calls": 5}], "messages[0].tool_calls"),
        (from_openai, [{"role": "assistant", "tool_calls": ["x"]}], "messages[0].tool_calls[0]"),
        (from_openai, [{"role": "assistant", "tool_calls": [{"id": 5}]}], "messages[0].tool_calls[0].id"),
        (from_openai, [{"role": "assistant", "tool_calls": [{}]}], "messages[0].tool_calls[0].id"),
        (
            from_openai,
            [{"role": "assistant", "tool_calls": [{"id": "c", "function": "f"}]}],
            "messages[0].tool_calls[0].function",
        ),
        (
            from_openai,
            [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": 5}}]}],
            "messages[0].tool_calls[0].function.name",
        ),
        (
            from_openai,
            [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": math.nan}}]}],
            "messages[0].tool_calls[0].function.arguments",
        ),
        (from_anthropic, [1], "messages[0]"),
        (from_anthropic, [{"role": "user", "content": 5}], "messages[0].content"),
        (from_anthropic, [{"role": "user", "content": ["x"]}], "messages[0].content[0]"),
        (
            from_anthropic,
            [{"role": "assistant", "content": [{"type": "tool_use", "name": "f"}]}],
            "messages[0].content[0].id",
        ),
        (
            from_anthropic,
            [{"role": "assistant", "content": [{"type": "tool_use", "id": "t", "input": 5}]}],
            "messages[0].content[0].input",
        ),
        (
            from_anthropic,
            [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": 5}]}],
            "messages[0].content[0].tool_use_id",
        ),
        (
            from_anthropic,
            [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [5]}]}],
            "messages[0].content[0].content[0]",
        ),
    ],
)
def test_a_wrong_message_is_an_input_error_that_names_the_place(read: Any, given_messages: Any, place: str) -> None:
    with pytest.raises(InputError) as raised:
        read(given_messages)
    assert raised.value.field == place
    assert place in str(raised.value)


@pytest.mark.parametrize(("system", "place"), [(5, "system"), ([5], "system[0]"), ([{"text": 5}], "system[0].text")])
def test_a_wrong_system_text_is_an_input_error_that_names_the_place(system: Any, place: str) -> None:
    with pytest.raises(InputError) as raised:
        from_anthropic([], system=system)
    assert raised.value.field == place


@pytest.mark.parametrize("read", [from_openai, from_anthropic])
def test_wrong_metadata_is_an_input_error(read: Any) -> None:
    with pytest.raises(InputError, match="metadata"):
        read([], metadata={"user_id": "ada"})


def test_a_wrong_value_is_not_repeated() -> None:
    with pytest.raises(InputError) as raised:
        from_openai([{"role": ["a secret"], "content": "another secret"}])
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("write", [to_openai, to_anthropic, to_history])
@pytest.mark.parametrize(
    ("items", "place"), [(5, "items"), ("ab", "items"), ([HumanMemory(content=""), 1], "items[1]")]
)
def test_what_is_no_item_is_an_input_error_that_names_the_place(write: Any, items: Any, place: str) -> None:
    with pytest.raises(InputError) as raised:
        write(items)
    assert raised.value.field == place


@pytest.mark.parametrize("write", [to_openai, to_anthropic])
@pytest.mark.parametrize("arguments", [{"x": {1, 2}}, {"x": math.nan}, {"x": b"y"}])
def test_calls_that_json_cannot_hold_are_an_input_error(write: Any, arguments: Any) -> None:
    call = AIMemory(content="", tool_calls=[{"id": "c", "name": "f", "arguments": arguments}])
    with pytest.raises(InputError, match=r"tool_calls\[0\]\.arguments\.x"):
        write([call, ToolMemory(content="", tool_call_id="c")])


@pytest.mark.parametrize("write", [to_openai, to_anthropic])
def test_items_may_come_from_a_generator(write: Any) -> None:
    items = [HumanMemory(content="hi")]
    assert write(item for item in items) == write(items)


def test_arguments_nested_without_end_stay_text() -> None:
    arguments = "[" * 100_000
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    messages = [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c"}]
    items = from_openai(messages)
    assert to_openai(items)[0]["tool_calls"] == [call]
    assert to_anthropic(items)[1][1]["content"][0]["input"] == {"arguments": arguments}


@given(ANYTHING | st.lists(ANYTHING, max_size=3) | nearly(OPENAI) | nearly(ANTHROPIC))
def test_only_input_errors_come_of_reading_messages(messages: Any) -> None:
    only_input_errors(lambda: to_openai(from_openai(messages)))
    only_input_errors(lambda: to_anthropic(from_openai(messages)))
    only_input_errors(lambda: to_anthropic(from_anthropic(messages)))
    only_input_errors(lambda: from_anthropic(ANTHROPIC, system=messages))


@given(nearly(SYSTEM))
def test_only_input_errors_come_of_reading_a_system_text(system: list[Any]) -> None:
    only_input_errors(lambda: from_anthropic([], system=system))


ITEM_FIELDS = ["memory_type", "tool_calls", "tool_call_id", "tool_name", "is_error", "openai", "anthropic", "lasting"]


@st.composite
def odd_items(draw: st.DrawFn) -> MemoryItem:
    """An item with fields that no class has checked, such as a type that is not installed may bring."""
    fields = draw(st.dictionaries(st.sampled_from(ITEM_FIELDS), ANYTHING, max_size=4))
    fields["memory_type"] = draw(st.sampled_from(["ai", "ai", "tool", "human", "summary", "note"]))
    provider = draw(st.sampled_from(["openai", "anthropic"]))
    fields[provider] = draw(ANYTHING | st.dictionaries(st.sampled_from(["content", "blocks", "role"]), ANYTHING))
    return MemoryItem(content=draw(st.text(max_size=3)), **fields)


@given(st.lists(odd_items() | ANYTHING, max_size=4))
def test_only_input_errors_come_of_writing_messages(items: list[Any]) -> None:
    only_input_errors(lambda: to_openai(items))
    only_input_errors(lambda: to_anthropic(items))
    only_input_errors(lambda: to_history(items))


@st.composite
def odd_memories(draw: st.DrawFn) -> Any:
    if draw(st.integers(0, 5)) == 0:
        return draw(ANYTHING)
    kind = draw(st.sampled_from([Memory, ResponseMem, UserMem]))
    memory = kind("hi", None, draw(st.just("user") | ANYTHING)) if kind is Memory else kind("hi", None)
    for name in draw(st.sets(st.sampled_from(["message", "created", "role", "tool_calls", "tool_results"]))):
        setattr(memory, name, draw(ANYTHING | st.lists(ANYTHING | st.builds(SimpleNamespace, name=ANYTHING))))
    return memory


@pytest.mark.rare
@given(st.lists(odd_memories(), max_size=3), ANYTHING)
def test_only_input_errors_come_of_a_history(memories: list[Any], anything: Any) -> None:
    only_input_errors(lambda: History(anything))
    only_input_errors(lambda: History().add(anything))
    only_input_errors(lambda: ResponseMem("", None, anything, anything))
    only_input_errors(lambda: from_history(History(memories)))
    only_input_errors(lambda: from_history(History([UserMem("hi", None)]), metadata=anything))
    only_input_errors(lambda: History(size=anything))


def test_a_wrong_result_is_named_with_its_place() -> None:
    history = History([UserMem("hi", 1), ResponseMem("", 2, [{"name": "f"}], [1])])
    with pytest.raises(InputError, match=r"MemoryList\[1\]: tool_results\[0\]"):
        from_history(history)


@pytest.mark.parametrize("conversation", [5, "ab", [1]])
async def test_a_conversation_of_anything_but_items_is_an_input_error(conversation: Any) -> None:
    with pytest.raises(InputError, match="conversation"):
        await ContextManager().assemble_context("go", conversation=conversation)


@pytest.mark.parametrize(
    "option", ["soul_path", "recent_hours", "token_counter", "token_budget", "recent_limit", "long_term_limit"]
)
@pytest.mark.parametrize("value", [b"x", ["x"], object(), -(10**5000)], ids=["bytes", "list", "object", "number"])
def test_options_that_make_no_sense_are_input_errors(option: str, value: Any) -> None:
    with pytest.raises(InputError, match=option):
        ContextManager(**{option: value})


def test_metadata_goes_to_every_item() -> None:
    metadata = MemoryMetadata(user_id="ada")
    assert {item.metadata for item in from_anthropic(ANTHROPIC, system=SYSTEM, metadata=metadata)} == {metadata}
