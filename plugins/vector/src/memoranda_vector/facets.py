"""Which rows have a value: the index behind every scope, type and speaker."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int32]

NONE = -1
"""The code of a row that has no value."""


class Facet:
    """One field of all rows, indexed both ways: each row's value as a number, and the rows of each value.

    Values that no row has any more are forgotten. Rows of a value come in no particular order.
    """

    def __init__(self) -> None:
        self.codes: Rows = np.full(0, NONE, dtype=np.int32)
        self._places: Rows = np.zeros(0, dtype=np.int32)
        self._code_of: dict[Hashable, int] = {}
        self._rows_of: dict[int, tuple[Hashable, array[int]]] = {}
        self._next_code = 0

    def grow(self, capacity: int) -> None:
        """Make room for this many rows."""
        added = capacity - len(self.codes)
        self.codes = np.concatenate([self.codes, np.full(added, NONE, dtype=np.int32)])
        self._places = np.concatenate([self._places, np.zeros(added, dtype=np.int32)])

    def add(self, row: int, value: Hashable | None) -> None:
        """Give a row that has none its value."""
        if value is None:
            return
        code = self._coded(value)
        rows = self._rows_of[code][1]
        self.codes[row] = code
        self._places[row] = len(rows)
        rows.append(row)

    def add_many(self, rows: Rows, values: Sequence[Hashable | None], which: Rows) -> None:
        """Give several rows that have none their values: to each the one of the given values that ``which`` says."""
        coded = [NONE if value is None else self._coded(value) for value in values]
        codes = np.array(coded, dtype=np.int32)[which]
        self.codes[rows] = codes
        order = np.argsort(codes, kind="stable")
        ordered = codes[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=NONE - 1))
        for start, end in zip(starts, [*starts[1:], len(ordered)], strict=True):
            if ordered[start] != NONE:
                members = self._rows_of[int(ordered[start])][1]
                group = np.ascontiguousarray(rows[order[start:end]], dtype=np.int32)
                self._places[group] = np.arange(len(members), len(members) + len(group), dtype=np.int32)
                members.frombytes(group.tobytes())

    def remove(self, row: int) -> None:
        """Take a row's value away, if it has one."""
        code = int(self.codes[row])
        if code == NONE:
            return
        value, rows = self._rows_of[code]
        last = rows.pop()
        if last != row:
            place = int(self._places[row])
            rows[place] = last
            self._places[last] = place
        if not rows:
            del self._rows_of[code], self._code_of[value]
        self.codes[row] = NONE

    def code(self, value: Hashable) -> int | None:
        """Return the number that stands for a value, or None if no row has it."""
        return self._code_of.get(value)

    def rows(self, value: Hashable) -> Rows:
        """Return a copy of the rows that have the value."""
        code = self._code_of.get(value)
        if code is None:
            return np.empty(0, dtype=np.int32)
        return np.frombuffer(self._rows_of[code][1], dtype=np.int32).copy()

    def count(self, value: Hashable) -> int:
        """Return how many rows have the value."""
        code = self._code_of.get(value)
        return 0 if code is None else len(self._rows_of[code][1])

    def value(self, code: int) -> Any:
        """Return the value that a number stands for."""
        return self._rows_of[code][0]

    def values(self) -> list[Any]:
        """Return every value that some row has."""
        return list(self._code_of)

    def _coded(self, value: Hashable) -> int:
        code = self._code_of.get(value)
        if code is None:
            code = self._code_of[value] = self._next_code
            self._rows_of[code] = (value, array("i"))
            self._next_code += 1
        return code
