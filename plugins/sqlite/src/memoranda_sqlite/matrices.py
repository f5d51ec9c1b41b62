"""The vectors of a scope as one matrix, kept between searches for as long as the file does not change."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from memoranda.ranking import cosines, held_back, normalised, passage_at
from memoranda.sql import Parameters, Statements
from memoranda.store import Filter
from memoranda_sqlite.keeping import Kept
from memoranda_sqlite.schema import TABLE

MOST_BYTES = 256 << 20
"""How much is kept in all."""

_FLOAT32_BYTES = 4


class Matrix:
    """The vectors of some rows. With numpy one product compares them all; without, each is compared by itself.

    A row of several passages has the vectors of these one behind the other.
    """

    def __init__(self, rows: Sequence[tuple[int, bytes]], dimension: int) -> None:
        self.numbers = [number for number, _ in rows]
        self.size = sum(len(vector) for _, vector in rows)
        width = dimension * _FLOAT32_BYTES
        self._packed: list[bytes] = []
        self._matrix: Any = None
        self._starts: list[int] | None = None
        if self.size != len(rows) * width:
            self._starts = [0, *accumulate(len(vector) // width for _, vector in rows)][:-1]
        vectors = [vector for _, vector in rows]
        try:
            import numpy
        except ImportError:
            self._packed = [
                vector[start : start + width] for vector in vectors for start in range(0, len(vector), width)
            ]
            return
        if vectors:
            self._matrix = numpy.frombuffer(b"".join(vectors), dtype="<f4").reshape(-1, dimension)

    def compared(self, vector: Sequence[float], damping: float) -> Alike:
        """Return how alike each row is: as much as its nearest passage, held back for having many."""
        if self._matrix is None:
            return Alike(self.numbers, cosines(vector, self._packed), self._starts, damping)
        import numpy

        product = self._matrix @ numpy.asarray(normalised(vector), dtype=numpy.float32)
        return Alike(self.numbers, product.tolist(), self._starts, damping)


class Alike:
    """How alike in meaning rows are, by their numbers, and which passage of each is the nearest."""

    def __init__(self, numbers: list[int], cosines: list[float], starts: list[int] | None, damping: float) -> None:
        self._cosines = cosines
        self._spans: dict[int, tuple[int, int]] = {}
        if starts is None:
            self.similarities = dict(zip(numbers, cosines, strict=True))
            return
        spans = zip(starts, [*starts[1:], len(cosines)], strict=True)
        self._spans = dict(zip(numbers, spans, strict=True))
        self.similarities = {
            number: held_back(max(cosines[start:end]), end - start, damping)
            for number, (start, end) in self._spans.items()
        }

    def passage(self, number: int, content: str) -> str:
        """Return the passage of a row by which it is alike; the empty text where it has only one."""
        start, end = self._spans.get(number, (0, 1))
        if end - start == 1:
            return ""
        found = self._cosines[start:end]
        return passage_at(content, found.index(max(found)), len(found))


class Matrices:
    """Matrices by connection and scope."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._kept: Kept[Matrix] = Kept(MOST_BYTES)

    def forget(self) -> None:
        """Keep nothing of what may have been purged."""
        self._kept.forget()

    def of(self, connection: sqlite3.Connection, statements: Statements, wanted: Filter) -> Matrix:
        """Return the vectors of the rows that match; read again if anything was written since."""

        def read() -> tuple[Matrix, int]:
            parameters = Parameters(statements.dialect)
            where = statements.conditions(parameters, wanted)
            text = (
                f"SELECT number, vector FROM (SELECT rowid AS number, version FROM {TABLE} WHERE {where}) "
                f"JOIN memoranda_vectors ON item = number AND item_version = version"
            )
            matrix = Matrix(connection.execute(text, parameters.values).fetchall(), self._dimension)
            return matrix, matrix.size

        return self._kept.of(connection, statements, wanted, read)
