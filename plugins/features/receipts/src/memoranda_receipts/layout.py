"""How the messages of a context were put together: which spans are an item's own text, and which were added.

A message is a list of pieces: a text that was added, or a span of the text of an item, by its position. So the
receipt holds what stood around an item, and not the item.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memoranda.items import MemoryItem
from memoranda.store import dump_item, load_item
from memoranda.tool_calls import call_arguments, call_name

Piece = str | list[int]
"""An added text, or the position of an item and the two ends of a span of its text."""

_SEGMENT = re.compile("[^\x00-\x1f\x7f-\x9f\u2028\u2029]+")
"""A span without what may be read as the end of a line: that is often replaced."""


def text_of(item: MemoryItem) -> str:
    """Return everything that an item says: its content, then the names and arguments of the tools that it calls."""
    calls = (getattr(item, "tool_calls", None) or ()) if item.memory_type == "ai" else ()
    return "\n".join([item.content, *(f"{call_name(call)}\n{call_arguments(call)}" for call in calls)])


def pieces_of(written: str, item: MemoryItem, position: int) -> list[Piece]:
    """Return the pieces of a text that was written for an item; joined, they are that text."""
    source = text_of(item)
    whole = item.content
    at = written.rfind(whole) if whole else -1
    if at >= 0:
        return _joined([written[:at], [position, 0, len(whole)], written[at + len(whole) :]])
    pieces: list[Piece] = []
    done = 0
    for segment in _SEGMENT.finditer(source):
        start, end = segment.span()
        while start < end:
            length = _longest(source, start, end, written, done)
            if length:
                at = written.index(source[start : start + length], done)
                pieces += [written[done:at], [position, start, start + length]]
                done = at + length
            start += length or 1
    return _joined([*pieces, written[done:]])


def _longest(source: str, start: int, end: int, written: str, done: int) -> int:
    """Return the length of the longest text from ``start`` on that occurs behind ``done``."""
    if written.find(source[start:end], done) >= 0:
        return end - start
    least, most = 0, end - start - 1  # What is found with a length is found with every shorter one.
    while least < most:
        middle = (least + most + 1) // 2
        if written.find(source[start : start + middle], done) >= 0:
            least = middle
        else:
            most = middle - 1
    return least


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces without empty ones, texts that follow each other as one."""
    joined: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        elif piece:
            joined.append(piece)
    return joined


def layout_of(
    messages: Sequence[MemoryItem],
    sources: Mapping[str, tuple[int, MemoryItem]],
    entries: Sequence[tuple[str, str, int]],
) -> list[int | dict[str, Any]] | None:
    """Return how each message was made; None if every one is an unchanged item.

    ``sources`` has the items that were shown by id, each with its position. ``entries`` are those that stand within
    another message: the id, the text that was written for it, and how much of that stands before the item's own.
    """
    layout: list[int | dict[str, Any]] = []
    waiting = list(entries)
    for message in messages:
        source = sources.get(message.id)
        if source is None:
            layout.append({"type": message.memory_type, "pieces": _within(message.content, sources, waiting)})
        elif message is source[1] or dump_item(message) == dump_item(source[1]):
            layout.append(source[0])
        else:
            layout.append(_changed(message, *source))
    return None if layout == list(range(len(sources))) else layout


def _within(
    text: str, sources: Mapping[str, tuple[int, MemoryItem]], waiting: list[tuple[str, str, int]]
) -> list[Piece]:
    """Return the pieces of a text that entries stand in; these are taken from ``waiting``."""
    pieces: list[Piece] = []
    done = 0
    while waiting and (at := text.find(waiting[0][1], done)) >= 0:
        item_id, written, before = waiting.pop(0)
        position, item = sources[item_id]
        pieces += [text[done:at] + written[:before], *pieces_of(written[before:], item, position)]
        done = at + len(written)
    return _joined([*pieces, text[done:]])


def _changed(message: MemoryItem, position: int, item: MemoryItem) -> dict[str, Any]:
    """Return how a message was made from an item: which fields are the item's, and what the others are."""
    shown, own = dump_item(message), dump_item(item)
    kept = [name for name in shown if name in own and shown[name] == own[name] and name != "content"]
    given = {name: value for name, value in shown.items() if name not in kept and name not in ("content", "version")}
    return {"of": position, "keep": kept, "set": given, "pieces": pieces_of(message.content, item, position)}


def messages_of(
    layout: Sequence[int | Mapping[str, Any]] | None,
    items: Sequence[MemoryItem | None],
    types: Mapping[str, type[MemoryItem]],
    missing: Callable[[int], str],
) -> list[MemoryItem]:
    """Return the messages that a layout describes, without those that are an item that is None.

    Where such an item stood within another message, ``missing`` says what is written instead.
    """
    found: list[MemoryItem] = []
    for part in range(len(items)) if layout is None else layout:
        if isinstance(part, int):
            found += [item for item in (items[part],) if item is not None]
        elif "of" not in part:
            content = _text(part["pieces"], items, missing)
            found.append(load_item({"content": content, "memory_type": part["type"]}, types))
        elif (item := items[part["of"]]) is not None:
            own = dump_item(item)
            fields = {name: own[name] for name in part["keep"] if name in own}
            content = _text(part["pieces"], items, missing)
            found.append(load_item({**fields, **part["set"], "content": content}, types))
    return found


def _text(pieces: Sequence[Piece], items: Sequence[MemoryItem | None], missing: Callable[[int], str]) -> str:
    """Join the pieces, with one placeholder for an item that is None."""
    written: list[str] = []
    marked: set[int] = set()
    for piece in pieces:
        if isinstance(piece, str):
            written.append(piece)
            continue
        position, start, end = piece
        item = items[position]
        if item is not None:
            written.append(text_of(item)[start:end])
        elif position not in marked:
            marked.add(position)
            written.append(missing(position))
    return "".join(written)
