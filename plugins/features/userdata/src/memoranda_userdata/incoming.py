"""Items on their way into a store, and how a store has them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from memoranda.items import BranchMemory
from memoranda_userdata.export_format import fingerprint

if TYPE_CHECKING:
    from memoranda.items import MemoryItem

TIMES = ("created_at", "updated_at")


class OnConflict(StrEnum):
    """What to do with an id that another item has in the store."""

    FAIL = "fail"
    SKIP = "skip"
    OVERWRITE = "overwrite"


class Stamp(NamedTuple):
    """The user and the session that imported items are for, if the command names them."""

    user: str | None = None
    session: str | None = None


class Incoming(NamedTuple):
    """An item to store, and if it was deleted where it comes from.

    ``undated`` are the times that were not given. If the item is in the store already, the store's times are used.
    """

    item: MemoryItem
    hidden: bool = False
    undated: tuple[str, ...] = ()

    def dated_as(self, there: StoredState | None) -> Incoming:
        """Return this with the times of what the store has, where none were given."""
        if there is None or not self.undated:
            return self
        times = {name: there.times[name] for name in self.undated}
        return self._replace(item=self.item.model_copy(update=times))


class StoredState(NamedTuple):
    """What a store has under an id: the item's fingerprint and times, if it is hidden, and when it expires."""

    print: bytes
    hidden: bool
    times: dict[str, str]
    expires_at: str | None

    @classmethod
    def of(cls, item: MemoryItem, *, hidden: bool) -> StoredState:
        """Return how an item stands in a store. Of the record of a branch, that is what the store did not work out."""
        if isinstance(item, BranchMemory):
            kept = ("id", "metadata", "archived_by", *TIMES)
            item = BranchMemory(**{name: getattr(item, name) for name in kept})
        return cls(fingerprint(item), hidden, {name: getattr(item, name) for name in TIMES}, item.expires_at)


def expires(item: MemoryItem) -> bool:
    """Return True if the item has a lifetime, which the store must support."""
    return item.ttl is not None or item.expires_at is not None


def is_over(expires_at: str | None, now: str) -> bool:
    """Return True if an item with this expiry has expired by now."""
    return expires_at is not None and expires_at <= now


def state_of(incoming: Incoming) -> StoredState:
    """Return how the store has the item once it has arrived."""
    return StoredState.of(incoming.item, hidden=incoming.hidden)
