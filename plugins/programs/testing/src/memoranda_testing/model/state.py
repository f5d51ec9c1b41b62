"""What the model keeps: items in the order in which they were added, and what forked sessions show of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Self

from memoranda.errors import MemoryError
from memoranda.items import BranchMemory, MemoryItem, MemoryMetadata, utc_text
from memoranda.store import Capability, Order, copy_item
from memoranda.store.backend import Filter, metadata_matches
from memoranda_testing.model.world import TRUSTS


@dataclass(slots=True)
class Row:
    """An item as it is stored; a deleted one can be restored."""

    item: MemoryItem
    place: int
    """In the order of adding; an item that is replaced keeps its place."""
    deleted: bool = False
    shown: tuple[MemoryItem, Any] | None = None
    """The item, and how it looked when a call last showed it, so that it is not written out anew each time."""


@dataclass(frozen=True, slots=True)
class AtMost:
    """An answer that may be any number up to this one."""

    number: int


class Refused(Exception):  # noqa: N818  # not an error of the model: what the store is to raise
    """The call must raise one of these errors."""

    def __init__(self, *kinds: type[MemoryError]) -> None:
        super().__init__(", ".join(kind.__name__ for kind in kinds))
        self.kinds = kinds


@dataclass
class State:
    """What a store holds."""

    capabilities: frozenset[Capability]
    clock: Callable[[], float]
    default_order: Order = "created"
    rows: dict[str, Row] = field(default_factory=dict)
    """By id, in the order of adding."""
    places: int = 0
    """How many places are taken."""
    over: int = 0
    """How many items have expired in all: the most that a sweep can still remove."""
    soonest: str = ""
    """No item ends before this time; empty if none ends at all."""
    bounds: MemoryMetadata | None = None
    """The filter of our own part of a shared store."""

    def copy(self) -> Self:
        """Return an independent copy; rows are copied, and items are never changed in place."""
        return replace(self, rows={item_id: replace(row) for item_id, row in self.rows.items()})

    def now(self) -> str:
        """Return the clock's time."""
        return utc_text(datetime.fromtimestamp(self.clock(), UTC))

    def expire(self) -> None:
        """Remove what has expired, as if it had been purged."""
        if not self.soonest or self.soonest > (now := self.now()):
            return
        ends = {item_id: row.item.expires_at for item_id, row in self.rows.items() if row.item.expires_at is not None}
        for item_id in [item_id for item_id, end in ends.items() if end <= now]:
            del self.rows[item_id], ends[item_id]
            self.over += 1
        self.soonest = min(ends.values(), default="")

    def will_end(self, item: MemoryItem) -> None:
        """Take note of an item that has got an end."""
        if item.expires_at is not None:
            self.soonest = min(self.soonest or item.expires_at, item.expires_at)

    def put(self, item: MemoryItem, *, hidden: bool = False, keep_created: bool = False) -> None:
        """Store a copy of an item under its next version."""
        existing = self.rows.get(item.id)
        kept = copy_item(item)
        if keep_created and existing is not None:
            kept.__dict__["created_at"] = existing.item.created_at
        kept.__dict__["version"] = 1 if existing is None else existing.item.version + 1
        if existing is not None and _trust(existing.item) < _trust(item):
            kept.__dict__["trust"] = TRUSTS[_trust(existing.item)]
        self.places += existing is None
        self.will_end(kept)
        self.rows[item.id] = Row(kept, self.places if existing is None else existing.place, hidden)

    def remove(self, item_id: str, *, purge: bool = False) -> None:
        """Delete an item, or remove it for good if asked to or if the store cannot keep deleted items."""
        if purge or Capability.DELETE not in self.capabilities:
            del self.rows[item_id]
        else:
            self.rows[item_id].deleted = True


def _trust(item: MemoryItem) -> int:
    """Return how far an item is trusted: as it says, or as its type does."""
    by_type = {"system": "operator", "human": "user", "tool": "tool"}.get(item.memory_type, "agent")
    return TRUSTS.index(item.trust or by_type)


def record_of(rows: Mapping[str, Row], session: str | None) -> BranchMemory | None:
    """Return the record of a session, if it is a forked one."""
    row = rows.get(session or "")
    if row is None or row.deleted or not isinstance(row.item, BranchMemory):
        return None
    return row.item


def shown(rows: Mapping[str, Row], wanted: Filter) -> Callable[[MemoryItem], bool]:
    """Return a predicate for a filter; if that names a forked session, items of its past match as well."""
    record = None if wanted.metadata is None else record_of(rows, wanted.metadata.session_id)
    return wanted.matches if record is None else _in_branch(rows, wanted, record)


def _in_branch(rows: Mapping[str, Row], wanted: Filter, record: BranchMemory) -> Callable[[MemoryItem], bool]:
    """Return a predicate for a filter of a forked session: its own items, and of others those that it shares."""
    asked, owner = wanted.metadata or MemoryMetadata(), record.metadata
    others = replace(wanted, metadata=asked.model_copy(update={"session_id": None}), archived=None)
    reached = owner.model_copy(update={"session_id": None})

    def is_shared(item: MemoryItem, upto: int) -> bool:
        is_theirs = item.metadata.user_id == owner.user_id and item.memory_type != "branch"
        return is_theirs and rows[item.id].place <= upto and metadata_matches(reached, item.metadata)

    def is_archived(item: MemoryItem, upto: int | None) -> bool:
        """Return True if a summary stands for the item; in a past, only a summary of that past counts."""
        if item.archived_by is None or upto is None:
            return item.archived_by is not None
        summary = rows.get(item.archived_by)
        return summary is not None and not summary.deleted and summary.place <= upto

    def fits(item: MemoryItem) -> bool:
        session = item.metadata.session_id
        upto = None if session is None or session == record.id else record.places.get(session)
        if session != record.id and (upto is None or not is_shared(item, upto)):
            return False
        return others.matches(item) and wanted.archived in (None, is_archived(item, upto))

    return fits


def as_scanned(rows: Mapping[str, Row], record: BranchMemory, wanted: Filter, *, deleted: bool) -> BranchMemory:
    """Return a record as a scan yields it: it names the last items of its past that the scan yields as well."""
    fits = _in_branch(rows, replace(wanted, memory_type=None), record)
    last: dict[str, str] = {}
    for row in rows.values():
        session = row.item.metadata.session_id
        if session in record.places and (deleted or not row.deleted) and fits(row.item):
            last[session] = row.item.id
    named = {session: last[session] for session in record.places if session in last}
    parent = next(iter(named), "")
    return record.model_copy(update={"parent": parent, "at": named.pop(parent, ""), "earlier": named, "places": {}})
