"""An approximate index over all rows, for stores too large to compare every vector. Needs the extra ``ann``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import numpy as np

from memoranda.errors import UnsupportedError
from memoranda.loops import LoopLock
from memoranda.plugins import how_to_install
from memoranda_vector.batches import Matrix
from memoranda_vector.facets import Rows
from memoranda_vector.table import Table

OVERSAMPLING = 4
"""How many more rows than wanted the index is asked for; their exact similarities decide."""

_AT_LEAST = 64
_AT_ONCE = 1_000
"""More changes than this are brought into the index in a thread."""


class ApproximateIndex:
    """A graph index (usearch, HNSW) that is brought up to date before each search.

    It keeps the vectors in half precision, and the rows that it finds are compared exactly.
    """

    def __init__(self, dimension: int) -> None:
        try:
            from usearch.index import Index
        except ImportError as error:
            remedy = f"Try: {how_to_install('memoranda-vector', 'ann')}"
            raise UnsupportedError("VectorMemoryStore", "ann=True without usearch", remedy=remedy) from error
        self._index: Any = Index(ndim=dimension, metric="ip", dtype="f16", multi=True)
        self._changed: set[int] = set()
        self._lock = LoopLock()

    def __len__(self) -> int:
        return len(self._index)

    def touch(self, rows: Iterable[int]) -> None:
        """Note that the vectors of these rows are new, others, or gone."""
        self._changed.update(rows)

    async def nearest(self, table: Table, vector: Matrix, limit: int) -> Rows:
        """Return rows that are probably the nearest, more than ``limit`` of them where there are."""
        async with self._lock.held():  # One at a time: the index may be rebuilt in a thread.
            await self._update(table)
            found = self._index.search(vector, max(limit * OVERSAMPLING, _AT_LEAST))
        return np.unique(np.asarray(found.keys, dtype=np.int64)).astype(np.int32)

    async def _update(self, table: Table) -> None:
        if not self._changed:
            return
        rows = np.fromiter(self._changed, dtype=np.int64, count=len(self._changed))
        self._changed = set()
        used = np.fromiter((row < table.height and table.items[row] is not None for row in rows), dtype=np.bool_)
        keys, vectors = rows[used], table.matrix[rows[used]]
        long = [row for row in keys.tolist() if row in table.further] if table.further else []
        if long:
            further = [table.further[row] for row in long]
            keys = np.concatenate([keys, np.repeat(long, list(map(len, further)))])
            vectors = np.concatenate([vectors, *further])
        if len(rows) > _AT_ONCE:
            await asyncio.to_thread(self._apply, rows, keys, vectors)
        else:
            self._apply(rows, keys, vectors)

    def _apply(self, changed: Any, used: Any, vectors: Matrix) -> None:
        known = changed[np.asarray(self._index.contains(changed))] if len(self._index) else changed[:0]
        if len(known):
            self._index.remove(known)
        if len(used):
            self._index.add(used, vectors)
