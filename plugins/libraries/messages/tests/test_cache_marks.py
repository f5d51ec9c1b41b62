"""What a provider's cache may reuse of a prompt is marked, and nothing else changes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from test_messages import ANY_ITEM, conversations

from memoranda import AIMemory, HumanMemory, MemoryItem, SystemMemory, ToolMemory
from memoranda_messages import from_anthropic, to_anthropic

MARK = {"type": "ephemeral"}
MOST_MARKS = 4
MARKED = {"text", "image", "document", "tool_use", "tool_result"}

SYSTEM = SystemMemory(content="Be brief.")
LASTING = HumanMemory(content="Notes.\n<memories>\n- I live in Porto.\n</memories>")
FOUND = HumanMemory(content="Notes.\n<memories>\n- My dog is Rolo.\n</memories>")
SAID = [HumanMemory(content="Hi!"), AIMemory(content="Hello!")]
QUESTION = HumanMemory(content="How old is Rolo?")
CALL = AIMemory(content="", tool_calls=[{"id": "c", "name": "age", "arguments": {}}])
RESULT = ToolMemory(content="Three.", tool_call_id="c", tool_name="age")

Blocks = list[dict[str, Any]]


def blocks_of(system: Blocks, messages: Blocks) -> Blocks:
    """Return all blocks; a text is one block."""
    found = list(system)
    for message in messages:
        content = message["content"]
        found += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return found


def unmarked(blocks: Blocks) -> Blocks:
    return [{key: value for key, value in block.items() if key != "cache_control"} for block in blocks]


def marked_texts(items: list[MemoryItem]) -> list[str]:
    """Return what stands in the blocks that have a mark."""
    marked = [block for block in blocks_of(*to_anthropic(items, cache=True)) if "cache_control" in block]
    return [block.get("text") or block.get("content") or block["name"] for block in marked]


SECTIONS = st.builds(HumanMemory, content=st.sampled_from([LASTING.content, FOUND.content]))


@given(st.lists(ANY_ITEM | SECTIONS, max_size=12) | conversations())
def test_marks_are_few_and_allowed_and_change_nothing_else(items: list[MemoryItem]) -> None:
    system, messages = to_anthropic(items)
    marked_system, marked_messages = to_anthropic(items, cache=True)

    assert [message["role"] for message in marked_messages] == [message["role"] for message in messages]
    blocks = blocks_of(marked_system, marked_messages)
    assert unmarked(blocks) == blocks_of(system, messages)
    marked = [block for block in blocks if "cache_control" in block]
    assert len(marked) <= MOST_MARKS
    assert all(block["cache_control"] == MARK and block["type"] in MARKED for block in marked)
    assert all(block["text"].strip() for block in marked if block["type"] == "text")


def test_each_stable_part_of_a_prompt_ends_with_a_mark() -> None:
    assert marked_texts([SYSTEM, LASTING, *SAID, FOUND, QUESTION]) == ["Be brief.", LASTING.content, "Hello!"]


def test_results_at_the_end_have_a_mark_for_the_next_call() -> None:
    prompt = [SYSTEM, LASTING, *SAID, FOUND, QUESTION, CALL, RESULT]

    assert marked_texts(prompt) == ["Be brief.", LASTING.content, "Hello!", "Three."]


def test_memories_for_the_question_have_no_mark() -> None:
    assert marked_texts([SYSTEM, FOUND, QUESTION]) == ["Be brief."]
    assert marked_texts([SYSTEM, LASTING, FOUND, QUESTION]) == ["Be brief.", LASTING.content]
    assert marked_texts([QUESTION]) == []
    assert marked_texts([]) == []


def test_thinking_has_no_mark() -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    said = from_anthropic(
        [
            {"role": "user", "content": "Hi!"},
            {"role": "assistant", "content": [{"type": "text", "text": "Well"}, thinking]},
            {"role": "user", "content": "And?"},
        ]
    )

    assert marked_texts(said) == ["Well"]
    assert marked_texts([said[0], AIMemory(content="x"), QUESTION]) == ["x"]


def test_marks_that_messages_came_with_are_removed_from_what_is_sent_alone() -> None:
    block = {"type": "text", "text": "Hi!", "cache_control": MARK}
    result = {"type": "tool_result", "tool_use_id": "c", "content": [block]}
    read: Blocks = [
        {"role": "user", "content": [block] * 6},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
        {"role": "user", "content": [result]},
        {"role": "user", "content": "And?"},
    ]
    items = from_anthropic(deepcopy(read))

    _, messages = to_anthropic(items, cache=True)

    assert str(messages).count("cache_control") == 1
    assert messages[2]["content"][-1]["cache_control"] == MARK
    assert to_anthropic(items)[1] == read
