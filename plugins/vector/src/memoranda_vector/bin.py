"""Items that were deleted and can be restored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.store import Expiry, Filter

Field = tuple[str, str | tuple[str, ...]]


class Hidden(NamedTuple):
    """An item in the bin, with its place in the order of adding, which it keeps."""

    item: MemoryItem
    added: int


class Bin:
    """Hidden items by id, and by each field of their scope, so that one user's never cost another's.

    Those that expire are known by themselves.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, Hidden] = {}
        self._by_field: dict[Field, dict[str, Hidden]] = {}
        self._mortal: dict[str, Hidden] = {}

    def __contains__(self, item_id: object) -> bool:
        return item_id in self._by_id

    def get(self, item_id: str) -> Hidden | None:
        """Return what is hidden under the id."""
        return self._by_id.get(item_id)

    def has_none(self, ids: set[str]) -> bool:
        """Whether none of these ids is hidden."""
        return self._by_id.keys().isdisjoint(ids)

    def put(self, item: MemoryItem, added: int) -> None:
        """Hide an item whose id is not in the bin."""
        hidden = self._by_id[item.id] = Hidden(item, added)
        for field in _fields(item):
            self._by_field.setdefault(field, {})[item.id] = hidden
        if item.expires_at is not None:
            self._mortal[item.id] = hidden

    def take(self, item_id: str) -> Hidden | None:
        """Take an item out and return it, or None if it is not there."""
        hidden = self._by_id.pop(item_id, None)
        self._mortal.pop(item_id, None)
        if hidden is not None:
            for field in _fields(hidden.item):
                ids = self._by_field[field]
                del ids[item_id]
                if not ids:
                    del self._by_field[field]
        return hidden

    def candidates(self, wanted: Filter) -> list[Hidden]:
        """Return the fewest hidden items that are known to hold all that match, whose scope alone was looked at."""
        found = [self._by_id]
        if wanted.metadata is not None:
            found += [self._by_field.get(field, {}) for field in _asked(wanted.metadata)]
        if any(type(condition) is Expiry and condition.expired for condition in wanted.conditions):
            found.append(self._mortal)
        return list(min(found, key=len).values())

    def soonest_end(self) -> str | None:
        """Return when the next hidden item expires; None if none ever does."""
        ends = (hidden.item.expires_at for hidden in self._mortal.values())
        return min((end for end in ends if end is not None), default=None)


def matching(hidden: Iterable[Hidden], wanted: Filter) -> list[Hidden]:
    """Return the hidden items that match."""
    return [each for each in hidden if wanted.matches(each.item)]


def _fields(item: MemoryItem) -> Iterator[Field]:
    """Yield what an item is found by: its ids, its namespace and every place above that."""
    place = item.metadata.namespace
    yield from _asked(item.metadata)
    for depth in range(1, len(place)):
        yield "namespace", place[:depth]


def _asked(metadata: MemoryMetadata) -> Iterator[Field]:
    for name in SCOPE_FIELDS:
        value = getattr(metadata, name)
        if value is not None:
            yield name, value
    if metadata.namespace:
        yield "namespace", metadata.namespace
