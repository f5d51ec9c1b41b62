"""What a batch of many items comes to, worked out in a thread from what was held when it began.

Where that is still held afterwards, the plan is carried out in one step: a few assignments of whole columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

import numpy as np

from memoranda.items import MemoryItem
from memoranda.store.backend import Write, check_expected, kept, metadata_matches
from memoranda_vector.batches import Batch, Embedded, Times, batch_of
from memoranda_vector.bin import Grouped, Hidden, grouped
from memoranda_vector.copies import collector_paused, kept_copies

ATTEMPTS = 3
"""How often a batch is planned aside; where others have changed its items each time, it is done at once."""

ROOM = 1 << 40
"""How many numbers in the order of adding are left to others while a batch is planned."""


class Seen(NamedTuple):
    """What is held under some ids at one moment: rows, the items there and their places, and what is hidden."""

    rows: list[int | None]
    items: list[MemoryItem | None]
    places: list[int]
    hidden: list[Hidden | None]

    def is_nothing(self) -> bool:
        """Whether none of the ids is held."""
        return self.rows.count(None) == len(self.rows) and not any(self.hidden)

    def stored(self) -> dict[str, MemoryItem]:
        """Return what is held under each id, hidden or not."""
        found = {hidden.item.id: hidden.item for hidden in self.hidden if hidden is not None}
        found.update((item.id, item) for item in self.items if item is not None)
        return found


class Plan(NamedTuple):
    """What a batch changes.

    ``free`` are rows of the table that it leaves empty; ``rows`` are those that ``replaced`` goes to, and ``new`` takes
    others, with these ``numbers`` in the order of adding. ``gone`` leaves the bin and ``come`` comes to it. ``last`` is
    the last number that is used, ``removed`` how many items are deleted, and ``items`` what was given, as it is kept.
    """

    free: list[int]
    rows: list[int]
    replaced: Batch
    new: Batch
    numbers: Times
    gone: Grouped
    come: Grouped
    last: int
    removed: int
    items: list[MemoryItem]


def ids_of(write: Write) -> list[str]:
    """Return the ids that a batch is about: those of what it adds, which may be there twice, and what it deletes."""
    return [*(item.id for item in write.adds), *write.deletes]


def checked(write: Write, seen: Seen, compared: bool) -> list[MemoryItem]:
    """Return the items of a batch as they are to be kept; with ``compared``, each must have the version that is held.

    Raises the first conflict.
    """
    if _all_new(write, seen, compared):
        return _first_versions(write.adds)
    if compared:
        for item, live in zip(write.adds, seen.items, strict=False):
            check_expected(item, live, write.within)
        # Their versions are looked at again, should this be asked once more.
        write = replace(write, adds=kept_copies(write.adds), owned=True)
    return kept(write, seen.stored().get)


def planned(write: Write, vectors: Embedded, seen: Seen, first: int, compared: bool) -> Plan:
    """Return what a batch comes to, whose items to be shown have these vectors; new ones are numbered from ``first``.

    Raises the conflicts that it meets.
    """
    with collector_paused(len(seen.rows)):
        return _planned(write, vectors, seen, first, compared)


def _planned(write: Write, vectors: Embedded, seen: Seen, first: int, compared: bool) -> Plan:
    if not write.hidden and _all_new(write, seen, compared):
        return _all_shown(_first_versions(write.adds), vectors, seen, first)
    items = checked(write, seen, compared)
    found = dict(zip(ids_of(write), zip(*seen, strict=True), strict=True))
    shown = [item for item in items if item.id not in write.hidden]
    batch = batch_of(shown, vectors, [found[item.id][1] for item in shown])
    last = {item.id: place for place, item in enumerate(shown)}  # An id that comes twice is kept as it comes last.
    free, rows, replaced, new, added = [], [], [], [], []
    gone: list[Hidden] = []
    come: list[Hidden] = []
    numbers = count(first)
    for item in {item.id: item for item in items}.values():
        row, _, place, hidden = found[item.id]
        if hidden is not None:
            gone.append(hidden)
        if row is None:
            place = next(numbers) if hidden is None else hidden.added
        if item.id in write.hidden:
            come.append(Hidden(item, place))
            free += [] if row is None else [row]
        elif row is None:
            new.append(last[item.id])
            added.append(place)
        else:
            rows.append(row)
            replaced.append(last[item.id])
    removed = 0
    for item_id in write.deletes:
        row, live, place, hidden = found[item_id]
        if live is not None and row is not None and metadata_matches(write.within, live.metadata):
            free.append(row)
            come += [] if write.purge else [Hidden(live, place)]
            removed += 1
        elif hidden is not None and write.purge and metadata_matches(write.within, hidden.item.metadata):
            gone.append(hidden)
            removed += 1
    return Plan(
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


def _all_new(write: Write, seen: Seen, compared: bool) -> bool:
    """Whether a batch brings new items, each once, and nothing else, as most do: it conflicts with nothing then."""
    ids = {item.id for item in write.adds}
    return not compared and not write.deletes and seen.is_nothing() and len(ids) == len(write.adds)


def _first_versions(items: Sequence[MemoryItem]) -> list[MemoryItem]:
    for item in items:
        item.__dict__["version"] = 1
    return list(items)


def _all_shown(items: list[MemoryItem], vectors: Embedded, seen: Seen, first: int) -> Plan:
    """Return the plan of a batch that brings new items, to be shown, and nothing else."""
    batch = batch_of(items, vectors, seen.items)
    numbers = np.arange(first, first + len(items), dtype=np.int64)
    return Plan([], [], batch.part([]), batch, numbers, {}, {}, first + len(items) - 1, 0, items)
