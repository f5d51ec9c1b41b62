"""A conversation as a person reads it: every tool call with its results, or marked as unanswered."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from memoranda.integrity import answers, call_ids
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability, Store
from memoranda.tool_calls import call_arguments, call_name

RECORDS = ("branch", "fact", "fact-mark", "quarantined", "receipt", "revision")
"""Types of what a store keeps beside what was said. Facts, receipts and the quarantine have pages of their own."""

PAGE = 50
"""How many items a page shows."""

REACH = 100
"""How far from each other a call and its result may lie and still be joined on one page."""


@dataclass(slots=True)
class ToolCall:
    """A tool call and its results; a call without any is unanswered."""

    name: str
    arguments: str
    results: list[Entry] = field(default_factory=list)


@dataclass(slots=True)
class Entry:
    """An item on the page, with its calls."""

    item: MemoryItem
    calls: list[ToolCall] = field(default_factory=list)
    state: str = ""
    """Empty for what is shown to models; ``archived``, ``deleted`` or ``orphan`` (a result without its call)."""
    receipts: list[Any] = field(default_factory=list)
    """What models were shown after it, before the next one."""

    @property
    def missing(self) -> list[str]:
        """The names of the unanswered calls."""
        return [call.name for call in self.calls if not call.results]


@dataclass(frozen=True, slots=True)
class ConversationPage:
    """A page of a conversation, oldest first."""

    entries: list[Entry]
    offset: int
    older: bool
    mark: str
    """A hash of what the page was made from; it differs once anything has changed."""


async def count_items(store: Store, metadata: MemoryMetadata | None) -> int:
    """Return how many items an owner has, archived ones too, without records."""
    records = await store.count(metadata=metadata, where={"memory_type": {"$in": list(RECORDS)}})
    return await store.count(metadata=metadata) - records


async def read_conversation(
    store: Store,
    metadata: MemoryMetadata | None,
    *,
    offset: int = 0,
    archived: bool = False,
    deleted: bool = False,
) -> ConversationPage:
    """Return the items of an owner, ``offset`` newer ones skipped, in the order in which they were said."""
    newer = min(offset, REACH)
    size = newer + PAGE + REACH
    items = await _newest(store, metadata, size, offset - newer, archived=archived, deleted=deleted)
    end = len(items) - newer
    start = max(end - PAGE, 0)
    there = {item.id for item in await store.get_many([item.id for item in items])} if deleted else None
    entries = _joined(items, start, end, there)
    signs = "\n".join(f"{item.id} {item.version} {item.updated_at} {item.archived_by}" for item in items)
    mark = hashlib.sha256(f"{signs}\n{sorted(there or ())}".encode()).hexdigest()[:16]
    return ConversationPage(entries, offset, start > 0, mark)


async def _newest(
    store: Store, metadata: MemoryMetadata | None, size: int, offset: int, *, archived: bool, deleted: bool
) -> list[MemoryItem]:
    """Return so many of the items that were added last, oldest first."""
    if not archived and not deleted:
        return (await store.search(metadata=metadata, limit=size, offset=offset, order="added", mode="substring"))[::-1]
    # No search returns these, so all items are scanned, only when a page asks for them.
    kept: deque[MemoryItem] = deque(maxlen=size + offset)
    hidden = deleted and Capability.DELETE in store.capabilities
    wanted: Any = None if archived else False
    async for item in store.scan(metadata=metadata, archived=wanted, include_deleted=hidden, order="added"):
        if item.memory_type not in RECORDS:
            kept.append(item)
    found = list(kept)
    return found[: len(found) - offset] if offset else found


def _joined(items: Sequence[MemoryItem], start: int, end: int, there: set[str] | None) -> list[Entry]:
    """Return the entries from ``start`` to ``end``, each result below the call that it answers."""
    entries = [Entry(item, _calls(item), _state(item, there)) for item in items]
    links = answers(items)
    for link in links:
        calls = entries[link.caller].calls
        position = next(
            (at for at, call_id in enumerate(call_ids(items[link.caller])) if call_id == link.call_id), None
        )
        if position is not None:
            calls[position].results.append(entries[link.result])
    below = {link.result for link in links}
    shown = []
    for position in range(start, end):
        if position in below:
            continue
        entry = entries[position]
        if entry.item.memory_type == "tool" and not entry.state:
            entry.state = "orphan"
        shown.append(entry)
    return shown


def _calls(item: MemoryItem) -> list[ToolCall]:
    calls = getattr(item, "tool_calls", None) if item.memory_type == "ai" else None
    if not isinstance(calls, list):
        return []
    return [ToolCall(call_name(call), call_arguments(call)) for call in calls if isinstance(call, dict)]


def _state(item: MemoryItem, there: set[str] | None) -> str:
    if there is not None and item.id not in there:
        return "deleted"
    return "archived" if item.archived_by is not None else ""


def entry_of(item: MemoryItem, state: str = "") -> Entry:
    """Return an item by itself."""
    return Entry(item, _calls(item), state)
