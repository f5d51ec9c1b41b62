"""What changes between an item and a message: ids, names, what was edited, and what another provider cannot hold."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda import AIMemory, HumanMemory, MemoryItem, SystemMemory, ToolMemory
from memoranda.errors import InputError
from memoranda.integrity import whole_groups
from memoranda_context import ContextManager
from memoranda_messages import (
    Dropped,
    from_anthropic,
    from_openai,
    from_responses,
    to_anthropic,
    to_openai,
    to_responses,
)

USER: dict[str, Any] = {"role": "user", "content": "hi"}


def called(*ids: str) -> list[MemoryItem]:
    """Return an item that makes calls of these ids, and a result for each, which says which it is."""
    calls = [{"id": call_id, "name": "f", "arguments": {}} for call_id in ids]
    results = [ToolMemory(content=f"{at}", tool_call_id=call_id, tool_name="f") for at, call_id in enumerate(ids)]
    return [AIMemory(content="", tool_calls=calls), *results]


def test_ids_that_come_again_go_out_anew_and_come_back_as_they_were() -> None:
    items = [HumanMemory(content="hi"), *called("a", "a"), *called("a"), *called("b")]
    chat, responses, (_, messages) = to_openai(items), to_responses(items), to_anthropic(items)
    assert [message["tool_call_id"] for message in chat if message["role"] == "tool"] == ["a", "a_2", "a_3", "b"]
    for returned in (from_openai(chat), from_anthropic(messages)):
        assert [getattr(item, "tool_call_id", None) for item in returned if item.memory_type == "tool"] == [*"aaab"]
        assert [call["id"] for item in returned for call in getattr(item, "tool_calls", ())] == [*"aaab"]
        assert to_openai(returned) == chat
    assert to_responses(from_responses(responses)) == responses


@pytest.mark.parametrize("ids", [["a", "a_2"], ["a_2", "a"], ["a", "a_3"], ["a", "a", "a_2"], ["a_2", "a", "a"]])
def test_an_id_that_only_looks_like_a_new_one_goes_out_the_same_again(ids: list[str]) -> None:
    chat = to_openai([item for call_id in ids for item in called(call_id)])
    assert to_openai(from_openai(chat)) == chat


def test_results_that_answer_in_another_order_keep_their_calls() -> None:
    call, first, second = to_openai(called("a", "a"))
    items = from_openai([call, second, first])
    assert to_openai(items) == [call, second, first]


def test_a_call_whose_result_comes_later_keeps_its_id() -> None:
    messages = to_openai([*called("a"), *called("a")])
    (call,) = from_openai(messages[:3])[2].tool_calls  # type: ignore[attr-defined]
    assert call["id"] == "a_2"


def test_a_result_of_several_calls_goes_out_for_each() -> None:
    call = called("a", "b")[0]
    items = [HumanMemory(content="?"), call, ToolMemory(content="both", tool_call_id="a", also_answers=["b"])]
    texts = [message["content"] for message in to_openai(items)[2:]]
    assert texts[0] == "both"
    assert "together" in texts[1]
    assert [block["tool_use_id"] for block in to_anthropic(items)[1][2]["content"]] == ["a", "b"]
    assert [item["call_id"] for item in to_responses(items)[1:]] == ["a", "b", "a", "b"]


def test_an_assistant_who_speaks_first_is_introduced_and_on_the_way_in_it_is_not_read() -> None:
    told: list[Dropped] = []
    _, messages = to_anthropic([AIMemory(content="Welcome!")], dropped=told)
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert [(each.what, each.reason) for each in told] == [("the assistant's opening", "repaired")]
    assert [item.content for item in from_anthropic(messages)] == ["Welcome!"]


def test_a_name_that_openai_refuses_is_changed_and_told() -> None:
    told: list[Dropped] = []
    item = HumanMemory(content="hi", name="Ada Lovelace")
    assert to_openai([item], dropped=told) == [{"role": "user", "content": "hi", "name": "Ada_Lovelace"}]
    assert told == [Dropped(item.id, "name", "repaired")]
    assert to_openai([HumanMemory(content="hi", name="  ")]) == [USER]
    assert to_openai(from_openai([USER | {"name": "Ada L"}])) == [USER | {"name": "Ada_L"}]


async def test_what_is_changed_on_the_way_out_is_in_the_explanation() -> None:
    turns = [AIMemory(content="Welcome!"), HumanMemory(content="hi", name="Ada Lovelace")]
    context = await ContextManager().assemble_context("And now?", conversation=turns)
    assert any("name was changed" in warning for warning in context.explain().warnings)
    assert any("opening was changed" in warning for warning in context.explain().warnings)
    assert turns[1].id in str(context.explain())


def test_an_edited_text_keeps_what_came_with_the_calls() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}, "extra_content": {"s": 1}}
    result = {"role": "tool", "tool_call_id": "c", "content": "done"}
    items = from_openai(
        [{"role": "assistant", "content": "Secret.", "audio": {"id": "a"}, "tool_calls": [call]}, result]
    )
    items[0].content = "Withdrawn."
    assert to_openai(items) == [{"role": "assistant", "content": "Withdrawn.", "tool_calls": [call]}, result]


def test_an_edited_call_goes_out_as_edited() -> None:
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}, "cache_control": {"type": "ephemeral"}}
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    result = {"type": "tool_result", "tool_use_id": "t", "is_error": False}
    messages = [USER, {"role": "assistant", "content": [thinking, use]}, {"role": "user", "content": [result]}]
    items = from_anthropic(messages)
    items[1].tool_calls[0]["arguments"] = {"a": 2}  # type: ignore[attr-defined]
    sent = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 2}}
    assert to_anthropic(items)[1][1]["content"] == [sent]


@pytest.mark.parametrize("changed", [0, 1])
def test_a_call_that_only_one_api_has_is_a_function_where_it_or_its_output_was_edited(changed: int) -> None:
    pair = [
        {"type": "computer_call", "id": "cu", "call_id": "c", "action": {"type": "wait"}, "status": "completed"},
        {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "image_url": "u"}},
    ]
    items = from_responses(pair)
    items[changed].content = "edited"
    kinds = [item.get("type", "message") for item in to_responses(items)]
    assert (
        kinds
        == [["message", "computer_call", "computer_call_output"], ["function_call", "function_call_output"]][changed]
    )


def test_reasoning_goes_with_the_call_that_it_led_to() -> None:
    reasoning = {"type": "reasoning", "id": "rs", "summary": []}
    calls = [{"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"} for call_id in "ab"]
    output = {"type": "function_call_output", "call_id": "a", "output": "x"}
    items = from_responses([USER, reasoning, *calls, output, USER])
    assert {item.group for item in items[1:4]} == {"rs"}
    assert {item.group for item in (items[0], *items[4:])} == {None}
    assert [item.content for item in whole_groups(items)] == ["hi", "hi"]
    assert to_responses(items) == [USER, USER]


LOST: list[tuple[Any, Any, Any, list[str]]] = [
    (from_openai, [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}], to_anthropic, []),
    (
        from_openai,
        [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}}]}],
        to_anthropic,
        ["input_audio"],
    ),
    (
        from_openai,
        [{"role": "user", "content": [{"type": "file", "file": {}}, {"type": "text", "text": "x"}]}],
        to_responses,
        ["file"],
    ),
    (from_openai, [{"role": "assistant", "content": "x", "audio": {"id": "a"}}], to_anthropic, ["audio"]),
    (from_openai, [{"role": "user", "content": "x", "name": "ada"}], to_anthropic, ["name"]),
    (from_openai, [{"role": "assistant", "content": "x", "refusal": None, "annotations": []}], to_anthropic, []),
    (from_openai, [{"role": "developer", "content": "x"}], to_anthropic, []),
    (
        from_anthropic,
        [
            USER,
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "x"}]},
        ],
        to_openai,
        ["thinking"],
    ),
    (from_anthropic, [{"role": "user", "content": [{"type": "document", "source": {}}]}], to_responses, ["document"]),
    (from_anthropic, [{"role": "user", "content": "x"}], to_openai, []),
    (
        from_responses,
        [{"type": "reasoning", "id": "r", "summary": []}, {"role": "assistant", "content": "x"}],
        to_openai,
        ["reasoning"],
    ),
    (
        from_responses,
        [{"type": "web_search_call", "id": "w", "status": "completed", "action": {}}],
        to_anthropic,
        ["web_search_call"],
    ),
    (from_responses, [{"role": "user", "content": [{"type": "input_image", "image_url": "u"}]}], to_openai, []),
    (
        from_responses,
        [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}],
        to_openai,
        ["input_image"],
    ),
    (
        from_responses,
        [
            {"type": "computer_call", "call_id": "c", "action": {"type": "wait"}},
            {
                "type": "computer_call_output",
                "call_id": "c",
                "output": {"type": "computer_screenshot", "image_url": "u"},
            },
        ],
        to_openai,
        ["computer_screenshot"],
    ),
]


@pytest.mark.parametrize(("read", "messages", "write", "lost"), LOST)
def test_what_another_provider_cannot_hold_is_told_or_refused(
    read: Any, messages: Any, write: Any, lost: list[str]
) -> None:
    items = read(messages)
    told: list[Dropped] = []
    write(items, dropped=told)
    assert [each.what for each in told if each.reason == "unsupported"] == lost
    if lost:
        with pytest.raises(InputError, match=lost[0]) as raised:
            write(items, strict=True)
        assert raised.value.field == lost[0]
    else:
        write(items, strict=True)


def test_a_failed_result_is_told_where_there_is_no_place_for_the_failure() -> None:
    items = [*called("a")[:1], ToolMemory(content="no", tool_call_id="a", is_error=True)]
    for write in (to_openai, to_responses):
        with pytest.raises(InputError, match="is_error"):
            write(items, strict=True)
    to_anthropic(items, strict=True)


def test_what_is_left_out_as_incomplete_is_told_and_no_error() -> None:
    told: list[Dropped] = []
    call = called("a")[0]
    assert to_openai([call], strict=True, dropped=told) == []
    assert [(each.item_id, each.reason) for each in told] == [(call.id, "incomplete")]


def test_an_empty_system_item_of_another_provider_says_nothing() -> None:
    items = from_responses([{"type": "additional_tools", "role": "developer", "tools": []}])
    assert isinstance(items[0], SystemMemory)
    assert to_openai(items) == []
    assert to_anthropic(items) == ([], [])


def test_a_function_of_the_old_form_is_answered_under_the_name_that_was_called() -> None:
    call = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    items = from_openai([call, {"role": "function", "name": "f", "content": "done"}])
    items[1].tool_name = "renamed"  # type: ignore[attr-defined]
    assert to_openai(items) == [call, {"role": "function", "content": "done", "name": "f"}]


def test_an_assistant_behind_a_system_message_speaks_first_all_the_same() -> None:
    system = from_anthropic([USER, {"role": "system", "content": "Be brief."}])[1]
    _, messages = to_anthropic([system, AIMemory(content="Welcome!")])
    assert [message["role"] for message in messages] == ["system", "user", "assistant"]
    assert [item.memory_type for item in from_anthropic(messages)] == ["system", "ai"]
    given = [{"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "Welcome!"}]
    assert to_anthropic(from_anthropic(given))[1] == given


def test_dropped_is_a_list() -> None:
    with pytest.raises(InputError, match="dropped"):
        to_openai([], dropped=())  # type: ignore[arg-type]
