"""Which rows are nearest to a vector: exact, by one matrix product."""

from __future__ import annotations

import asyncio

import numpy as np
from numpy.typing import NDArray

from recollect_vector.facets import Rows
from recollect_vector.table import Matrix, Table

OFF_LOOP = 20_000
"""From this many rows on, the product runs in a thread: it takes milliseconds, in which others want their turn."""

_BELOW_ALL = np.float32(-2)
"""The similarity by which zero vectors are ordered: below that of opposite vectors."""


async def similarities(table: Table, rows: Rows | None, vector: Matrix) -> NDArray[np.float32]:
    """Return the cosine of each row's vector with a vector of length one; None stands for every row."""
    height = table.height
    if rows is None:
        return await _product(table, table.matrix[:height], vector)
    if len(rows) > height // 2:
        return (await _product(table, table.matrix[:height], vector))[rows]
    return await _product(table, np.take(table.matrix, rows, axis=0), vector)


async def _product(table: Table, matrix: Matrix, vector: Matrix) -> NDArray[np.float32]:
    if len(matrix) < OFF_LOOP:
        product: NDArray[np.float32] = matrix @ vector
        return product
    table.readers += 1
    try:
        return await asyncio.to_thread(np.matmul, matrix, vector)
    finally:
        table.readers -= 1


def best(table: Table, rows: Rows | None, found: NDArray[np.float32], limit: int) -> list[tuple[int, float]]:
    """Return the rows with the highest similarities, best first; of equal ones the newest first.

    ``found`` are the similarities of the rows. Zero vectors have a similarity of 0 and come last.
    """
    zero = table.zero_rows(rows, len(found))
    order = found if zero is None else np.where(zero, _BELOW_ALL, found)
    if limit < len(order):
        least = np.partition(order, len(order) - limit)[len(order) - limit]
        chosen = np.flatnonzero(order >= least)
    else:
        chosen = np.arange(len(order))
    listed: Rows = chosen.astype(np.int32) if rows is None else rows[chosen]
    ranked = np.lexsort((table.recency(listed), -order[chosen]))[:limit]
    return [(int(listed[place]), float(found[chosen[place]])) for place in ranked]
