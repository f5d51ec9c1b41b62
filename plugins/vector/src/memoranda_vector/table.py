"""Items and their vectors in columns: one contiguous float32 matrix, and arrays of what filters and orders them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoranda.embeddings import has_text
from memoranda.items import SCOPE_FIELDS, MemoryItem
from memoranda.ranking import fold_words, speaker_of
from memoranda.store import Archived, Condition, FieldEquals, Filter, InScope
from memoranda.turns import aside, sifting
from memoranda_vector.copies import scope_of
from memoranda_vector.facets import Facet, Rows

Matrix = NDArray[np.float32]

GROWTH = 1.125
"""How much is reserved beyond what is needed: little, since the matrix is most of the memory."""

_SMALLEST = 256
_FACETS = (*SCOPE_FIELDS, "conversation", "memory_type", "status", "speaker")
_CONVERSATION = 3  # Neighbouring turns have user, session and task in common.
_LABEL = 100
_CHUNK = 1024


def facet_key(item: MemoryItem) -> tuple[Any, ...]:
    """Return what an item is found by, in short: see :func:`facet_values`."""
    speaker = speaker_of(item.name, "", item.content) if item.name or ":" in item.content[:_LABEL] else ""
    return scope_of(item.metadata.__dict__), item.memory_type, item.status, speaker


def facet_values(key: tuple[Any, ...]) -> tuple[Hashable | None, ...]:
    """Return what items of this key are found by, in the order of the facets."""
    scope, memory_type, status, speaker = key
    return *scope, scope[:_CONVERSATION], memory_type, status, _first_word(speaker)


def _first_word(name: str) -> str | None:
    return next(iter(fold_words(name)), None)


class Table:
    """Rows of items. Rows that become free are used again, and a row keeps its number as long as its item stays."""

    def __init__(self, dimension: int) -> None:
        self.matrix: Matrix = np.zeros((0, dimension), dtype=np.float32)
        self.items: list[MemoryItem | None] = []
        self.facets = {name: Facet() for name in _FACETS}
        self.readers = 0
        """How many threads read the matrix just now: it must not move meanwhile."""
        self._row_of: dict[str, int] = {}
        self._free: list[int] = []
        self._times: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._added: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._archived: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._zero: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._blank: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._used: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._archived_count = 0
        self._zero_count = 0
        self._blank_count = 0

    def __len__(self) -> int:
        return len(self._row_of)

    @property
    def height(self) -> int:
        """The number of rows in use or free: the part of the matrix that holds anything."""
        return len(self.items)

    def row_of(self, item_id: str) -> int | None:
        """Return the row of an item."""
        return self._row_of.get(item_id)

    def holds(self, item: MemoryItem) -> bool:
        """Whether this very item, and not another of its id, is in the table."""
        row = self._row_of.get(item.id)
        return row is not None and self.items[row] is item

    def row_in_use(self, item_id: str) -> int:
        """Return the row of an item that is known to be there."""
        return self._row_of[item_id]

    def has_none(self, ids: set[str]) -> bool:
        """Whether the table holds none of these items."""
        return self._row_of.keys().isdisjoint(ids)

    def item(self, row: int) -> MemoryItem:
        """Return the item of a row in use; it is the table's own."""
        item = self.items[row]
        assert item is not None, "the row is free"
        return item

    def items_of(self, rows: Rows) -> list[MemoryItem]:
        """Return the items of rows in use."""
        items = self.items
        return [item for row in rows.tolist() if (item := items[row]) is not None]

    def added(self, row: int) -> int:
        """Return the place of a row's item in the order of adding."""
        return int(self._added[row])

    # Changing

    def put(self, item: MemoryItem, vector: Matrix, added: int) -> int:
        """Add or replace one item and return its row. The vector has length one or zero."""
        row = self._row_of.get(item.id)
        if row is None:
            row = self._new_rows(1)[0]
            self._row_of[item.id] = row
        else:
            self._forget(row)
        self.items[row] = item
        self.matrix[row] = vector
        for facet, value in zip(self.facets.values(), facet_values(facet_key(item)), strict=True):
            facet.add(row, value)
        self._times[row] = np.datetime64(item.created_at[:26], "us").astype(np.int64)
        self._added[row] = added
        self._used[row] = True
        if item.archived_by is not None:
            self._archived[row] = True
            self._archived_count += 1
        if not vector.any():
            self._zero[row] = True
            self._zero_count += 1
        if not has_text(item.content):
            self._blank[row] = True
            self._blank_count += 1
        return row

    def put_new(self, items: Sequence[MemoryItem], vectors: Matrix, added: int) -> Rows:
        """Add items whose ids are all new and different, numbered in their order, and return their rows."""
        # Items of one batch mostly share their scope, so each combination of values is looked up once.
        combinations: dict[tuple[Any, ...], int] = {}
        which = np.array(
            [combinations.setdefault(facet_key(item), len(combinations)) for item in items], dtype=np.int32
        )
        values = [facet_values(key) for key in combinations]
        # Rows of one user stand side by side, so that a search within a scope reads a stretch of the matrix.
        users: dict[Any, int] = {}
        group = np.array([users.setdefault(value[0], len(users)) for value in values], dtype=np.int32)
        order = np.argsort(group[which], kind="stable")
        ascending = self._new_rows(len(items))
        rows = np.empty(len(items), dtype=np.int32)
        rows[order] = ascending
        self._fill(ascending, vectors, order)
        numbers = rows.tolist()
        for row, item in zip(numbers, items, strict=True):
            self.items[row] = item
        self._row_of.update(zip([item.id for item in items], numbers, strict=True))
        for facet, column in zip(self.facets.values(), zip(*values, strict=True), strict=True):
            facet.add_many(rows, column, which)
        self._times[rows] = _times(items)
        self._added[rows] = np.arange(added, added + len(items))
        self._mark(rows, items, vectors)
        return rows

    def take(self, item_id: str) -> tuple[int, MemoryItem]:
        """Remove an item with its vector and return the row, which is free now, and the item."""
        row = self._row_of.pop(item_id)
        item = self.item(row)
        self._forget(row)
        self.matrix[row] = 0
        self.items[row] = None
        self._free.append(row)
        return row, item

    def _fill(self, rows: list[int], vectors: Matrix, order: NDArray[np.intp]) -> None:
        """Write the vectors, in this order, into rows that ascend."""
        together = rows[-1] - rows[0] == len(rows) - 1
        for start in range(0, len(rows), _CHUNK):  # In pieces: there is never a second copy of a large batch.
            part = vectors[order[start : start + _CHUNK]]
            if together:
                self.matrix[rows[start] : rows[start] + len(part)] = part
            else:
                self.matrix[rows[start : start + _CHUNK]] = part

    def _forget(self, row: int) -> None:
        for facet in self.facets.values():
            facet.remove(row)
        self._archived_count -= int(self._archived[row])
        self._zero_count -= int(self._zero[row])
        self._blank_count -= int(self._blank[row])
        self._archived[row] = self._zero[row] = self._blank[row] = self._used[row] = False

    def _mark(self, rows: Rows, items: Sequence[MemoryItem], vectors: Matrix) -> None:
        archived = np.fromiter((item.archived_by is not None for item in items), dtype=np.bool_, count=len(items))
        zero = np.einsum("ij,ij->i", vectors, vectors) == 0
        blank = np.fromiter((not has_text(item.content) for item in items), dtype=np.bool_, count=len(items))
        self._archived[rows] = archived
        self._zero[rows] = zero
        self._blank[rows] = blank
        self._used[rows] = True
        self._archived_count += int(archived.sum())
        self._zero_count += int(zero.sum())
        self._blank_count += int(blank.sum())

    def _new_rows(self, count: int) -> list[int]:
        """Return rows to fill, free ones first, in ascending order."""
        reused = sorted(self._free.pop() for _ in range(min(count, len(self._free))))
        start = len(self.items)
        fresh = count - len(reused)
        self._reserve(start + fresh)
        self.items.extend([None] * fresh)
        return [*reused, *range(start, start + fresh)]

    def _reserve(self, height: int) -> None:
        capacity = len(self.matrix)
        if height <= capacity:
            return
        grown = max(_SMALLEST, height, int(capacity * GROWTH))
        shape = (grown, self.matrix.shape[1])
        if capacity == 0:
            self.matrix = np.empty(shape, dtype=np.float32)
        elif self.readers:
            moved = np.zeros(shape, dtype=np.float32)
            moved[:capacity] = self.matrix
            self.matrix = moved
        else:
            # The allocator moves pages instead of copying, and there are never two matrices. No view outlives a call.
            self.matrix.resize(shape, refcheck=False)
        for facet in self.facets.values():
            facet.grow(grown)
        for name in ("_times", "_added", "_archived", "_zero", "_blank", "_used"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros(grown - capacity, dtype=column.dtype)]))

    # Choosing

    def select(self, wanted: Filter) -> Rows | None:
        """Return the rows that match as far as columns tell, or None if that is every row up to the height."""
        scope, others = [], []
        for condition in wanted.conditions:
            if type(condition) is InScope:
                scope.append((self.facets[condition.field], condition.value))
            elif type(condition) is FieldEquals and condition.field in self.facets:
                others.append((self.facets[condition.field], condition.value))
        if len(scope) > 1:
            scope.sort(key=lambda named: named[0].count(named[1]))
        rows = scope[0][0].rows(scope[0][1]) if scope else self._all()
        for facet, value in (*scope[1:], *others):
            code = facet.code(value)
            listed = self.listed(rows)
            rows = listed[:0] if code is None else listed[facet.codes[listed] == code]
        for condition in wanted.conditions:
            if type(condition) is Archived and (condition.archived or self._archived_count):
                rows = self.listed(rows)
                rows = rows[self._archived[rows] == condition.archived]
        return rows

    def _tells(self, condition: Condition) -> bool:
        """Whether columns tell which rows pass a condition, so that :meth:`select` has applied it."""
        if type(condition) is FieldEquals:
            return condition.field in self.facets
        return type(condition) in (InScope, Archived)

    async def chosen(self, wanted: Filter) -> Rows | None:
        """Return the rows that match every filter, or None if that is every row up to the height.

        They are what they are until the next ``await``. A filter that no column tells is asked of every item, aside.
        """
        rows = self.select(wanted)
        if all(map(self._tells, wanted.conditions)):
            return rows
        numbers = self.listed(rows).tolist()
        matching = await aside(sifting(len(numbers)), self._matching, numbers, wanted)
        return np.array([row for row, item in matching if self.items[row] is item], dtype=np.int32)

    def _matching(self, rows: Sequence[int], wanted: Filter) -> list[tuple[int, MemoryItem]]:
        found = ((row, self.items[row]) for row in rows)
        return [(row, item) for row, item in found if item is not None and wanted.matches(item)]

    def listed(self, rows: Rows | None) -> Rows:
        """Return the rows as an array, where None stands for every row."""
        return np.arange(self.height, dtype=np.int32) if rows is None else rows

    def stamps(self, rows: Rows) -> NDArray[np.int64]:
        """Return what tells the items that the rows hold now from any that they may hold later."""
        stamps: NDArray[np.int64] = self._added[rows]
        return stamps

    def newest_first(self, rows: Rows | None, limit: int | None = None) -> Rows:
        """Return the rows in the order of time, then of adding, the last first."""
        rows = self.listed(rows)
        times = self._times[rows]
        if limit is not None and limit < len(rows):
            oldest = np.partition(times, len(rows) - limit)[len(rows) - limit]
            kept = times >= oldest
            rows, times = rows[kept], times[kept]
        return rows[np.lexsort((self._added[rows], times))[::-1]][:limit]

    def oldest_first_by(self, codes: Rows, rows: Rows) -> Rows:
        """Return the rows in the order of their code, then of time, then of adding, the first first."""
        return rows[np.lexsort((self._added[rows], self._times[rows], codes[rows]))]

    def order(self, similarities: NDArray[np.float32], rows: Rows) -> NDArray[np.intp]:
        """Return the places of the rows by their similarity, the highest first; of equal ones the newest first."""
        return np.lexsort((self._added[rows], self._times[rows], similarities))[::-1]

    def places(self, rows: Rows) -> list[int]:
        """Return the places of the rows' items in the order of adding."""
        places: list[int] = self._added[rows].tolist()
        return places

    def mask(self, rows: Rows) -> NDArray[np.bool_]:
        """Return, for every row up to the height, whether it is one of these and still in use."""
        inside = np.zeros(self.height, dtype=np.bool_)
        inside[rows] = True
        return inside & self._used[: self.height]

    def zero_rows(self, rows: Rows | None, height: int) -> NDArray[np.bool_] | None:
        """Return which of the rows (None: all below ``height``) have the zero vector; None if no row has."""
        if not self._zero_count:
            return None
        return self._zero[:height] if rows is None else self._zero[rows]

    def blank_rows(self, rows: Rows | None, height: int) -> NDArray[np.bool_] | None:
        """Return which of the rows (None: all below ``height``) hold an item without text; None if no row does."""
        if not self._blank_count:
            return None
        return self._blank[:height] if rows is None else self._blank[rows]

    def _all(self) -> Rows | None:
        if not self._free:
            return None
        return np.flatnonzero(self._used[: self.height]).astype(np.int32)


def _times(items: Sequence[MemoryItem]) -> NDArray[np.int64]:
    """Return the times of creation in microseconds. Items carry them as UTC text, whose zone numpy does not read."""
    return np.array([item.created_at[:26] for item in items], dtype="datetime64[us]").astype(np.int64)
