"""Items and their vectors in columns: one contiguous float32 matrix, and arrays of what filters and orders them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.store import Order
from memoranda_backend.ranking import has_text
from memoranda_vector.batch_columns import (
    CONVERSATION,
    NEVER,
    BatchColumns,
    Matrix,
    Times,
    index_key,
    index_values,
    microseconds,
    scope_of,
)
from memoranda_vector.column_index import ColumnIndex, NamespaceIndex, Rows, UserIndex

GROWTH = 1.125
"""How much capacity grows at a time: little, since the matrix is most of the memory."""

_SMALLEST = 256
_INDEXES = (*SCOPE_FIELDS, "namespace", "conversation", "memory_type", "status", "speaker")
_COLUMNS = ("times", "ends", "archived", "divided", "_updated", "added", "stamps", "_zero", "_blank", "_used")
_CHUNK = 1024


class Table:
    """Rows of items. A row keeps its number as long as its item stays; free rows are used again."""

    def __init__(self, dimension: int) -> None:
        self.matrix: Matrix = np.zeros((0, dimension), dtype=np.float32)
        self.items: list[MemoryItem | None] = []
        self.further: dict[int, Matrix] = {}
        """The vectors of all passages but the first, by row, for items that have several. They are never changed."""
        self.divided: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        """True for the rows in ``further``."""
        self.namespaces = NamespaceIndex()
        self.users = UserIndex()
        known = {"namespace": self.namespaces, "user_id": self.users}
        self.indexes: dict[str, ColumnIndex] = {name: known.get(name) or ColumnIndex() for name in _INDEXES}
        self.readers = 0
        """How many threads are reading the matrix, which must not move meanwhile."""
        self._row_of: dict[str, int] = {}
        self._free: list[int] = []
        self.times: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """When the items were created, in microseconds of Unix time."""
        self.ends: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """When the items expire, ``NEVER`` for those that do not."""
        self.archived: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self.archived_count = 0
        self.expiring_count = 0
        self._updated: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.added: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.stamps: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """A number that no other item ever has, nor the same one after a change."""
        self._last_stamp = 0
        self._zero: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._blank: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._used: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
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
        """Return True if this very item, and not another one with its id, is in the table."""
        row = self._row_of.get(item.id)
        return row is not None and self.items[row] is item

    def rows_of(self, ids: Iterable[str]) -> list[int | None]:
        """Return the row of each id, None for an id that is not in the table."""
        return list(map(self._row_of.get, ids))

    def items_at(self, rows: Iterable[int | None]) -> list[MemoryItem | None]:
        """Return the item of each row, None where there is no row."""
        items = self.items
        return [None if row is None else items[row] for row in rows]

    def item(self, row: int) -> MemoryItem:
        """Return the item of a row in use; it is the table's own."""
        item = self.items[row]
        assert item is not None, "the row is free"
        return item

    def kin(self, metadata: MemoryMetadata) -> MemoryMetadata | None:
        """Return the metadata of some item of the same conversation, or None. It mostly equals that of the next one."""
        row = self.indexes["conversation"].some_row(scope_of(metadata.__dict__)[:CONVERSATION])
        return None if row is None else self.item(row).metadata

    def items_of(self, rows: Rows) -> list[MemoryItem]:
        """Return the items of rows in use."""
        items = self.items
        return [item for row in rows.tolist() if (item := items[row]) is not None]

    # Changing

    def put(self, item: MemoryItem, vector: Matrix, further: Matrix | None, added: int) -> int:
        """Add or replace one item and return its row. Vectors have length one or zero."""
        row = self._row_of.get(item.id)
        if row is None:
            row = self._row_of[item.id] = self._free.pop() if self._free else self._new_row()
        else:
            self._forget(row)
        self._last_stamp += 1
        self.stamps[row] = self._last_stamp
        self.items[row] = item
        self.matrix[row] = vector
        if further is not None:
            self._divide(row, further)
        for index, value in zip(self.indexes.values(), index_values(index_key(item)), strict=True):
            if value is not None:
                index.add(row, value)
        self.times[row] = created = microseconds(item.created_at)
        self._updated[row] = created if item.updated_at == item.created_at else microseconds(item.updated_at)
        self.added[row] = added
        self._used[row] = True
        self._set_end(row, item)
        if item.archived_by is not None:
            self.archived[row] = True
            self.archived_count += 1
        if further is None and not vector[0] and not vector.any():  # The first value mostly decides.
            self._zero[row] = True
            self._zero_count += 1
        if not has_text(item.content):
            self._blank[row] = True
            self._blank_count += 1
        return row

    def put_new(self, batch: BatchColumns, added: Times) -> Rows:
        """Add items whose ids are new and different, with their places in the order of adding; return their rows."""
        items = batch.items
        if not items:
            return np.empty(0, dtype=np.int32)
        # Rows of one user stand side by side, so that a search within a scope reads one range of the matrix.
        users: dict[Any, int] = {}
        group = np.array([users.setdefault(value[0], len(users)) for value in batch.values], dtype=np.int32)
        order = np.argsort(group[batch.which], kind="stable")
        ascending = self._new_rows(len(items))
        rows = np.empty(len(items), dtype=np.int32)
        rows[order] = ascending
        self._fill(ascending, batch.vectors.first, order)
        numbers = rows.tolist()
        for place, further in batch.vectors.further.items():
            self._divide(numbers[place], further)
        self._stamp(rows)
        for row, item in zip(numbers, items, strict=True):
            self.items[row] = item
        self._row_of.update(zip([item.id for item in items], numbers, strict=True))
        for index, column in zip(self.indexes.values(), zip(*batch.values, strict=True), strict=True):
            index.add_many(rows, column, batch.which)
        self.added[rows] = added
        self._used[rows] = True
        self._set_columns(rows, batch)
        return rows

    def replace_many(self, batch: BatchColumns, numbers: Sequence[int]) -> None:
        """Replace the items of rows by those of a batch, which have the same ids."""
        if not numbers:
            return
        rows = np.array(numbers, dtype=np.int32)
        others = rows[~batch.alike]
        if len(others):
            for index, column in zip(self.indexes.values(), zip(*batch.values, strict=True), strict=True):
                index.remove_many(others)
                index.add_many(others, column, batch.which[~batch.alike])
        self._stamp(rows)
        for row, item in zip(numbers, batch.items, strict=True):
            self.items[row] = item
        self.matrix[rows] = batch.vectors.first
        for row in numbers if self.further else ():
            self._join(row)
        for place, further in batch.vectors.further.items():
            self._divide(numbers[place], further)
        self._set_columns(rows, batch)

    def take_many(self, numbers: Sequence[int]) -> None:
        """Remove the items of rows, with their vectors, and free the rows."""
        if not numbers:
            return
        rows = np.array(numbers, dtype=np.int32)
        for index in self.indexes.values():
            index.remove_many(rows)
        for row in numbers:
            del self._row_of[self.item(row).id]
            self.items[row] = None
        for row in numbers if self.further else ():
            self._join(row)
        self.matrix[rows] = 0
        self.archived_count -= int(self.archived[rows].sum())
        self.expiring_count -= int((self.ends[rows] != NEVER).sum())
        self._zero_count -= int(self._zero[rows].sum())
        self._blank_count -= int(self._blank[rows].sum())
        self.ends[rows] = NEVER
        self.archived[rows] = self._zero[rows] = self._blank[rows] = self._used[rows] = False
        self._free += numbers

    def take(self, item_id: str) -> tuple[int, MemoryItem]:
        """Remove an item with its vector; return its row, which is now free, and the item."""
        row = self._row_of.pop(item_id)
        item = self.item(row)
        self._forget(row)
        self.matrix[row] = 0
        self.items[row] = None
        self._free.append(row)
        return row, item

    def set_ends(self, numbers: Sequence[int], ends: Sequence[int]) -> None:
        """Set when the items of rows expire, ``NEVER`` for those that do not."""
        rows, new = np.array(numbers, dtype=np.int32), np.array(ends, dtype=np.int64)
        self.expiring_count += int((new != NEVER).sum()) - int((self.ends[rows] != NEVER).sum())
        self.ends[rows] = new

    def soonest_end(self) -> str | None:
        """Return when the next item expires; None if none ever does."""
        if not self.expiring_count:
            return None
        return self.item(int(self.ends[: self.height].argmin())).expires_at

    def _set_end(self, row: int, item: MemoryItem) -> None:
        """Set when the item of a row expires, if it does. The row has no end yet."""
        if item.expires_at is not None:
            self.ends[row] = microseconds(item.expires_at)
            self.expiring_count += 1

    def _fill(self, rows: list[int], vectors: Matrix, order: NDArray[np.intp]) -> None:
        """Write the vectors, in this order, into rows that ascend."""
        together = rows[-1] - rows[0] == len(rows) - 1
        for start in range(0, len(rows), _CHUNK):  # In pieces: there is never a second copy of a large batch.
            part = vectors[order[start : start + _CHUNK]]
            if together:
                self.matrix[rows[start] : rows[start] + len(part)] = part
            else:
                self.matrix[rows[start : start + _CHUNK]] = part

    def _stamp(self, rows: Rows) -> None:
        """Give rows new stamps. Their items change afterwards: a thread that reads one sees that it is another."""
        self.stamps[rows] = np.arange(len(rows)) + self._last_stamp + 1
        self._last_stamp += len(rows)

    def _divide(self, row: int, further: Matrix) -> None:
        self.further[row] = further
        self.divided[row] = True

    def _join(self, row: int) -> None:
        if self.further.pop(row, None) is not None:
            self.divided[row] = False

    def _forget(self, row: int) -> None:
        self._join(row)
        for index in self.indexes.values():
            index.remove(row)
        self.archived_count -= int(self.archived[row])
        self.expiring_count -= int(self.ends[row] != NEVER)
        self.ends[row] = NEVER
        self._zero_count -= int(self._zero[row])
        self._blank_count -= int(self._blank[row])
        self.archived[row] = self._zero[row] = self._blank[row] = self._used[row] = False

    def _set_columns(self, rows: Rows, batch: BatchColumns) -> None:
        """Set the columns of rows to those of a batch, and correct the counts by what they held before."""
        self.archived_count += int(batch.archived.sum()) - int(self.archived[rows].sum())
        self._zero_count += int(batch.zero.sum()) - int(self._zero[rows].sum())
        self._blank_count += int(batch.blank.sum()) - int(self._blank[rows].sum())
        self.expiring_count += int((batch.ends != NEVER).sum()) - int((self.ends[rows] != NEVER).sum())
        self.times[rows], self._updated[rows], self.ends[rows] = batch.times, batch.updated, batch.ends
        self.archived[rows], self._zero[rows], self._blank[rows] = batch.archived, batch.zero, batch.blank

    def _new_row(self) -> int:
        row = len(self.items)
        self._reserve(row + 1)
        self.items.append(None)
        return row

    def _new_rows(self, count: int) -> list[int]:
        """Return rows to fill in ascending order, reusing free ones first."""
        reused = sorted(self._free.pop() for _ in range(min(count, len(self._free)))) if self._free else []
        start = len(self.items)
        fresh = count - len(reused)
        self._reserve(start + fresh)
        self.items.extend([None] * fresh)
        return [*reused, *range(start, start + fresh)]

    def reserve(self, count: int) -> None:
        """Make room for this many more items."""
        self._reserve(self.height + max(0, count - len(self._free)))

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
        for index in self.indexes.values():
            index.grow(grown)
        for name in _COLUMNS:
            column = getattr(self, name)
            further = np.full(grown - capacity, NEVER if name == "ends" else 0, dtype=column.dtype)
            setattr(self, name, np.concatenate([column, further]))

    # Choosing

    def listed(self, rows: Rows | None) -> Rows:
        """Return the rows as an array, where None stands for every row."""
        return np.arange(self.height, dtype=np.int32) if rows is None else rows

    def newest_first(self, rows: Rows | None, limit: int | None = None, order: Order = "created") -> Rows:
        """Return the rows in this order, the last first. Ties are broken by the order of adding."""
        rows = self.listed(rows)
        keys = (self.added if order == "added" else self._updated if order == "updated" else self.times)[rows]
        if limit is not None and limit < len(rows):
            oldest = np.partition(keys, len(rows) - limit)[len(rows) - limit]
            kept = keys >= oldest
            rows, keys = rows[kept], keys[kept]
        return rows[np.lexsort((self.added[rows], keys))[::-1]][:limit]

    def order(self, similarities: NDArray[np.floating[Any]], rows: Rows) -> NDArray[np.intp]:
        """Return the positions that sort the rows by similarity, highest first; ties put the newest first."""
        return np.lexsort((self.added[rows], self.times[rows], similarities))[::-1]

    def places_at(self, rows: Sequence[int | None]) -> list[int]:
        """Return the places of the rows' items in the order of adding; -1 where there is no row."""
        places = iter(self.added[[row for row in rows if row is not None]].tolist())
        return [-1 if row is None else next(places) for row in rows]

    def zero_rows(self, rows: Rows | None, height: int) -> NDArray[np.bool_] | None:
        """Return a mask of the rows (None: all below ``height``) with the zero vector; None if no row has it."""
        if not self._zero_count:
            return None
        return self._zero[:height] if rows is None else self._zero[rows]

    def blank_rows(self, rows: Rows | None, height: int) -> NDArray[np.bool_] | None:
        """Return a mask of the rows (None: all below ``height``) without text; None if every row has some."""
        if not self._blank_count:
            return None
        return self._blank[:height] if rows is None else self._blank[rows]

    def all_rows(self) -> Rows | None:
        """Return the rows in use, or None if that is every row up to the height."""
        if not self._free:
            return None
        return np.flatnonzero(self._used[: self.height]).astype(np.int32)
