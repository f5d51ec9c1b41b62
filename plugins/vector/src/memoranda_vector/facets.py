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

UNKNOWN = -2
"""The code of a value that no row has."""

_FEW = 8
"""Up to how many rows leave a value's list one by one."""

_BYTES = np.dtype(np.int32).itemsize


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

    def add(self, row: int, value: Hashable) -> None:
        """Give a row that has none its value."""
        code = self._code_of.get(value)
        if code is None:
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
        ordered, listed = codes[order], np.ascontiguousarray(rows[order], dtype=np.int32)
        starts = np.flatnonzero(np.diff(ordered, prepend=NONE - 1))
        sizes = np.diff(starts, append=len(ordered))
        before = []
        written = memoryview(listed.tobytes())
        groups = zip(ordered[starts].tolist(), starts.tolist(), sizes.tolist(), strict=True)
        for code, start, size in groups:  # As little as can be for each: a batch may have a value for every row.
            members = array("i") if code == NONE else self._rows_of[code][1]
            before.append(len(members))
            members.frombytes(written[start * _BYTES : (start + size) * _BYTES])
        self._places[listed] = np.arange(len(listed)) + np.repeat(np.array(before, dtype=np.int64) - starts, sizes)

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
            self._went(value)
        self.codes[row] = NONE

    def remove_many(self, rows: Rows) -> None:
        """Take the values of several rows away, if they have any."""
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
                self._went(value)
            elif size <= _FEW:
                for row in listed[start : start + size].tolist():
                    self.remove(row)
            else:
                self._leave(members, listed[start : start + size])
        self.codes[rows] = NONE

    def _leave(self, members: array[int], gone: Rows) -> None:
        """Take rows out of a value's list, which has more: the last ones that stay move to their places."""
        left = len(members) - len(gone)
        self.codes[gone] = NONE
        listed = np.frombuffer(members, dtype=np.int32)
        tail = listed[left:]
        moved = tail[self.codes[tail] != NONE]
        holes = self._places[gone]
        holes = holes[holes < left]
        listed[holes] = moved
        self._places[moved] = holes
        del listed, tail  # An array that is looked at cannot be cut.
        del members[left:]

    def code(self, value: Hashable) -> int | None:
        """Return the number that stands for a value, or None if no row has it."""
        return self._code_of.get(value)

    def code_or_unknown(self, value: Hashable) -> int:
        """Return the number that stands for a value, or one that stands for none."""
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
        """Return the value that a number stands for."""
        return self._rows_of[code][0]

    def values(self) -> list[Any]:
        """Return every value that some row has."""
        return list(self._code_of)

    def coded_values(self) -> dict[int, Any]:
        """Return every value that some row has, by the number that stands for it."""
        return {code: value for value, code in self._code_of.items()}

    def _came(self, value: Any) -> None:
        """Take note that some row has a value that none had."""

    def _went(self, value: Any) -> None:
        """Take note that no row has a value any more."""

    def _coded(self, value: Hashable) -> int:
        code = self._code_of.get(value)
        if code is None:
            code = self._code_of[value] = self._next_code
            self._rows_of[code] = (value, array("i"))
            self._next_code += 1
            self._came(value)
        return code


class PlaceFacet(Facet):
    """The namespaces of all rows. It knows which of them lie below a place without looking at the others."""

    def __init__(self) -> None:
        super().__init__()
        self._below: dict[tuple[str, ...], dict[tuple[str, ...], None]] = {}

    def below(self, place: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the namespaces that are a place or lie below it."""
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

    def _came(self, value: tuple[str, ...]) -> None:
        for depth in range(1, len(value) + 1):
            self._below.setdefault(value[:depth], {})[value] = None

    def _went(self, value: tuple[str, ...]) -> None:
        for depth in range(1, len(value) + 1):
            namespaces = self._below[value[:depth]]
            del namespaces[value]
            if not namespaces:
                del self._below[value[:depth]]
