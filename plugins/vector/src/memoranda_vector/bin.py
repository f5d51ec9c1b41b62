"""Items that were deleted and can be restored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.store.backend import Expiry, Filter

Field = tuple[str, str | tuple[str, ...]]


class Hidden(NamedTuple):
    """An item in the bin, with its place in the order of adding, which it keeps."""

    item: MemoryItem
    added: int


Grouped = dict[Field, dict[str, Hidden]]
"""Hidden items by all that they are found by."""

_ALL: Field = ("id", "")
_MORTAL: Field = ("expires_at", "")


class Bin:
    """Hidden items by id, and by each field of their scope, so that one user's never cost another's.

    Those that expire are known by themselves.
    """

    def __init__(self) -> None:
        self._groups: Grouped = {_ALL: {}}

    def __contains__(self, item_id: object) -> bool:
        return item_id in self._groups[_ALL]

    def get(self, item_id: str) -> Hidden | None:
        """Return what is hidden under the id."""
        return self._groups[_ALL].get(item_id)

    def held(self, ids: Iterable[str]) -> list[Hidden | None]:
        """Return what is hidden under each of the ids."""
        return list(map(self._groups[_ALL].get, ids))

    def has_none(self, ids: set[str]) -> bool:
        """Whether none of these ids is hidden."""
        return self._groups[_ALL].keys().isdisjoint(ids)

    def put(self, item: MemoryItem, added: int) -> None:
        """Hide an item whose id is not in the bin."""
        hidden = Hidden(item, added)
        for field in _fields(item):
            self._groups.setdefault(field, {})[item.id] = hidden

    def take(self, item_id: str) -> Hidden | None:
        """Take an item out and return it, or None if it is not there."""
        hidden = self.get(item_id)
        if hidden is not None:
            self.change(grouped([hidden]), {})
        return hidden

    def change(self, gone: Grouped, come: Grouped) -> None:
        """Take some items out, which are all there, and hide others, whose ids are not there then."""
        for field, leaving in gone.items():
            group = self._groups[field]
            if len(leaving) < len(group):
                for item_id in leaving:
                    del group[item_id]
            else:
                del self._groups[field]
        for field, coming in come.items():
            group = self._groups.setdefault(field, coming)
            if group is not coming:
                group.update(coming)
        self._groups.setdefault(_ALL, {})

    def candidates(self, wanted: Filter) -> list[Hidden]:
        """Return the fewest hidden items that are known to hold all that match, whose scope alone was looked at."""
        fields = [_ALL]
        if wanted.metadata is not None:
            fields += _asked(wanted.metadata)
        if any(type(condition) is Expiry and condition.expired for condition in wanted.conditions):
            fields.append(_MORTAL)
        return list(min((self._groups.get(field, {}) for field in fields), key=len).values())

    def soonest_end(self) -> str | None:
        """Return when the next hidden item expires; None if none ever does."""
        ends = (hidden.item.expires_at for hidden in self._groups.get(_MORTAL, {}).values())
        return min((end for end in ends if end is not None), default=None)


def grouped(hidden: Iterable[Hidden]) -> Grouped:
    """Return hidden items by all that they are found by."""
    groups: Grouped = {}
    for each in hidden:
        for field in _fields(each.item):
            groups.setdefault(field, {})[each.item.id] = each
    return groups


def matching(hidden: Iterable[Hidden], wanted: Filter) -> list[Hidden]:
    """Return the hidden items that match."""
    return [each for each in hidden if wanted.matches(each.item)]


def _fields(item: MemoryItem) -> Iterator[Field]:
    """Yield what an item is found by: its ids, its namespace and every place above that, and that it expires."""
    place = item.metadata.namespace
    yield _ALL
    if item.expires_at is not None:
        yield _MORTAL
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
