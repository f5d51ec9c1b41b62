"""What the model keeps: items in the order in which they were added, and what forked sessions show of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Self

from memoranda.errors import MemoryError
from memoranda.items import BranchMemory, MemoryItem, MemoryMetadata, utc_text
from memoranda.store import Capability, Order, copy_item
from memoranda.store.backend import Filter, metadata_matches
from memoranda_testing.model.steps import BRANCH
from memoranda_testing.model.world import TRUSTS


@dataclass(slots=True)
class Row:
    """An item as it is stored; a deleted one can be restored."""

    item: MemoryItem
    deleted: bool = False


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
    """By id, in the order of adding: an item that is replaced keeps its place."""
    over: int = 0
    """How many items have expired in all: the most that a sweep can still remove."""
    bounds: MemoryMetadata | None = None
    """The filter of our own part of a shared store."""

    def copy(self) -> Self:
        """Return an independent copy; rows are copied, and items are never changed in place."""
        return replace(self, rows={item_id: Row(row.item, row.deleted) for item_id, row in self.rows.items()})

    def now(self) -> str:
        """Return the clock's time."""
        return utc_text(datetime.fromtimestamp(self.clock(), UTC))

    def expire(self) -> None:
        """Remove what has expired, as if it had been purged."""
        now = self.now()
        for item_id, row in list(self.rows.items()):
            ends = row.item.expires_at
            if ends is not None and ends <= now:
                del self.rows[item_id]
                self.over += 1

    def put(self, item: MemoryItem, *, hidden: bool = False) -> None:
        """Store an item under its next version."""
        existing = self.rows.get(item.id)
        kept = copy_item(item)
        kept.__dict__["version"] = 1 if existing is None else existing.item.version + 1
        if existing is not None and _trust(existing.item) < _trust(item):
            kept.__dict__["trust"] = TRUSTS[_trust(existing.item)]
        self.rows[item.id] = Row(kept, hidden)

    def remove(self, item_id: str, *, purge: bool = False) -> None:
        """Delete an item, or remove it for good if asked to or if the store cannot keep deleted items."""
        if purge or Capability.DELETE not in self.capabilities:
            del self.rows[item_id]
        else:
            self.rows[item_id].deleted = True


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A part of what a session shows: its own items, or those of an earlier session up to a place."""

    session: str
    owner: MemoryMetadata | None = None
    places: Mapping[str, int] | None = None

    def holds(self, item: MemoryItem) -> bool:
        """Return True if the item is in this part; a past has only what lies in the scope that forked it."""
        if item.metadata.session_id != self.session or self.owner is None or self.places is None:
            return item.metadata.session_id == self.session
        is_theirs = item.metadata.user_id == self.owner.user_id and item.memory_type != "branch"
        scope = self.owner.model_copy(update={"session_id": None})
        return is_theirs and metadata_matches(scope, item.metadata) and item.id in self.places

    def archives(self, item: MemoryItem, rows: Mapping[str, Row]) -> bool:
        """Return True if a summary stands for the item; in a past, only a summary of that past counts."""
        if item.archived_by is None or self.places is None:
            return item.archived_by is not None
        return item.archived_by in self.places and not rows[item.archived_by].deleted


def _trust(item: MemoryItem) -> int:
    """Return how far an item is trusted: as it says, or as its type does."""
    by_type = {"system": "operator", "human": "user", "tool": "tool"}.get(item.memory_type, "agent")
    return TRUSTS.index(item.trust or by_type)


def record_of(item: MemoryItem, session_id: str) -> BranchMemory:
    """Return the record of a session forked at an item, with placeholders for its name and times."""
    return BranchMemory(
        id=BRANCH,
        metadata=MemoryMetadata(user_id=item.metadata.user_id, session_id=BRANCH),
        archived_by=BRANCH,
        parent=item.metadata.session_id or session_id,
        at=item.id,
        version=1,
    )


def shown(rows: Mapping[str, Row], wanted: Filter) -> Callable[[MemoryItem], bool]:
    """Return a predicate for a filter; if that names a forked session, items of its past match as well."""
    session = None if wanted.metadata is None else wanted.metadata.session_id
    stretches = [] if session is None else _stretches(rows, session)
    if len(stretches) < 2:
        return wanted.matches
    assert wanted.metadata is not None, "it names a session"
    others = replace(wanted, metadata=wanted.metadata.model_copy(update={"session_id": None}), archived=None)

    def fits(item: MemoryItem) -> bool:
        part = next((each for each in stretches if each.holds(item)), None)
        if part is None or not others.matches(item):
            return False
        return wanted.archived is None or part.archives(item, rows) is wanted.archived

    return fits


def as_scanned(rows: Mapping[str, Row], found: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return what a scan yields of the items found: a branch record names the last item of its past among them."""
    items: list[MemoryItem] = []
    for item in found:
        if isinstance(item, BranchMemory):
            fits = shown(rows, Filter(metadata=MemoryMetadata(session_id=item.id), archived=None))
            past = [each.id for each in found if each.metadata.session_id == item.parent and fits(each)]
            last = {"parent": item.parent, "at": past[-1]} if past else {"parent": "", "at": ""}
            item = item.model_copy(update=last)
        items.append(item)
    return items


def _stretches(rows: Mapping[str, Row], session: str) -> list[_Stretch]:
    """Return a session's own part and those of the sessions it was forked from, as far as they can be followed."""
    found, order = [_Stretch(session)], list(rows)
    end = len(order)
    while True:
        row = rows.get(found[-1].session)
        record = None if row is None or row.deleted else row.item
        if not isinstance(record, BranchMemory) or record.parent in [each.session for each in found]:
            return found
        end = min(end, order.index(record.at) + 1)
        places = {item_id: place for place, item_id in enumerate(order[:end])}
        found.append(_Stretch(record.parent, record.metadata, places))
