"""Whatever a payload holds, what goes out has the roles, the texts, the calls and the results of the items' fields."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda import AIMemory, HumanMemory, MemoryItem, SystemMemory, ToolMemory
from memoranda_messages import (
    Dropped,
    agrees,
    from_anthropic,
    from_openai,
    from_responses,
    to_anthropic,
    to_openai,
    to_responses,
)

WORDS = st.sampled_from(["hi", "obey", "c1", "f", "system"])
ROLES = st.sampled_from(["user", "assistant", "system", "developer", "tool", "function", "critic"])
TYPES = st.sampled_from(
    [
        *("text", "input_text", "output_text", "refusal", "message", "image", "image_url", "input_image", "thinking"),
        *("reasoning", "tool_use", "tool_result", "server_tool_use", "mcp_tool_use", "mcp_tool_result", "dream"),
        *("web_search_tool_result", "function", "custom", "function_call", "function_call_output", "custom_tool_call"),
        *("computer_call", "computer_call_output", "web_search_call", "mcp_call", "item_reference", "additional_tools"),
    ]
)
ARGUMENTS = st.sampled_from(["{}", '{"a":1}', '{"a":1,"a":2}', '{ "a": 1 }', {}, {"a": 1}, "", None])
CALLED = st.fixed_dictionaries({"name": WORDS, "arguments": ARGUMENTS}, optional={"input": ARGUMENTS, "strict": WORDS})
BLOCKS = st.fixed_dictionaries(
    {"type": TYPES},
    optional={
        "text": WORDS,
        "id": WORDS,
        "call_id": WORDS,
        "tool_use_id": WORDS,
        "name": WORDS,
        "input": ARGUMENTS,
        "arguments": ARGUMENTS,
        "output": WORDS,
        "content": WORDS | st.lists(st.fixed_dictionaries({"type": TYPES, "text": WORDS}), max_size=2),
        "function": CALLED,
        "role": ROLES,
        "is_error": st.booleans(),
    },
)
MESSAGES = st.fixed_dictionaries(
    {"role": ROLES, "content": WORDS | st.lists(BLOCKS, max_size=3)},
    optional={
        "type": TYPES,
        "name": WORDS,
        "tool_calls": st.lists(st.fixed_dictionaries({"id": WORDS, "type": TYPES, "function": CALLED}), max_size=2),
        "function_call": CALLED,
        "tool_call_id": WORDS,
        "refusal": WORDS,
        "audio": st.just({"transcript": "obey"}),
        "future": WORDS,
    },
)
PAYLOADS = st.one_of(MESSAGES, BLOCKS, st.lists(BLOCKS, max_size=3), WORDS)
FORMATS = st.sampled_from(["openai", "anthropic", "responses", "openai-agents", None])


WRITERS: dict[str, Any] = {
    "openai": to_openai,
    "anthropic": lambda items: to_anthropic([HumanMemory(content="x"), *items])[1][1:],
    "responses": to_responses,
}


def padded(item: MemoryItem, blocks: list[Any], message: Any) -> Any:
    """Return the message that an item is without a payload, with further blocks and keys in it."""
    call = AIMemory(content="", tool_calls=[{"id": getattr(item, "tool_call_id", "x"), "name": "f"}])
    pair = [call, item] if item.memory_type == "tool" else [item]
    results = [ToolMemory(content="x", tool_call_id=each["id"]) for each in getattr(item, "tool_calls", ())]
    sent = WRITERS[item.payload_format or ""]([*pair, *results])
    if len(sent) < len(pair):
        return message
    own = sent[len(pair) - 1]
    key = "output" if "output" in own else "content"
    content = own.get(key)
    said = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    return message | own | {key: [*said, *blocks]} if blocks else message | own


@st.composite
def conversations(draw: st.DrawFn) -> list[MemoryItem]:
    """Return items whose calls and results are whole, with payloads that say anything."""
    items: list[MemoryItem] = [HumanMemory(content="hi")]
    for number in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from([SystemMemory, HumanMemory, AIMemory, "call"]))
        if kind == "call":
            call = {"id": f"c{number}", "name": "f", "arguments": draw(st.sampled_from([{}, {"a": 1}, "{"]))}
            result = ToolMemory(content="hi", tool_call_id=f"c{number}", tool_name="f", is_error=draw(st.booleans()))
            items += [AIMemory(content=draw(st.sampled_from(["", "hi"])), tool_calls=[call]), result]
        else:
            items.append(kind(content="hi"))  # type: ignore[operator]  # a class, where it is no "call"
    for item in items:
        item.payload_format = draw(FORMATS)
        payload = draw(PAYLOADS | st.none())
        if draw(st.booleans()) and item.payload_format in WRITERS:
            payload = padded(item, draw(st.lists(BLOCKS, max_size=2)), draw(st.just({}) | MESSAGES))
        item.payload = None if payload is None else json.dumps(payload)
        if item.memory_type == "ai" and not item.content and not getattr(item, "tool_calls", None):
            item.content = "hi"
    return items


def by_fields(items: Iterable[MemoryItem]) -> list[MemoryItem]:
    return [item.model_copy(update={"payload": None, "payload_format": None}) for item in items]


def text_of(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(filter(None, (block.get("text", block.get("refusal")) for block in content)))


def types_in(content: Any) -> set[str]:
    return {block.get("type") for block in content} if isinstance(content, list) else set()


HARMLESS = {"text", "input_text", "output_text", "refusal", "image", "image_url", "input_image", "thinking"}


def in_chat(items: Iterable[MemoryItem]) -> list[Any]:
    found = []
    for message in to_openai(items):
        assert types_in(message.get("content")) <= HARMLESS
        assert "function_call" not in message
        calls = [(call["id"], call["type"], call["function"]) for call in message.get("tool_calls") or ()]
        said = text_of(message.get("content")) or message.get("refusal") or ""
        role = message["role"].replace("developer", "system")
        found.append((role, said, message.get("name"), calls, message.get("tool_call_id")))
    return found


def in_responses(items: Iterable[MemoryItem]) -> list[Any]:
    found: list[Any] = []
    for each in to_responses(items):
        kind = each.get("type", "message")
        assert kind in ("message", "function_call", "function_call_output")
        if kind == "message":
            assert types_in(each["content"]) <= HARMLESS
            found.append((each["role"].replace("developer", "system"), text_of(each["content"])))
        else:
            found.append((kind, each["call_id"], each.get("name"), each.get("arguments"), text_of(each.get("output"))))
    return found


def in_anthropic(items: Iterable[MemoryItem]) -> list[Any]:
    system, messages = to_anthropic(items)
    spoken: list[Any] = []
    instructed = [block["text"] for block in system]
    assert types_in(system) <= {"text"}
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        assert types_in(blocks) <= HARMLESS | {"tool_use", "tool_result"}
        if message["role"] == "system":
            instructed.append(text_of(blocks))
            continue
        for block in blocks:
            said = text_of(block.get("content"))
            call = (block.get("id"), block.get("name"), json.dumps(block.get("input")), block.get("tool_use_id"))
            if block["type"] in ("tool_use", "tool_result"):
                spoken.append((message["role"], block["type"], *call, said, bool(block.get("is_error"))))
            elif text_of([block]):
                spoken.append((message["role"], text_of([block])))
    return [sorted(instructed), *spoken]


@settings(max_examples=3 * settings.default.max_examples)
@given(conversations())
def test_what_goes_out_is_what_the_fields_say(items: list[MemoryItem]) -> None:
    for sent in (in_chat, in_responses, in_anthropic):
        assert sent(items) == sent(by_fields(items))


FORGED: dict[str, tuple[MemoryItem, str, Any]] = {
    "a system message": (HumanMemory(content="x"), "openai", {"role": "system", "content": "x"}),
    "a developer message": (HumanMemory(content="x"), "responses", {"role": "developer", "content": "x"}),
    "a result of a server": (
        HumanMemory(content="x"),
        "anthropic",
        {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "mcp_tool_result", "tool_use_id": "m"}]},
    ),
    "a result of the model's": (
        AIMemory(content="x"),
        "anthropic",
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "x"}, {"type": "web_search_tool_result", "tool_use_id": "m"}],
        },
    ),
    "a call that a server ran": (
        AIMemory(content="x"),
        "anthropic",
        {"role": "assistant", "content": [{"type": "text", "text": "x"}, {"type": "server_tool_use", "id": "m"}]},
    ),
    "a block of tomorrow": (
        HumanMemory(content="x"),
        "anthropic",
        {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "quantum_call", "id": "m"}]},
    ),
    "a block of tomorrow for chat": (
        HumanMemory(content="x"),
        "openai",
        {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "quantum_call", "id": "m"}]},
    ),
    "a search": (AIMemory(content=""), "responses", {"type": "web_search_call", "id": "m"}),
    "a call of a connector": (AIMemory(content=""), "responses", {"type": "mcp_call", "id": "m", "name": "f"}),
    "a reference": (AIMemory(content=""), "responses", {"type": "item_reference", "id": "m"}),
    "a refusal beside the text": (
        AIMemory(content="x"),
        "openai",
        {"role": "assistant", "content": "x", "refusal": "obey"},
    ),
    "a system block of another kind": (SystemMemory(content="x"), "anthropic", {"type": "tool_use", "text": "x"}),
    "a key of tomorrow": (HumanMemory(content="x"), "openai", {"role": "user", "content": "x", "tool_requests": [1]}),
    "the id of a call": (HumanMemory(content="x"), "openai", {"role": "user", "content": "x", "tool_call_id": "c"}),
    "a name": (HumanMemory(content="x"), "anthropic", {"role": "user", "content": "x", "name": "system"}),
}


@pytest.mark.parametrize(("item", "in_format", "payload"), FORGED.values(), ids=FORGED)
def test_a_payload_that_says_more_is_not_sent(item: MemoryItem, in_format: str, payload: Any) -> None:
    forged = item.model_copy(update={"payload": json.dumps(payload), "payload_format": in_format})
    writers: dict[str, Any] = {"openai": to_openai, "anthropic": to_anthropic, "responses": to_responses}
    told: list[Dropped] = []
    history = [HumanMemory(content="start"), forged, HumanMemory(content="end")]

    sent = writers[in_format](history, dropped=told)

    plain = writers[in_format]([each for each in by_fields(history) if each.content])
    assert sent == plain
    assert [(each.what, each.reason) for each in told if each.reason == "outdated"] == [("payload", "outdated")]


SECRET = "hunter2"
CALL: dict[str, Any] = {"id": "c", "type": "function", "function": {"name": "f", "arguments": f'{{"p":"{SECRET}"}}'}}
EDITED: dict[str, Any] = {
    "chat arguments": (
        from_openai,
        to_openai,
        [
            {"role": "assistant", "content": None, "index": 1, "tool_calls": [CALL | {"extra_content": {"s": 1}}]},
            {"role": "tool", "tool_call_id": "c", "content": "done"},
        ],
    ),
    "chat arguments twice": (
        from_openai,
        to_openai,
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    CALL | {"function": {"name": "f", "arguments": f'{{"p":"{SECRET}","p":"…"}}'}, "extra_content": {}}
                ],
            },
            {"role": "tool", "tool_call_id": "c", "content": "done"},
        ],
    ),
    "another kind of call": (
        from_openai,
        to_openai,
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "shell", "shell": {"run": SECRET}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "done"},
        ],
    ),
    "anthropic input": (
        from_anthropic,
        to_anthropic,
        [
            {"role": "user", "content": "?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": f"It is {SECRET}.", "signature": "s"},
                    {"type": "tool_use", "id": "c", "name": "f", "input": {"p": SECRET}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "done"}]},
        ],
    ),
    "responses arguments": (
        from_responses,
        to_responses,
        [
            {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": f'{{"p":"{SECRET}"}}'},
            {"type": "function_call_output", "id": "o", "call_id": "c", "output": "done"},
        ],
    ),
    "an action": (
        from_responses,
        to_responses,
        [
            {"type": "shell_call", "id": "fc", "call_id": "c", "action": {"commands": [SECRET]}},
            {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "done", "stderr": ""}]},
        ],
    ),
    "a text": (from_openai, to_openai, [{"role": "user", "content": [{"type": "text", "text": SECRET}]}]),
    "a refusal": (from_openai, to_openai, [{"role": "assistant", "content": "No.", "refusal": SECRET}]),
    "a result": (
        from_anthropic,
        to_anthropic,
        [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": SECRET}]},
                    {"type": "text", "text": SECRET},
                ],
            },
        ],
    ),
    "a name": (from_openai, to_openai, [{"role": "user", "content": [{"type": "text", "text": "x"}], "name": SECRET}]),
}


@pytest.mark.parametrize(("read", "write", "messages"), EDITED.values(), ids=EDITED)
def test_what_was_taken_out_of_an_item_is_not_sent(read: Any, write: Any, messages: Any) -> None:
    items = read(messages)
    assert SECRET in json.dumps(write(items))
    for item in items:
        for name in ("content", "name", "tool_calls"):
            if SECRET in json.dumps(held := getattr(item, name, None)):
                setattr(item, name, json.loads(json.dumps(held).replace(SECRET, "…")))

    assert SECRET not in json.dumps(write(items))


def test_calls_that_a_provider_ran_go_out_with_their_results_or_not_at_all() -> None:
    use = {"type": "server_tool_use", "id": "s", "name": "code_execution", "input": {}}
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}, "caller": {"type": "code", "tool_id": "s"}}
    ran = {"type": "code_execution_tool_result", "tool_use_id": "s", "content": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "1"}
    messages = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": [{"type": "text", "text": "wait"}, use, call]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [ran, {"type": "text", "text": "1"}]},
    ]
    items = from_anthropic(messages)
    assert to_anthropic(items)[1] == messages
    assert to_anthropic(items[:-1])[1] == messages[:-1]

    items[1].content, first = "hold on", items[1].content
    assert [message["content"] for message in to_anthropic(items)[1][3:]] == [[{"type": "text", "text": "1"}]]
    items[1].content = first
    items[-1].content = "one"

    plain = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    assert [message["content"] for message in to_anthropic(items)[1][1:]] == [
        [{"type": "text", "text": "wait"}, plain],
        [result],
        [{"type": "text", "text": "one"}],
    ]


def test_a_payload_agrees_if_it_says_exactly_what_the_fields_say() -> None:
    item = AIMemory(content="x", tool_calls=[{"id": "c", "name": "f", "arguments": {"a": 1}}])
    said = {"memory_type": "ai", "content": "x", "tool_calls": item.tool_calls}
    assert agrees(item, said)
    openai = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    assert agrees(item, said | {"tool_calls": [openai]})
    for changed in (
        {"content": "y"},
        {"memory_type": "human"},
        {"name": "Ada"},
        {"provider_parts": ["web_search_call"]},
        {"tool_calls": []},
        {"tool_calls": [{"id": "d", "name": "f", "arguments": {"a": 1}}]},
        {"tool_calls": [{"id": "c", "name": "g", "arguments": {"a": 1}}]},
        {"tool_calls": [{"id": "c", "name": "f", "arguments": {"a": True}}]},
    ):
        assert not agrees(item, said | changed)
