"""Which rows are nearest to a vector: exact, by one matrix product."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from memoranda_ranking import passage_at
from memoranda_vector.batches import Matrix
from memoranda_vector.facets import Rows
from memoranda_vector.table import Table

OFF_LOOP = 50_000_000
"""From this many numbers on, the product runs in a thread: it takes so long that others want their turn meanwhile."""

Part = tuple[int, int]
"""The number of a passage, and of how many."""

_COPIED = 4
"""How much longer numbers take that are put together first."""

_LONG_ITEMS = 64
"""How many long items are compared at a time."""

Found = tuple[Rows, NDArray[np.float32]]
"""Rows, and how similar each is."""

_BELOW_ALL = np.float32(-2)
"""The similarity by which zero vectors are ordered: below that of opposite vectors."""


class Compared:
    """How alike each of some rows is: as much as its nearest passage, held back for having many."""

    def __init__(self, first: NDArray[np.float32]) -> None:
        self.similarities = first
        self._places: dict[int, int] = {}
        self._ends: NDArray[np.intp]
        self._cosines: NDArray[np.float32]

    def look_further(
        self, rows: Rows, places: NDArray[np.intp], further: Sequence[Matrix], vector: Matrix, damping: float
    ) -> None:
        """Compare the further passages of these rows, which are at these places, as well."""
        counts = np.array([len(each) for each in further])
        # In pieces that stay in the processor's cache: there is never a second copy of all vectors.
        chunks = [further[start : start + _LONG_ITEMS] for start in range(0, len(further), _LONG_ITEMS)]
        found = np.concatenate([np.concatenate(chunk) @ vector for chunk in chunks])
        self._places = {row: place for place, row in enumerate(rows.tolist())}
        self._cosines = np.insert(found, np.cumsum(counts) - counts, self.similarities[places])
        self._ends = np.cumsum(counts + 1)
        best = np.maximum.reduceat(self._cosines, self._ends - counts - 1)
        self.similarities[places] = best / (counts + 1) ** damping

    def passage(self, row: int) -> Part | None:
        """Return which passage of a row is the nearest; None where it has only one."""
        at = self._places.get(row)
        if at is None:
            return None
        found = self._cosines[self._ends[at - 1] if at else 0 : self._ends[at]]
        return int(found.argmax()), len(found)


def passage_text(content: str, part: Part | None) -> str:
    """Return the words of a passage; the empty text where there is only one."""
    return "" if part is None else passage_at(content, *part)


async def compared(table: Table, rows: Rows | None, vector: Matrix, damping: float) -> Compared:
    """Return how alike each row is to a vector of length one; None stands for every row."""
    found = Compared(await _cosines(table, rows, vector))
    if not table.further:
        return found
    places = np.flatnonzero(table.divided[: len(found.similarities)] if rows is None else table.divided[rows])
    if len(places):
        long = places.astype(np.int32) if rows is None else rows[places]
        further = [table.further[row] for row in long.tolist()]
        work = partial(found.look_further, long, places, further, vector, damping)
        if sum(map(len, further)) * len(vector) < OFF_LOOP // _COPIED:
            work()
        else:
            await asyncio.to_thread(work)
    return found


async def _cosines(table: Table, rows: Rows | None, vector: Matrix) -> NDArray[np.float32]:
    """Return the cosine of each row's first vector with a vector of length one."""
    height = table.height
    if rows is None:
        return await _product(table, table.matrix[:height], vector)
    if len(rows) == 0:
        return np.zeros(0, dtype=np.float32)
    first, last = int(rows.min()), int(rows.max())
    # A stretch that is at least half wanted is read as it is: gathering rows costs more than multiplying them.
    if last - first < 2 * len(rows):
        found = await _product(table, table.matrix[first : last + 1], vector)
        return found[rows - first]
    return await _product(table, table.matrix[rows], vector)


async def _product(table: Table, matrix: Matrix, vector: Matrix) -> NDArray[np.float32]:
    if matrix.size < OFF_LOOP:
        product: NDArray[np.float32] = matrix @ vector
        return product
    table.readers += 1
    try:
        return await asyncio.to_thread(np.matmul, matrix, vector)
    finally:
        table.readers -= 1


def best(table: Table, rows: Rows | None, found: NDArray[np.float32], limit: int) -> list[tuple[int, float]]:
    """Return the rows with the highest similarities, best first; of equal ones the newest first.

    ``found`` are the similarities of the rows. Zero vectors have a similarity of 0 and come last; an item
    without text has no vector, and is none of them.
    """
    blank = table.blank_rows(rows, len(found))
    if blank is not None:
        kept = np.flatnonzero(~blank).astype(np.int32)
        rows, found = kept if rows is None else rows[kept], found[kept]
    zero = table.zero_rows(rows, len(found))
    order = found if zero is None else np.where(zero, _BELOW_ALL, found)
    if limit < len(order):
        least = np.partition(order, len(order) - limit)[len(order) - limit]
        chosen = np.flatnonzero(order >= least)
    else:
        chosen = np.arange(len(order))
    listed: Rows = chosen.astype(np.int32) if rows is None else rows[chosen]
    places = table.order(order[chosen], listed)[:limit]
    return list(zip(listed[places].tolist(), found[chosen][places].tolist(), strict=True))
