"""What may replace what: the rules of ownership and versions that every store follows."""

from __future__ import annotations

from memoranda.errors import IdConflictError, VersionConflictError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store.codec import copy_item
from memoranda.store.filters import metadata_matches


def check_owner(existing: MemoryItem | None, item: MemoryItem, within: MemoryMetadata | None = None) -> None:
    """Raise IdConflictError when the id is held by an item of another user, or by one outside ``within``."""
    if existing is not None and (
        existing.metadata.user_id != item.metadata.user_id or not metadata_matches(within, existing.metadata)
    ):
        raise IdConflictError(item.id)


def check_expected(item: MemoryItem, existing: MemoryItem | None, within: MemoryMetadata | None = None) -> None:
    """Raise the conflict that a compare-and-set of ``item`` over the live item ``existing`` meets, if any."""
    check_owner(existing, item, within)
    found = None if existing is None else existing.version
    if (found or 0) != item.version:
        raise VersionConflictError(item.id, item.version, found)


def successor(
    existing: MemoryItem | None, item: MemoryItem, within: MemoryMetadata | None = None, *, owned: bool = False
) -> MemoryItem:
    """Return a copy of the item as a store should keep it: with the next version. One that is ``owned`` is no copy.

    ``existing`` is what the store holds under this id, hidden items included. Raises IdConflictError when that belongs
    to another user or lies outside ``within``.
    """
    check_owner(existing, item, within)
    kept = item if owned else copy_item(item)
    kept.__dict__["version"] = 1 if existing is None else existing.version + 1
    return kept
