"""Long memories by the part that matters: their beginning, then the passage that was found."""

from __future__ import annotations

import re

from memoranda.items import MemoryItem

_HEAD = 120
"""How many characters of a beginning say what a memory is about."""

_SENTENCE_END = re.compile(r"[.!?。！？؟…](?=\s|$)|\n")
_GAP = " … "


def excerpt(item: MemoryItem, passage: str, most: int) -> MemoryItem:
    """Return an item with at most about so many characters of its content: its beginning, "…", and a passage of it."""
    content = item.content
    if len(content) <= most:
        return item
    head = _cut(content, max(most - len(passage), _HEAD) if passage else most)
    rest = passage.strip()
    if not rest or content.find(rest) < len(head):
        shown = _cut(content, most)
    else:
        shown = f"{head}{_GAP}{_cut(rest, max(most - len(head), _HEAD))}"
    return item.model_copy(update={"content": f"{shown} … (memory {item.id})"})


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text: whole sentences if one ends in time, else whole words."""
    if len(text) <= most:
        return text
    ends = [found.end() for found in _SENTENCE_END.finditer(text, most // 2, most)]
    if ends:
        return text[: ends[-1]].rstrip()
    space = text.rfind(" ", most // 2, most)
    return text[: space if space > 0 else most].rstrip()
