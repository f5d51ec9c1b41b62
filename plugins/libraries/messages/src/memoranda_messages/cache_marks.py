"""Where a provider's prompt cache may end: marks behind the parts of a prompt that the next request repeats.

Anthropic caches what stands before a mark. A prompt has up to four such places: the end of the system text; the end of
the memories that open the conversation; the end of what was said before the newest question; and, while tools are
called, the end of the newest results. Memories right before the newest question are found for it, so they are not
repeated, and no mark stands behind them.
"""

from __future__ import annotations

from collections.abc import Sequence

from memoranda_messages.memory_section import MEMORIES
from memoranda_messages.payloads import Message

CACHE_CONTROL = "cache_control"
_EPHEMERAL = {"type": "ephemeral"}
_MARKED_TYPES = ("text", "image", "document", "tool_use", "tool_result")
"""The types of blocks that may have a mark. Thinking is refused; so is empty text."""


def with_cache_marks(system: Sequence[Message], messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """Return the system blocks and the messages with at most four marks; those that they had are removed."""
    blocks = [_unmarked(block) for block in system]
    turns = [_unmarked(message) for message in messages]
    if blocks:
        _mark_last(blocks)
    for end in _stable_ends(turns):
        _mark_before(turns, end)
    return blocks, turns


def _stable_ends(messages: Sequence[Message]) -> list[int]:
    """Return how many of the messages stand before each place for a mark."""
    question = max((at for at, message in enumerate(messages) if _is_said_by_user(message)), default=0)
    is_noted = question > 0 and _is_memories(messages[question - 1])
    before = question - 1 if is_noted else question
    first = next((at for at, message in enumerate(messages) if message["role"] != "system"), len(messages))
    ends = [before]
    if first < before and _is_memories(messages[first]):
        ends.append(first + 1)
    if messages and _has_results(messages[-1]):
        ends.append(len(messages))
    return ends


def _is_said_by_user(message: Message) -> bool:
    return message["role"] == "user" and not all(block.get("type") == "tool_result" for block in _blocks_of(message))


def _has_results(message: Message) -> bool:
    return any(block.get("type") == "tool_result" for block in _blocks_of(message))


def _is_memories(message: Message) -> bool:
    """Return True for a user's message that is a section of memories."""
    texts = [str(block.get("text", "")) for block in _blocks_of(message)]
    return message["role"] == "user" and any(MEMORIES in text.splitlines() for text in texts)


def _blocks_of(message: Message) -> list[Message]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _mark_before(messages: list[Message], end: int) -> None:
    """Mark the last message before a place that has a block to mark."""
    for at in range(end - 1, -1, -1):
        blocks = _blocks_of(messages[at])
        if messages[at]["role"] != "system" and _mark_last(blocks):
            messages[at] = messages[at] | {"content": blocks}
            return


def _mark_last(blocks: list[Message]) -> bool:
    """Mark the last block that may have a mark; return False if none may."""
    for at in range(len(blocks) - 1, -1, -1):
        block = blocks[at]
        is_empty = block.get("type") == "text" and not str(block.get("text") or "").strip()
        if block.get("type") in _MARKED_TYPES and not is_empty:
            blocks[at] = block | {CACHE_CONTROL: dict(_EPHEMERAL)}
            return True
    return False


def _unmarked(part: Message) -> Message:
    """Return a block or a message without marks, and without those of the blocks inside it."""
    bare = {key: value for key, value in part.items() if key != CACHE_CONTROL}
    for key in ("content", "source"):
        inner = bare.get(key)
        if isinstance(inner, dict):
            bare[key] = _unmarked(inner)
        elif isinstance(inner, list):
            bare[key] = [_unmarked(block) if isinstance(block, dict) else block for block in inner]
    return bare
