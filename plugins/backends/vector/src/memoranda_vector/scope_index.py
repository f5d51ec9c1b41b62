"""The items of a scope as arrays, which rank them by their words; every search brings them up to date."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memoranda.items import MemoryItem
from memoranda.loops import LoopLock
from memoranda.offloading import ITEMS_FILTERED_PER_TURN, ITEMS_PER_TURN, offload, word_weight
from memoranda.store.backend import Expiry, Filter
from memoranda_backend.ranking import Added, ScopeArrays, passage_of
from memoranda_vector.batch_columns import Times
from memoranda_vector.column_index import Rows
from memoranda_vector.filtering import matching_rows
from memoranda_vector.table import Table

MOST_BYTES = 256 << 20
"""About how many bytes are kept for all scopes. A larger scope is kept alone."""

_QUICK = 20_000
"""How many items a scope may have for a small change to be made in the event loop: sorting takes a while."""


class ScopeIndex:
    """The items of one scope. Those whose stamps it knows are in its arrays, and no others.

    Only the search that holds the lock may use it. If that is broken off, a thread may still be at work on the arrays:
    then it has to :meth:`start_anew`.
    """

    def __init__(self, passage: float) -> None:
        self.lock = LoopLock()
        self._passage = passage
        self.start_anew()

    def start_anew(self) -> None:
        """Forget all items."""
        self.arrays = ScopeArrays(self._passage)
        self.size = 0
        self._stamps: Times = np.empty(0, dtype=np.int64)
        self._numbers: Times = np.empty(0, dtype=np.int64)

    async def follow(self, table: Table, scope: Filter) -> Rows:
        """Take note of what has changed since the last search, and return the rows of the scope.

        The result holds until the next ``await``.
        """
        while True:
            rows = table.listed(await matching_rows(table, scope))
            stamps, numbers = table.stamps[rows], table.added[rows]
            known = len(self._stamps)
            if np.array_equal(stamps[:known], self._stamps):  # As after most changes: what is new comes last.
                left = np.ones(known, dtype=np.bool_)
                new = np.arange(known, len(rows))
            else:
                left = np.isin(self._stamps, stamps)
                new = np.flatnonzero(np.isin(stamps, self._stamps, invert=True))
            gone = self._numbers[~left].tolist()
            if not len(new) and not gone:
                self._stamps, self._numbers = stamps, numbers
                return rows
            new = new[:ITEMS_FILTERED_PER_TURN]
            items = table.items_of(rows[new])
            letters = sum([len(item.content) for item in items])
            weight = max(len(new) + len(gone), word_weight(letters), len(rows) * ITEMS_PER_TURN // _QUICK)
            await offload(weight, self._change, gone, numbers[new].tolist(), items)
            self._stamps = np.concatenate([self._stamps[left], stamps[new]])
            self._numbers = np.concatenate([self._numbers[left], numbers[new]])
            if self.arrays.is_worn:
                self.start_anew()

    def places(self) -> NDArray[np.intp]:
        """Return the place among the rows of each item of the layout."""
        order = np.argsort(self._numbers)
        return order[np.searchsorted(self._numbers, self.arrays.layout.numbers, sorter=order)]

    def _change(self, gone: Sequence[int], numbers: Sequence[int], items: Sequence[MemoryItem]) -> None:
        self.arrays.remove(gone)
        self.arrays.add([Added(number, passage_of(item)) for number, item in zip(numbers, items, strict=True)])
        self.size = self.arrays.size


def scope_key(scope: Filter) -> tuple[str, ...]:
    """Return what a scope is kept under. Time passes for every search and makes no other scope of it."""
    return tuple([repr(each) for each in scope.conditions if type(each) is not Expiry or each.expired])
