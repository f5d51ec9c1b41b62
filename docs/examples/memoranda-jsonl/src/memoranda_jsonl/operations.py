"""What the store does with the journal. Each function runs with the lock held and everything read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Literal

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Filter, check_expected, copy_item, dump_item, successor

from memoranda_jsonl.journal import Entry, Journal

Which = Callable[[Entry], bool]


def is_live(entry: Entry) -> bool:
    """Choose what is not hidden."""
    return not entry.hidden


def is_hidden(entry: Entry) -> bool:
    """Choose what is hidden."""
    return entry.hidden


def is_any(entry: Entry) -> bool:
    """Choose everything."""
    return True


def live(journal: Journal, item_id: str) -> MemoryItem | None:
    """Return the item of an id unless it is hidden."""
    entry = journal.entries.get(item_id)
    return None if entry is None or entry.hidden else entry.item


def put(
    journal: Journal,
    items: Sequence[MemoryItem],
    within: MemoryMetadata | None,
    deleted: frozenset[str] = frozenset(),
) -> None:
    """Add items, hidden if their id is in ``deleted``, or raise the first conflict and add none."""
    kept: dict[str, MemoryItem] = {}
    for item in items:
        entry = journal.entries.get(item.id)
        existing = kept.get(item.id) or (entry.item if entry else None)
        kept[item.id] = successor(existing, item, within)
    change: dict[str, list[Any]] = {"put": [dump_item(item) for item in kept.values()]}
    if deleted:
        change["hide"] = sorted(deleted)  # In the same line, so that nobody reads the one without the other.
    journal.append(change)


def replace(journal: Journal, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
    """Compare-and-set items, or raise the first conflict and change none. Other processes wait for the lock."""
    for item in items:
        check_expected(item, live(journal, item.id), within)
    put(journal, items, within)
    return [copy_item(journal.entries[item.id].item) for item in items]


def oldest_first(journal: Journal, wanted: Filter, which: Which) -> list[MemoryItem]:
    """Return the items that match; of equal time, the first added first."""
    found = [entry.item for entry in journal.entries.values() if which(entry) and wanted.matches(entry.item)]
    return sorted(found, key=attrgetter("created_at"))


def newest_first(journal: Journal, wanted: Filter, limit: int) -> list[MemoryItem]:
    """Return copies of the newest items that match; of equal time, the last added first."""
    return [copy_item(item) for item in oldest_first(journal, wanted, is_live)[::-1][:limit]]


def change(
    journal: Journal, name: Literal["hide", "show", "drop"], wanted: Filter, which: Which, item_id: str | None = None
) -> int:
    """Hide, show or drop what matches, and return how many. What was dropped is gone from the file at once."""
    if item_id is None:
        ids = [item.id for item in oldest_first(journal, wanted, which)]
    else:
        entry = journal.entries.get(item_id)
        ids = [item_id] if entry is not None and which(entry) and wanted.matches(entry.item) else []
    if ids:
        journal.append({name: ids})
        if name == "drop":
            journal.rewrite()
    return len(ids)
