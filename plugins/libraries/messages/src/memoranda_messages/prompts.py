"""How a prompt is written: the section of memories, the marks of a provider's cache, and all of it as one text.

No memory can end the section of memories: whoever puts stored text between its tags passes it through
:func:`without_section_tags` first. Whoever reads a prompt that was stored tells what was remembered from what was said
with :func:`outside_memories`.

In a prompt as one text, the first line of an entry starts with a dash, and every further one is indented. Headings
stand at the start of a line, so that no stored text can pass for one, nor for another entry.

Anthropic caches what stands before a mark. A prompt has up to four such places: the end of the system text; the end of
the memories that open the conversation; the end of what was said before the newest question; and, while tools are
called, the end of the newest results. Memories right before the newest question are found for it, so they are not
repeated, and no mark stands behind them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from memoranda.items import MemoryItem
from memoranda.speakers import speaker
from memoranda.tool_calls import call_arguments, call_name
from memoranda_messages.payloads import Message
from memoranda_messages.request import results_behind_calls
from memoranda_messages.shapes import calls_of

MEMORIES, MEMORIES_END = "<memories>", "</memories>"

# A model reads tags in any case, with spaces, in other widths, in letters that look alike, and with characters between
# them that no reader sees.
_UNSEEN = (
    "[\\s\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\U000e0000-\U000e0fff]*"
)
_BEGINNINGS = "[<\u2039\u2329\u27e8\u3008\ufe64\uff1c]"
_SLASHES = "[/\\\\\u2044\u2215\u29f8\uff0f]?"
_LETTERS = {
    "m": "mM\u043c\u041c\u039c\uff4d\uff2d",
    "e": "eE\u0435\u0415\u0395\uff45\uff25",
    "o": "oO0\u043e\u041e\u03bf\u039f\uff4f\uff2f",
    "r": "rR\u0433\uff52\uff32",
    "i": "iIl1\u0456\u0406\u03b9\u0399\uff49\uff29",
    "s": "sS\u0455\u0405\uff53\uff33",
}
_NAME = _UNSEEN.join(f"[{_LETTERS[letter]}]" for letter in "memories")
_TAG = re.compile(f"{_BEGINNINGS}(?={_UNSEEN}{_SLASHES}{_UNSEEN}{_NAME})")
_SECTION = re.compile(f"{MEMORIES}(?:.*{MEMORIES_END}|.*)", re.DOTALL | re.IGNORECASE)


def without_section_tags(text: str) -> str:
    """Return a text in which nothing can pass for the beginning or the end of the section: ``&lt;/memories>``."""
    if text.isascii() and "<" not in text:
        return text
    return _TAG.sub("&lt;", text)


def outside_memories(text: str) -> str:
    """Return a stored prompt with spaces instead of what was remembered in it, so that places stay the same.

    That is all from the first beginning of a section to the last end, or where none ends, the rest: what stands
    between two sections cannot be told from a memory that poses as their end.
    """
    return _SECTION.sub(lambda found: " " * len(found.group()), text)


def remarked(items: Sequence[MemoryItem], remarks: Mapping[str, str]) -> list[MemoryItem]:
    """Return items to show, each that says what holds no longer with the remark on it behind its words.

    ``remarks`` are by id: see :meth:`memoranda.store.Store.outdated`.
    """
    return [
        item.model_copy(update={"content": item.content + in_brackets(remarks[item.id])})
        if item.id in remarks
        else item
        for item in items
    ]


def in_brackets(remark: str) -> str:
    """Return a remark as it stands behind the words of an item."""
    return f" ({' '.join(remark.split())})"


CONVERSATION_HEADING = "# Conversation"
REQUEST_HEADING = "# Request"

# All that may be read as the end of a line; each becomes a newline.
_LINE_ENDS = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x9f]")
_ROLES = {"human": "user", "ai": "assistant"}


def prompt_text(
    system: str, notes: str, conversation: Sequence[MemoryItem], request: str | None, memories: str = ""
) -> str:
    """Return a system text, remembered sections, a conversation and a request as one prompt; without None.

    ``memories`` are sections for the request, which stand beside it.
    """
    sections = [system.strip(), notes]
    if conversation:
        items = [item for item in results_behind_calls(conversation) if not _is_only_payload(item)]
        sections.append("\n".join([CONVERSATION_HEADING, *map(conversation_entry, items)]))
    sections.append(memories)
    if request is not None:
        sections.append(f"{REQUEST_HEADING}\n{indented(request, '  ')}")
    return "\n\n".join(section for section in sections if section)


def indented(text: str, first: str) -> str:
    """Return the text with ``first`` before its first line and two spaces before all others."""
    if text.isprintable():  # One line without anything to replace.
        return first + text
    plain = _CONTROL.sub(" ", _LINE_ENDS.sub("\n", text))
    lines = plain.split("\n")
    return "\n".join([first + lines[0], *(f"  {line}".rstrip() for line in lines[1:])])


def memory_entry(text: str, first: str) -> str:
    """Return stored text as an entry of the section of memories, with ``first`` before its first line."""
    if text.isascii() and text.isprintable() and "<" not in text:  # Most are one line with nothing to replace.
        return first + text
    return indented(without_section_tags(text), first)


def conversation_entry(item: MemoryItem) -> str:
    """Return a turn of the conversation as an entry: who speaks, what, and which tools are called."""
    calls = [f"{call_name(call)}({call_arguments(call)})" for call in calls_of(item)]
    content = [item.content] if item.content or not calls else []
    return indented("\n".join([*content, *(f"calls {call}" for call in calls)]), f"- {speaker(item, _ROLES)}: ")


def _is_only_payload(item: MemoryItem) -> bool:
    """Return True if an item holds nothing but a payload, such as a model's encrypted reasoning."""
    silent = not item.content and not calls_of(item) and item.memory_type != "tool"
    return silent and item.payload is not None


def one_line(text: str) -> str:
    """Return the text with line ends and control characters as spaces."""
    return _CONTROL.sub(" ", _LINE_ENDS.sub("\n", text)).replace("\n", " ").strip()


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
