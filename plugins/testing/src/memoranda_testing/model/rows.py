"""What the model keeps: items in the order of their adding, each deleted or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Self

from memoranda.errors import MemoryError
from memoranda.items import MemoryItem, MemoryMetadata, utc_text
from memoranda.store import Capability, Order, copy_item


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
    """The call is to raise one of these errors."""

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
    """How many items have expired in all: the most that a sweep can have left to remove."""
    bounds: MemoryMetadata | None = None
    """Where everything lies that is looked at, on a store that others use."""

    def copy(self) -> Self:
        """Return one that goes its own way from here on; nobody changes an item of a row in place."""
        return replace(self, rows={item_id: Row(row.item, row.deleted) for item_id, row in self.rows.items()})

    def now(self) -> str:
        """Return the present by the clock."""
        return utc_text(datetime.fromtimestamp(self.clock(), UTC))

    def expire(self) -> None:
        """Take out what is over: it is as if it had been purged."""
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
        self.rows[item.id] = Row(kept, hidden)

    def remove(self, item_id: str, *, purge: bool = False) -> None:
        """Delete an item, or remove it for good where it is to be, or where the store cannot do otherwise."""
        if purge or Capability.DELETE not in self.capabilities:
            del self.rows[item_id]
        else:
            self.rows[item_id].deleted = True
