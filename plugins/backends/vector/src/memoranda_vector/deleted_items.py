"""Items that were deleted and can be restored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.store.backend import Expiry, Filter

Field = tuple[str, str | tuple[str, ...]]


class DeletedItem(NamedTuple):
    """A deleted item with its place in the order of adding, which it keeps when it is restored."""

    item: MemoryItem
    added: int


Groups = dict[Field, dict[str, DeletedItem]]
"""Deleted items by each of the fields that they are found by."""

_ALL: Field = ("id", "")
_EXPIRING: Field = ("expires_at", "")


class DeletedItems:
    """Deleted items by id and by each field of their scope, so that the cost of one user's is not another's.

    Items that expire have a group of their own.
    """

    def __init__(self) -> None:
        self._groups: Groups = {_ALL: {}}

    def get(self, item_id: str) -> DeletedItem | None:
        """Return the deleted item of an id."""
        return self._groups[_ALL].get(item_id)

    def items_of(self, ids: Iterable[str]) -> list[DeletedItem | None]:
        """Return the deleted item of each id, None where there is none."""
        return list(map(self._groups[_ALL].get, ids))

    def put(self, item: MemoryItem, added: int) -> None:
        """Add an item whose id is not among the deleted ones."""
        self.change({}, grouped([DeletedItem(item, added)]))

    def take(self, item_id: str) -> DeletedItem | None:
        """Remove an item and return it; None if it was not deleted."""
        deleted = self.get(item_id)
        if deleted is not None:
            self.change(grouped([deleted]), {})
        return deleted

    def change(self, gone: Groups, come: Groups) -> None:
        """Remove items, which are all present, then add others, whose ids are not."""
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

    def candidates(self, wanted: Filter) -> list[DeletedItem]:
        """Return the smallest group that holds every match. The other conditions are yet to be tested."""
        fields = [_ALL]
        if wanted.metadata is not None:
            fields += _scope_fields(wanted.metadata)
        if any(type(condition) is Expiry and condition.expired for condition in wanted.conditions):
            fields.append(_EXPIRING)
        return list(min((self._groups.get(field, {}) for field in fields), key=len).values())

    def soonest_end(self) -> str | None:
        """Return when the next deleted item expires; None if none ever does."""
        ends = (deleted.item.expires_at for deleted in self._groups.get(_EXPIRING, {}).values())
        return min((end for end in ends if end is not None), default=None)


def grouped(deleted: Iterable[DeletedItem]) -> Groups:
    """Return deleted items by each of the fields that they are found by."""
    groups: Groups = {}
    for each in deleted:
        for field in _fields(each.item):
            groups.setdefault(field, {})[each.item.id] = each
    return groups


def matching(deleted: Iterable[DeletedItem], wanted: Filter) -> list[DeletedItem]:
    """Return the deleted items that match."""
    return [each for each in deleted if wanted.matches(each.item)]


def _fields(item: MemoryItem) -> Iterator[Field]:
    """Yield the groups of an item: its ids, its namespace and every namespace above it, and whether it expires."""
    namespace = item.metadata.namespace
    yield _ALL
    if item.expires_at is not None:
        yield _EXPIRING
    yield from _scope_fields(item.metadata)
    for depth in range(1, len(namespace)):
        yield "namespace", namespace[:depth]


def _scope_fields(metadata: MemoryMetadata) -> Iterator[Field]:
    for name in SCOPE_FIELDS:
        value = getattr(metadata, name)
        if value is not None:
            yield name, value
    if metadata.namespace:
        yield "namespace", metadata.namespace
