"""Which rows are nearest to a vector: exact, by one matrix product."""

from __future__ import annotations

import asyncio

import numpy as np
from numpy.typing import NDArray

from memoranda_vector.batches import Matrix
from memoranda_vector.facets import Rows
from memoranda_vector.table import Table

OFF_LOOP = 50_000_000
"""From this many numbers on, the product runs in a thread: it takes so long that others want their turn meanwhile."""

Found = tuple[Rows, NDArray[np.float32]]
"""Rows, and how similar each is."""

_BELOW_ALL = np.float32(-2)
"""The similarity by which zero vectors are ordered: below that of opposite vectors."""


async def similarities(table: Table, rows: Rows | None, vector: Matrix) -> NDArray[np.float32]:
    """Return the cosine of each row's vector with a vector of length one; None stands for every row."""
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
