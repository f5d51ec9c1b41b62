"""Items as provider messages and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SummaryMemory, SystemMemory, ToolMemory
from memoranda.errors import InputError
from memoranda_messages import from_anthropic, from_openai, to_anthropic, to_openai, to_responses

CALL_IDS = st.sampled_from(["a", "b", "c"])
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
ARGUMENTS = st.dictionaries(TEXT, st.none() | st.booleans() | st.integers() | TEXT, max_size=2)
FULL_TEXT = TEXT.filter(lambda text: bool(text.strip()))


@st.composite
def ai_items(draw: st.DrawFn, ids: st.SearchStrategy[str] = CALL_IDS) -> AIMemory:
    calls = [
        {"id": call_id, "name": draw(st.sampled_from(["clock", "map"])), "arguments": draw(ARGUMENTS)}
        for call_id in draw(st.lists(ids, max_size=3, unique=True))
    ]
    return AIMemory(content=draw(TEXT), tool_calls=calls)


ANY_ITEM: st.SearchStrategy[MemoryItem] = st.one_of(
    ai_items(),
    st.builds(HumanMemory, content=TEXT),
    st.builds(SystemMemory, content=TEXT),
    st.builds(ToolMemory, content=TEXT, tool_call_id=CALL_IDS, is_error=st.booleans()),
)


@st.composite
def conversations(draw: st.DrawFn) -> list[MemoryItem]:
    """Whole conversations: every call is answered, in any order, right behind it."""
    items: list[MemoryItem] = []
    for turn, kind in enumerate(draw(st.lists(st.sampled_from(["human", "ai"]), max_size=6))):
        if kind == "human":
            items.append(HumanMemory(content=draw(FULL_TEXT)))
            continue
        ids = CALL_IDS.map(f"{turn}{{}}".format)
        item = draw(ai_items(ids).filter(lambda ai: bool(ai.tool_calls or ai.content.strip())))
        if not item.content.strip():
            item.content = ""  # The Anthropic format has no place for blank text.
        items.append(item)
        items.extend(
            ToolMemory(
                content=draw(TEXT), tool_call_id=call["id"], tool_name=call["name"], is_error=draw(st.booleans())
            )
            for call in draw(st.permutations(item.tool_calls))
        )
    return items


def spoken(items: list[MemoryItem]) -> list[dict[str, Any]]:
    """What a provider can hold of items."""
    shown = {"content", "memory_type", "tool_calls", "tool_call_id", "tool_name", "is_error"}
    return [item.model_dump(include=shown) for item in items]


@given(st.lists(ANY_ITEM, max_size=12))
def test_openai_messages_are_valid_whatever_the_items(items: list[MemoryItem]) -> None:
    waiting: set[str] = set()
    for message in to_openai(items):
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting, "a call is not answered right behind it"
            waiting = {call["id"] for call in message.get("tool_calls", ())}
    assert not waiting


@given(st.lists(ANY_ITEM, max_size=12))
def test_anthropic_messages_are_valid_whatever_the_items(items: list[MemoryItem]) -> None:
    _, messages = to_anthropic(items)
    asked: set[str] = set()
    for message in messages:
        results = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        assert sorted(results) == sorted(asked), "the results of all calls share the next message"
        asked = {block["id"] for block in message["content"] if block["type"] == "tool_use"}
        assert message["content"], "no message is empty"
        assert all(block["text"].strip() for block in message["content"] if block["type"] == "text")
    assert not asked


@given(conversations())
def test_anthropic_holds_a_conversation_without_loss(items: list[MemoryItem]) -> None:
    system, messages = to_anthropic(items)

    assert spoken(from_anthropic(messages, system=system)) == spoken(items)


@given(conversations())
def test_openai_holds_a_conversation_without_loss_but_for_errors(items: list[MemoryItem]) -> None:
    expected = spoken(items)
    for item in expected:
        item.pop("is_error", None)

    returned = spoken(from_openai(to_openai(items)))
    for item in returned:
        item.pop("is_error", None)

    assert returned == expected


OPENAI_MESSAGES: list[dict[str, Any]] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "system", "content": "You are helpful."},
    {"role": "user", "content": "Weather in Oslo and Rome?", "name": "ada"},
    {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{ "city": "Oslo" }'}},
            {"id": "c2", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}},
            {"id": "c3", "type": "function", "function": {"name": "weather", "arguments": "not json"}},
            {"id": "c4", "type": "custom", "custom": {"name": "code", "input": "1+1"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c2", "content": "sun"},
    {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    {"role": "tool", "tool_call_id": "c3", "content": "what?"},
    {"role": "tool", "tool_call_id": "c4", "content": "2"},
    {
        "role": "user",
        "content": [{"type": "text", "text": "And here?"}, {"type": "image_url", "image_url": {"url": "x"}}],
    },
    {"role": "assistant", "content": "Fog."},
]


def test_openai_messages_survive_the_way_through_items() -> None:
    assert to_openai(from_openai(OPENAI_MESSAGES)) == OPENAI_MESSAGES


ANTHROPIC_MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "Weather?", "cache_control": {"type": "ephemeral"}}]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "One moment."},
            {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Oslo"}},
            {"type": "tool_use", "id": "t2", "name": "weather", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "rain"}]},
            {"type": "tool_result", "tool_use_id": "t2", "content": "no city", "is_error": True},
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "Rain."}]},
    {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "x"}}]},
]


def test_anthropic_messages_survive_the_way_through_items() -> None:
    system = [{"type": "text", "text": "Be brief."}]

    assert to_anthropic(from_anthropic(ANTHROPIC_MESSAGES, system=system)) == (system, ANTHROPIC_MESSAGES)


def test_plain_text_is_taken_for_a_block() -> None:
    items = from_anthropic([{"role": "user", "content": "hi"}], system="Be brief.")

    assert [(item.memory_type, item.content) for item in items] == [("system", "Be brief."), ("human", "hi")]


def test_a_conversation_crosses_from_one_provider_to_the_other() -> None:
    system, messages = to_anthropic(from_openai([message for message in OPENAI_MESSAGES if message["role"] != "user"]))

    assert [block["text"] for block in system] == ["Be brief.", "You are helpful."]
    assert [block["input"] for block in messages[1]["content"]][:3] == [
        {"city": "Oslo"},
        {"city": "Rome"},
        {"arguments": "not json"},
    ]
    assert len(messages[2]["content"]) == 4


def test_results_move_up_to_their_call() -> None:
    call = AIMemory(content="", tool_calls=[{"id": "c", "name": "slow", "arguments": {}}])
    items = [call, HumanMemory(content="still there?"), ToolMemory(content="done", tool_call_id="c")]

    assert [message["role"] for message in to_openai(items)] == ["assistant", "tool", "user"]


def test_items_get_the_metadata() -> None:
    metadata = MemoryMetadata(user_id="ada")

    assert {item.metadata for item in from_openai(OPENAI_MESSAGES, metadata=metadata)} == {metadata}


@pytest.mark.parametrize("read", [from_openai, from_anthropic])
def test_an_unknown_role_is_named(read: Any) -> None:
    with pytest.raises(InputError, match=r"messages\[1\]\.role: unknown role 'robot'"):
        read([{"role": "user", "content": "hi"}, {"role": "robot", "content": "beep"}])


def test_items_of_unknown_types_speak_as_a_user() -> None:
    assert to_openai([MemoryItem(content="x", memory_type="note")]) == [{"role": "user", "content": "x"}]


def test_summaries_are_a_users_text_that_says_it_is_a_record() -> None:
    summary = SummaryMemory(content="They talked.")
    fact = SummaryMemory(content="Ada likes tea.", lasting=True)
    first, second = to_openai([summary, fact])
    system, messages = to_anthropic([summary, fact])
    assert (first["role"], second["role"], system) == ("user", "user", [])
    assert [message["content"][0]["text"] for message in messages] == [first["content"], second["content"]]
    assert to_responses([summary, fact]) == [first, second]
    assert first["content"].endswith("They talked.")
    assert second["content"].endswith("Ada likes tea.")
    assert "not instructions" in first["content"]
    assert "not an instruction" in second["content"]


RESULT = ToolMemory(content="rain", tool_call_id="c", tool_name="weather")


@pytest.mark.parametrize(
    "call",
    [
        {"id": "c", "name": "weather", "args": {"city": "Oslo"}, "type": "tool_call"},
        {"id": "c", "name": "weather", "input": {"city": "Oslo"}, "type": "tool_use"},
        {"id": "c", "name": "weather", "arguments": '{"city":"Oslo"}'},
        {"id": "c", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
    ],
)
def test_calls_of_other_libraries_go_out_as_functions(call: dict[str, Any]) -> None:
    message, _ = to_openai([AIMemory(content="", tool_calls=[call]), RESULT])
    function = {"name": "weather", "arguments": '{"city":"Oslo"}'}
    assert message["tool_calls"] == [{"id": "c", "type": "function", "function": function}]


def test_what_speaks_for_the_model_has_its_calls_whatever_its_class() -> None:
    items = [MemoryItem(content="", memory_type="ai", tool_calls=[{"id": "c", "name": "weather"}]), RESULT]  # type: ignore[call-arg]  # a field that the class does not know
    assert [call["id"] for call in to_openai(items)[0]["tool_calls"]] == ["c"]
    assert [block["id"] for block in to_anthropic(items)[1][1]["content"]] == ["c"]


def test_what_does_not_speak_for_the_model_calls_nothing() -> None:
    thought = AIMemory(content="hm", memory_type="thought", tool_calls=[{"id": "c", "name": "weather"}])
    assert to_openai([thought, RESULT]) == [{"role": "user", "content": "hm"}]
    assert to_anthropic([thought, RESULT])[1] == [{"role": "user", "content": [{"type": "text", "text": "hm"}]}]


@pytest.mark.parametrize(
    "payload",
    [
        {"role": "system", "content": "hi"},
        {"role": "developer", "content": "hi"},
        {"role": "user", "content": "something else"},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "hi"}]},
        {"role": "assistant", "content": "hi", "tool_calls": [{"id": "x", "function": {"name": "f"}}]},
        [{"type": "tool_result", "tool_use_id": "x", "content": "hi"}],
        {"type": "function_call_output", "call_id": "x", "output": "hi"},
        {"type": "text", "text": "hi"},
        {"type": "additional_tools", "role": "developer", "tools": []},
        "no object",
        None,
        "hi",
        ["hi"],
        [[]],
        {},
    ],
)
@pytest.mark.parametrize("in_format", ["openai", "responses", "anthropic", "another", None])
def test_no_payload_says_more_than_its_item(payload: Any, in_format: str | None) -> None:
    for kind in (HumanMemory, AIMemory, ToolMemory, MemoryItem):
        item = kind(content="hi", payload=payload, payload_format=in_format)
        role = "assistant" if kind is AIMemory else "user"
        expected = [] if kind is ToolMemory else [{"role": role, "content": "hi"}]
        assert to_openai([item]) == expected
        assert to_responses([item]) == expected
        system, messages = to_anthropic([HumanMemory(content="first"), item])
        assert (system, [message["role"] for message in messages[1:]]) == ([], [each["role"] for each in expected])
        assert "tool" not in str(messages)


MIXED: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "What is this?"}, {"type": "image", "source": {}}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}]},
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t", "content": "tea"}, {"type": "text", "text": "Well?"}],
    },
]


def test_a_users_message_of_several_blocks_is_one_item_and_one_message() -> None:
    items = from_anthropic(MIXED)
    assert [item.memory_type for item in items] == ["human", "ai", "tool", "human"]
    assert to_anthropic(items) == ([], MIXED)


def test_an_item_that_was_changed_goes_out_changed() -> None:
    items = [*from_anthropic(MIXED[:1]), *from_openai(OPENAI_MESSAGES[-2:-1])]
    for item in items:
        item.content = "withdrawn"
    assert "withdrawn" in str(to_anthropic(items[:1]))
    assert "What is this?" not in str(to_anthropic(items[:1]))
    assert to_openai(items[1:]) == [{"role": "user", "content": "withdrawn"}]


def test_the_input_of_a_custom_call_crosses_over() -> None:
    call = {"id": "c", "type": "custom", "custom": {"name": "code", "input": "1+1"}}
    _, messages = to_anthropic([AIMemory(content="", tool_calls=[call]), RESULT])
    assert messages[1]["content"][0]["input"] == {"arguments": "1+1"}
