"""What the store does with the journal. Each function runs with the lock held and everything read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import copy_item, dump_item
from memoranda.store.backend import Filter, Page, Write, check_expected, metadata_matches, next_versions

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


def carry_out(journal: Journal, write: Write) -> int:
    """Delete and add, or raise the first conflict and change nothing; return how many were deleted."""
    if write.expected is not None:
        newest = newest_first(journal, write.expected.conversation, Page(1, order="added"))
        write.expected.check(newest[0].id if newest else None)
    adds = {item.id: item for item in next_versions(write, lambda item_id: held(journal, item_id))}
    which = is_any if write.purge else is_live
    gone = [item_id for item_id in write.deletes if _is_chosen(journal, item_id, which, write.within)]
    # One line, so that no reader sees one change without the other.
    change: dict[str, list[Any]] = {"put": [dump_item(item) for item in adds.values()]} if adds else {}
    hidden = sorted(write.hidden) if write.purge else sorted({*write.hidden, *gone})
    if hidden:
        change["hide"] = hidden
    if gone and write.purge:
        change["drop"] = gone
    if change:
        journal.append(change)
    if gone and write.purge:
        journal.rewrite()
    return len(gone)


def held(journal: Journal, item_id: str) -> MemoryItem | None:
    """Return the item of an id, hidden or not."""
    entry = journal.entries.get(item_id)
    return None if entry is None else entry.item


def _is_chosen(journal: Journal, item_id: str, which: Which, within: MemoryMetadata | None) -> bool:
    entry = journal.entries.get(item_id)
    return entry is not None and which(entry) and metadata_matches(within, entry.item.metadata)


def replace(journal: Journal, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
    """Compare-and-set items, or raise the first conflict and change none. Other processes wait for the lock."""
    for item in items:
        check_expected(item, live(journal, item.id), within)
    carry_out(journal, Write(items, within))
    return [copy_item(journal.entries[item.id].item) for item in items]


def as_added(journal: Journal, wanted: Filter, which: Which) -> list[MemoryItem]:
    """Return the items that match, in the order of their adding."""
    return [entry.item for entry in journal.entries.values() if which(entry) and wanted.matches(entry.item)]


def newest_first(journal: Journal, wanted: Filter, page: Page) -> list[MemoryItem]:
    """Return copies of a page of the items that match."""
    return [copy_item(item) for item in page.of(as_added(journal, wanted, is_live))]


def change(
    journal: Journal, name: Literal["hide", "show", "drop"], wanted: Filter, which: Which, item_id: str | None = None
) -> int:
    """Hide, show or drop what matches, and return how many. What was dropped is gone from the file at once."""
    if item_id is None:
        ids = [item.id for item in as_added(journal, wanted, which)]
    else:
        entry = journal.entries.get(item_id)
        ids = [item_id] if entry is not None and which(entry) and wanted.matches(entry.item) else []
    if ids:
        journal.append({name: ids})
        if name == "drop":
            journal.rewrite()
    return len(ids)
