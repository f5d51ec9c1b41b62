"""The vectors of a scope as one matrix, kept between searches for as long as the file does not change."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from functools import cached_property
from heapq import nlargest
from itertools import accumulate, pairwise
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
        self.starts: list[int] | None = None
        """Where the vectors of each row begin, and where the last ones end; None where each row has one."""
        if self.size != len(rows) * width:
            self.starts = [0, *accumulate(len(vector) // width for _, vector in rows)]
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

    @cached_property
    def places(self) -> dict[int, int]:
        """Where each row stands, by its number."""
        return dict(zip(self.numbers, range(len(self.numbers)), strict=True))

    def compared(self, vector: Sequence[float], damping: float) -> Alike:
        """Return how alike each row is: as much as its nearest passage, held back for having many."""
        if self._matrix is None:
            return Alike(self, cosines(vector, self._packed), damping)
        import numpy

        product = self._matrix @ numpy.asarray(normalised(vector), dtype=numpy.float32)
        return ManyAlike(self, product, damping)


class Alike:
    """How alike in meaning the rows of a matrix are, and which passage of each is the nearest."""

    def __init__(self, matrix: Matrix, cosines: Any, damping: float) -> None:
        self._matrix = matrix
        self._cosines = cosines
        self._similarities = cosines if matrix.starts is None else self._held_back(matrix.starts, damping)

    def _held_back(self, starts: list[int], damping: float) -> Any:
        """Return the similarity of each row, of which some have several vectors."""
        return [held_back(max(self._cosines[at:end]), end - at, damping) for at, end in pairwise(starts)]

    def nearest(self, most: int) -> list[int]:
        """Return the numbers of the most similar rows, best first; of equal ones the last added first."""
        return [number for _, number in nlargest(most, self._by_similarity(most))]

    def _by_similarity(self, most: int) -> Iterable[tuple[float, int]]:
        """Return rows, at least the most similar ones: how alike each is, and its number."""
        return zip(self._similarities, self._matrix.numbers, strict=True)

    def similarities(self, numbers: Iterable[int]) -> dict[int, float]:
        """Return how alike each of these rows is that has a vector."""
        places = self._matrix.places
        return {number: float(self._similarities[places[number]]) for number in numbers if number in places}

    def passage(self, number: int, content: str) -> str:
        """Return the passage of a row by which it is alike; the empty text where it has only one."""
        starts, place = self._matrix.starts, self._matrix.places.get(number)
        if starts is None or place is None or starts[place + 1] - starts[place] == 1:
            return ""
        found = list(self._cosines[starts[place] : starts[place + 1]])
        return passage_at(content, found.index(max(found)), len(found))


class ManyAlike(Alike):
    """The same of an array of numpy, which is sifted before any number of it becomes one of Python's."""

    def _held_back(self, starts: list[int], damping: float) -> Any:
        import numpy

        counts = numpy.diff(starts)
        # Python's powers and numpy's may differ in the last digit, and scores are the same on every machine.
        powers = numpy.array([1.0, *(count**damping for count in range(1, int(counts.max()) + 1))])
        return numpy.maximum.reduceat(self._cosines, starts[:-1]) / powers[counts]

    def _by_similarity(self, most: int) -> Iterable[tuple[float, int]]:
        import numpy

        found, numbers = self._similarities, self._matrix.numbers
        if most < len(found):
            least = numpy.partition(found, len(found) - most)[len(found) - most]
            return [(float(found[place]), numbers[place]) for place in numpy.flatnonzero(found >= least).tolist()]
        return zip(found.tolist(), numbers, strict=True)


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
