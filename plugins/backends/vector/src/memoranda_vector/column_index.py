"""An index of one column: the rows of each value, for scopes, types and speakers."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoranda.store.backend import OfUsers

Rows = NDArray[np.int32]

NONE = -1
"""The code of a row that has no value."""

UNKNOWN = -2
"""The code of a value that no row has."""

_FEW = 8
"""Up to this many rows are removed from a value's list one by one."""

_BYTES = np.dtype(np.int32).itemsize


class ColumnIndex:
    """One field of all rows, indexed both ways: the code of each row's value, and the rows of each value.

    A value that no row has any more is dropped. The rows of a value come in no particular order.
    """

    def __init__(self) -> None:
        self.codes: Rows = np.full(0, NONE, dtype=np.int32)
        self._positions: Rows = np.zeros(0, dtype=np.int32)
        self._code_of: dict[Hashable, int] = {}
        self._rows_of: dict[int, tuple[Hashable, array[int]]] = {}
        self._next_code = 0

    def grow(self, capacity: int) -> None:
        """Make room for this many rows."""
        added = capacity - len(self.codes)
        self.codes = np.concatenate([self.codes, np.full(added, NONE, dtype=np.int32)])
        self._positions = np.concatenate([self._positions, np.zeros(added, dtype=np.int32)])

    def add(self, row: int, value: Hashable) -> None:
        """Set the value of a row that has none."""
        code = self._code_of.get(value)
        if code is None:
            code = self._coded(value)
        rows = self._rows_of[code][1]
        self.codes[row] = code
        self._positions[row] = len(rows)
        rows.append(row)

    def add_many(self, rows: Rows, values: Sequence[Hashable | None], which: Rows) -> None:
        """Set the values of several rows that have none; ``which`` is the number of each row's value in ``values``."""
        coded = [NONE if value is None else self._coded(value) for value in values]
        codes = np.array(coded, dtype=np.int32)[which]
        self.codes[rows] = codes
        order = np.argsort(codes, kind="stable")
        ordered, listed = codes[order], np.ascontiguousarray(rows[order], dtype=np.int32)
        starts = np.flatnonzero(np.diff(ordered, prepend=NONE - 1))
        sizes = np.diff(starts, append=len(ordered))
        before = []
        written = memoryview(listed.tobytes())
        groups = zip(ordered[starts].tolist(), starts.tolist(), sizes.tolist(), strict=True)
        for code, start, size in groups:  # Kept short: a batch may have a value for every row.
            members = array("i") if code == NONE else self._rows_of[code][1]
            before.append(len(members))
            members.frombytes(written[start * _BYTES : (start + size) * _BYTES])
        self._positions[listed] = np.arange(len(listed)) + np.repeat(np.array(before, dtype=np.int64) - starts, sizes)

    def remove(self, row: int) -> None:
        """Remove the value of a row, if it has one."""
        code = int(self.codes[row])
        if code == NONE:
            return
        value, rows = self._rows_of[code]
        last = rows.pop()
        if last != row:
            position = int(self._positions[row])
            rows[position] = last
            self._positions[last] = position
        if not rows:
            del self._rows_of[code], self._code_of[value]
            self._on_unused_value(value)
        self.codes[row] = NONE

    def remove_many(self, rows: Rows) -> None:
        """Remove the values of several rows, if they have any."""
        rows = rows[self.codes[rows] != NONE]
        codes = self.codes[rows]
        order = np.argsort(codes, kind="stable")
        ordered, listed = codes[order], rows[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=NONE))
        sizes = np.diff(starts, append=len(ordered))
        for code, start, size in zip(ordered[starts].tolist(), starts.tolist(), sizes.tolist(), strict=True):
            value, members = self._rows_of[code]
            if size == len(members):
                del self._rows_of[code], self._code_of[value]
                self._on_unused_value(value)
            elif size <= _FEW:
                for row in listed[start : start + size].tolist():
                    self.remove(row)
            else:
                self._remove_some(members, listed[start : start + size])
        self.codes[rows] = NONE

    def _remove_some(self, members: array[int], gone: Rows) -> None:
        """Remove rows from a longer list: the last rows that stay move into the gaps."""
        left = len(members) - len(gone)
        self.codes[gone] = NONE
        listed = np.frombuffer(members, dtype=np.int32)
        tail = listed[left:]
        moved = tail[self.codes[tail] != NONE]
        holes = self._positions[gone]
        holes = holes[holes < left]
        listed[holes] = moved
        self._positions[moved] = holes
        del listed, tail  # An array cannot shrink while a buffer of it is open.
        del members[left:]

    def code(self, value: Hashable) -> int:
        """Return the code of a value, or ``UNKNOWN`` if no row has it."""
        return self._code_of.get(value, UNKNOWN)

    def rows(self, value: Hashable) -> Rows:
        """Return a copy of the rows that have the value."""
        code = self._code_of.get(value)
        if code is None:
            return np.empty(0, dtype=np.int32)
        return np.frombuffer(self._rows_of[code][1], dtype=np.int32).copy()

    def some_row(self, value: Hashable) -> int | None:
        """Return one of the rows that have the value."""
        code = self._code_of.get(value)
        return None if code is None else self._rows_of[code][1][-1]

    def count(self, value: Hashable) -> int:
        """Return how many rows have the value."""
        code = self._code_of.get(value)
        return 0 if code is None else len(self._rows_of[code][1])

    def value(self, code: int) -> Any:
        """Return the value of a code."""
        return self._rows_of[code][0]

    def values_by_code(self) -> dict[int, Any]:
        """Return every value that some row has, by its code."""
        return {code: value for value, code in self._code_of.items()}

    def _on_new_value(self, value: Any) -> None:
        """Handle a value that no row had before."""

    def _on_unused_value(self, value: Any) -> None:
        """Handle a value that no row has any more."""

    def _coded(self, value: Hashable) -> int:
        code = self._code_of.get(value)
        if code is None:
            code = self._code_of[value] = self._next_code
            self._rows_of[code] = (value, array("i"))
            self._next_code += 1
            self._on_new_value(value)
        return code


