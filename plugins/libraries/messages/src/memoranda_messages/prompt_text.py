"""A context as one text: what was said as entries of a section.

The first line of an entry starts with a dash, every further one is indented. Headings stand at the start of a line, so
that no stored text can pass for one, nor for another entry.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from memoranda.items import MemoryItem
from memoranda.speakers import speaker
from memoranda.tool_calls import call_arguments, call_name
from memoranda_messages.request import results_behind_calls

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


def conversation_entry(item: MemoryItem) -> str:
    """Return a turn of the conversation as an entry: who speaks, what, and which tools are called."""
    calls = [f"{call_name(call)}({call_arguments(call)})" for call in getattr(item, "tool_calls", None) or ()]
    content = [item.content] if item.content or not calls else []
    return indented("\n".join([*content, *(f"calls {call}" for call in calls)]), f"- {speaker(item, _ROLES)}: ")


def _is_only_payload(item: MemoryItem) -> bool:
    """Return True if an item holds nothing but a payload, such as a model's encrypted reasoning."""
    silent = not item.content and not getattr(item, "tool_calls", None) and item.memory_type != "tool"
    return silent and item.payload is not None


def one_line(text: str) -> str:
    """Return the text with line ends and control characters as spaces."""
    return _CONTROL.sub(" ", _LINE_ENDS.sub("\n", text)).replace("\n", " ").strip()
