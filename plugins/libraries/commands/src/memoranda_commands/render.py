"""Items as people read them: a conversation, a table of results, one item with all its fields."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from memoranda.items import SCOPE_FIELDS
from memoranda.speakers import speaker as who_speaks
from memoranda.store import dump_item
from memoranda.tool_calls import call_arguments, call_name
from memoranda_commands.terminal import blocks, console, is_narrow, preview, table, visible

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memoranda.items import MemoryItem
    from memoranda.store import RankedItem

_STACKED = 130
"""Below so many columns, an item's id and owner stand below its content."""

_SHORT: dict[str, Any] = {"no_wrap": True, "overflow": "ellipsis"}
_STYLES = {"system": "magenta", "human": "cyan", "ai": "green", "tool": "yellow", "summary": "magenta"}


def owner_of(item: MemoryItem) -> str:
    """Return the owner of an item as one short text."""
    named = [(name.removesuffix("_id"), getattr(item.metadata, name)) for name in SCOPE_FIELDS]
    return " ".join(f"{name}={preview(value, 24)}" for name, value in named if value is not None)


def content_lines(item: MemoryItem) -> list[str]:
    """Return an item's content and its tool calls, one visible line each."""
    lines = [preview(item.content, 400)] if item.content.strip() else []
    if item.memory_type == "ai":
        calls = getattr(item, "tool_calls", ())
        lines += [f"→ calls {visible(call_name(call))}({preview(call_arguments(call), 120)})" for call in calls]
    elif item.memory_type == "tool":
        name = visible(getattr(item, "tool_name", "")) or "result"
        failed = " failed" if getattr(item, "is_error", False) else ""
        lines = [f"← {name}{failed}: {lines[0] if lines else '(empty)'}"]
    return lines or ["(empty)"]


def conversation(items: Iterable[MemoryItem], *, times: bool = False, ids: bool = False) -> RenderableType:
    """Return a conversation, one speaker after the other."""
    from rich.table import Table
    from rich.text import Text

    rows: list[list[Text]] = []
    for item in items:
        cells = [Text(speaker(item), style=_STYLES.get(item.memory_type, "blue"))]
        if times:
            cells.append(Text(item.created_at[:19].replace("T", " "), style="dim"))
        if ids:
            cells.append(Text(visible(item.id), style="dim"))
        rows.append([*cells, Text("\n".join(content_lines(item)))])
    if is_narrow():
        return blocks(rows)
    grid = Table.grid(padding=(0, 2))
    for _ in range(1 + times + ids):
        grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return grid


def speaker(item: MemoryItem) -> str:
    """Return who spoke: the type and, in brackets, the name."""
    return preview(who_speaks(item), 24)


def results(items: Sequence[MemoryItem]) -> RenderableType:
    """Return found items as a table; on a narrow terminal, ids and owners stand below the content."""
    times = [item.created_at[:19].replace("T", " ") for item in items]
    if console().width < _STACKED:
        stacked = [(time[:16], speaker(item), _stacked(item)) for time, item in zip(times, items, strict=True)]
        return (
            blocks(stacked) if is_narrow() else table(("time (UTC)", _SHORT), ("who", _SHORT), "content", rows=stacked)
        )
    rows = [
        (time, speaker(item), owner_of(item), " ".join(content_lines(item)), item.id)
        for time, item in zip(times, items, strict=True)
    ]
    return table(("time (UTC)", _SHORT), ("who", _SHORT), ("owner", {"max_width": 40}), "content", "id", rows=rows)


def ranked_results(found: Sequence[RankedItem]) -> RenderableType:
    """Return ranked items as a table, best first, with what made their scores."""
    score = ("score", {"no_wrap": True, "justify": "right"})
    if console().width < _STACKED:
        stacked = [
            (f"{ranked.score:.3f}", speaker(ranked.item), _stacked(ranked.item, ", ".join(ranked.terms)))
            for ranked in found
        ]
        return blocks(stacked) if is_narrow() else table(score, ("who", _SHORT), "content", rows=stacked)
    rows = [
        (
            f"{ranked.score:.3f}",
            speaker(ranked.item),
            " ".join(content_lines(ranked.item)),
            " ".join([*(f"{name} {value:.2f}" for name, value in ranked.parts.items()), *ranked.terms]),
            ranked.item.id,
        )
        for ranked in found
    ]
    return table(score, ("who", _SHORT), "content", "why", "id", rows=rows)


def _stacked(item: MemoryItem, *further: str) -> Any:
    """Return an item's content, and below it its id, its owner and ``further`` details."""
    from rich.text import Text

    below = "  ".join(part for part in (visible(item.id), owner_of(item), *map(visible, further)) if part)
    return Text.assemble("\n".join(content_lines(item)), "\n", (below, "dim"))


def details(item: MemoryItem) -> RenderableType:
    """Return one item with all its fields."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in _fields(item):
        grid.add_row(Text(visible(name)), Text(visible(value)))
    return grid


def _fields(item: MemoryItem) -> Iterable[tuple[str, str]]:
    for name, value in dump_item(item).items():
        if name == "metadata":
            for inner, owned in value.items():
                if owned not in (None, {}):
                    yield inner, owned if isinstance(owned, str) else json.dumps(owned, ensure_ascii=False)
        elif isinstance(value, str):
            yield name, value
        elif value not in (None, [], {}):
            yield name, json.dumps(value, ensure_ascii=False)