class UserIndex(ColumnIndex):
    """The users of all rows. It knows which of them are spaces without looking at the others."""

    def __init__(self) -> None:
        super().__init__()
        self._spaces: dict[Hashable, None] = {}

    @property
    def codes_of_spaces(self) -> list[int]:
        """The codes of spaces, and of the owner of grants."""
        return [self._code_of[space] for space in self._spaces]

    def _on_new_value(self, value: str) -> None:
        if value.startswith(OfUsers.prefix):
            self._spaces[value] = None

    def _on_unused_value(self, value: str) -> None:
        self._spaces.pop(value, None)


class NamespaceIndex(ColumnIndex):
    """The namespaces of all rows. It finds those below a place without reading the others."""

    def __init__(self) -> None:
        super().__init__()
        self._below: dict[tuple[str, ...], dict[tuple[str, ...], None]] = {}

    def below(self, place: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the namespaces at a place or below it."""
        return list(self._below.get(place, ()))

    def codes_below(self, place: tuple[str, ...]) -> list[int]:
        """Return the codes of a place and of all below it."""
        return [self._code_of[namespace] for namespace in self.below(place)]

    def count_below(self, place: tuple[str, ...]) -> int:
        """Return how many rows lie at a place or below it."""
        return sum(map(self.count, self.below(place)))

    def rows_below(self, place: tuple[str, ...]) -> Rows:
        """Return a copy of the rows at a place and below it."""
        found = [self.rows(namespace) for namespace in self.below(place)]
        return np.concatenate(found) if found else np.empty(0, dtype=np.int32)

    def _on_new_value(self, value: tuple[str, ...]) -> None:
        for depth in range(1, len(value) + 1):
            self._below.setdefault(value[:depth], {})[value] = None

    def _on_unused_value(self, value: tuple[str, ...]) -> None:
        for depth in range(1, len(value) + 1):
            namespaces = self._below[value[:depth]]
            del namespaces[value]
            if not namespaces:
                del self._below[value[:depth]]
