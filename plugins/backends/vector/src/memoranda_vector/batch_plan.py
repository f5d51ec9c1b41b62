"""What a large batch changes, worked out in a thread from a snapshot of what is stored.

If the snapshot still holds afterwards, the plan is applied in one step: a few assignments of whole columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

import numpy as np

from memoranda.items import MemoryItem
from memoranda.store.backend import Write, check_expected, metadata_matches, next_versions
from memoranda_vector.batch_columns import (
    BatchColumns,
    ItemVectors,
    Times,
    collector_paused,
    columns_of,
    private_copies,
)
from memoranda_vector.deleted_items import DeletedItem, Groups, grouped

ATTEMPTS = 3
"""How often a large batch is planned in a thread. If its items change every time, it is then written at once."""

ROOM = 1 << 40
"""How many numbers in the order of adding are left to other writers while a batch is planned."""


class Snapshot(NamedTuple):
    """What is stored under some ids at one moment: rows, their items and places, and the deleted items."""

    rows: list[int | None]
    items: list[MemoryItem | None]
    places: list[int]
    deleted: list[DeletedItem | None]

    def is_empty(self) -> bool:
        """Return True if none of the ids is stored."""
        return self.rows.count(None) == len(self.rows) and not any(self.deleted)

    def stored(self) -> dict[str, MemoryItem]:
        """Return the stored items by id, live or deleted."""
        found = {deleted.item.id: deleted.item for deleted in self.deleted if deleted is not None}
        found.update((item.id, item) for item in self.items if item is not None)
        return found


class BatchPlan(NamedTuple):
    """What a batch changes.

    - ``free``: rows of the table that become empty
    - ``rows``, ``replaced``: rows that get other items, and the columns of these
    - ``new``, ``numbers``: the columns of new items, and their numbers in the order of adding
    - ``gone``, ``come``: items that leave the deleted ones, and items that join them
    - ``last``: the last number used
    - ``removed``: how many items are deleted
    - ``items``: the items of the batch as they are stored
    """

    free: list[int]
    rows: list[int]
    replaced: BatchColumns
    new: BatchColumns
    numbers: Times
    gone: Groups
    come: Groups
    last: int
    removed: int
    items: list[MemoryItem]


def ids_of(write: Write) -> list[str]:
    """Return the ids of a batch: those that it adds, in which one may come twice, and those that it deletes."""
    return [*(item.id for item in write.adds), *write.deletes]


def checked_items(write: Write, seen: Snapshot, compared: bool) -> list[MemoryItem]:
    """Return the items of a batch as they are to be stored; with ``compared``, each must have the stored version.

    Raises the first conflict.
    """
    if _all_new(write, seen, compared):
        return _first_versions(write.adds)
    if compared:
        for item, live in zip(write.adds, seen.items, strict=False):
            check_expected(item, live, write.within)
        # Copies: the versions of the given items are compared again before the batch is written.
        write = write.but(adds=private_copies(write.adds), owned=True)
    return next_versions(write, seen.stored().get)


def plan_batch(write: Write, vectors: ItemVectors, seen: Snapshot, first: int, compared: bool) -> BatchPlan:
    """Return the plan of a batch; ``vectors`` are those of its live items, and new ones are numbered from ``first``.

    Raises the first conflict.
    """
    with collector_paused(len(seen.rows)):
        return _plan_batch(write, vectors, seen, first, compared)


def _plan_batch(write: Write, vectors: ItemVectors, seen: Snapshot, first: int, compared: bool) -> BatchPlan:
    if not write.hidden and _all_new(write, seen, compared):
        return _all_live(_first_versions(write.adds), vectors, seen, first)
    items = checked_items(write, seen, compared)
    found = dict(zip(ids_of(write), zip(*seen, strict=True), strict=True))
    live = [item for item in items if item.id not in write.hidden]
    batch = columns_of(live, vectors, [found[item.id][1] for item in live])
    last = {item.id: position for position, item in enumerate(live)}  # Of an id that comes twice, the last one counts.
    free, rows, replaced, new, added = [], [], [], [], []
    gone: list[DeletedItem] = []
    come: list[DeletedItem] = []
    numbers = count(first)
    for item in {item.id: item for item in items}.values():
        row, _, place, deleted = found[item.id]
        if deleted is not None:
            gone.append(deleted)
        if row is None:
            place = next(numbers) if deleted is None else deleted.added
        if item.id in write.hidden:
            come.append(DeletedItem(item, place))
            free += [] if row is None else [row]
        elif row is None:
            new.append(last[item.id])
            added.append(place)
        else:
            rows.append(row)
            replaced.append(last[item.id])
    removed = 0
    for item_id in write.deletes:
        row, stored, place, deleted = found[item_id]
        if stored is not None and row is not None and metadata_matches(write.within, stored.metadata):
            free.append(row)
            come += [] if write.purge else [DeletedItem(stored, place)]
            removed += 1
        elif deleted is not None and write.purge and metadata_matches(write.within, deleted.item.metadata):
            gone.append(deleted)
            removed += 1
    return BatchPlan(
        free,
        rows,
        batch.part(replaced),
        batch.part(new),
        np.array(added, dtype=np.int64),
        grouped(gone),
        grouped(come),
        next(numbers) - 1,
        removed,
        items,
    )


def _all_new(write: Write, seen: Snapshot, compared: bool) -> bool:
    """Return True if a batch only adds new items, each once, as most do: then it cannot conflict."""
    ids = {item.id for item in write.adds}
    return not compared and not write.deletes and seen.is_empty() and len(ids) == len(write.adds)


def _first_versions(items: Sequence[MemoryItem]) -> list[MemoryItem]:
    for item in items:
        item.__dict__["version"] = 1
    return list(items)


def _all_live(items: list[MemoryItem], vectors: ItemVectors, seen: Snapshot, first: int) -> BatchPlan:
    """Return the plan of a batch that only adds new, live items."""
    batch = columns_of(items, vectors, seen.items)
    numbers = np.arange(first, first + len(items), dtype=np.int64)
    return BatchPlan([], [], batch.part([]), batch, numbers, {}, {}, first + len(items) - 1, 0, items)
