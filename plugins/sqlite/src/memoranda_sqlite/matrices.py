"""The vectors of a scope as one matrix, kept between searches for as long as the file does not change."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from memoranda.ranking import cosines, normalised
from memoranda.sql import Parameters, Statements
from memoranda.store import Filter
from memoranda_sqlite.keeping import Kept
from memoranda_sqlite.schema import TABLE

MOST_BYTES = 256 << 20
"""How much is kept in all."""


class Matrix:
    """The vectors of some rows. With numpy one product compares them all; without, each is compared by itself."""

    def __init__(self, rows: Sequence[tuple[int, bytes]]) -> None:
        self.numbers = [number for number, _ in rows]
        self._packed: list[bytes] = []
        self._matrix: Any = None
        self.size = sum(len(vector) for _, vector in rows)
        vectors = [vector for _, vector in rows]
        try:
            import numpy
        except ImportError:
            self._packed = vectors
            return
        if vectors:
            self._matrix = numpy.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), -1)

    def similarities(self, vector: Sequence[float]) -> dict[int, float]:
        """Return how alike each row's vector is, by the rows' numbers."""
        if self._matrix is None:
            return dict(zip(self.numbers, cosines(vector, self._packed), strict=True))
        import numpy

        product = self._matrix @ numpy.asarray(normalised(vector), dtype=numpy.float32)
        return dict(zip(self.numbers, product.tolist(), strict=True))


class Matrices:
    """Matrices by connection and scope."""

    def __init__(self) -> None:
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
            matrix = Matrix(connection.execute(text, parameters.values).fetchall())
            return matrix, matrix.size

        return self._kept.of(connection, statements, wanted, read)
