"""The vectors of a scope as one matrix, cached between searches and updated with what has changed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import accumulate, pairwise
from typing import Any, TypeVar

from memoranda.store.backend import Filter
from memoranda_ranking import held_back, passage_at
from memoranda_sql import Parameters, Statements
from memoranda_sqlite.ranking_cache import RankingCache
from memoranda_sqlite.tables import TABLE
from memoranda_sqlite.vector_rows import AnyVectors, vectors_of

MOST_BYTES = 256 << 20
"""The size of the cache. A scope with more vectors is cached too, and then alone."""

_MOST_GONE = 8
"""One in how many rows of a matrix may be gone from the scope before all are read again."""

_FLOAT32_BYTES = 4

K = TypeVar("K")


class Matrix:
    """The vectors of some rows, one product for all of them with numpy.

    A row of several passages has their vectors one after the other. The old vectors of a changed row stay where they
    are: such places are ``gone``, and no longer count.
    """

    def __init__(
        self,
        numbers: list[int],
        counts: list[int],
        vectors: AnyVectors,
        places: dict[int, int],
        gone: frozenset[int] = frozenset(),
    ) -> None:
        self.numbers = numbers
        self.places = places
        """Where each row stands, by its number."""
        self.gone = gone
        self._counts = counts
        self._vectors = vectors
        self.starts = None if len(vectors) == len(numbers) else [0, *accumulate(counts)]
        """Where the vectors of each row begin, and where the last ones end; None where each row has one."""

    @classmethod
    def of(cls, rows: Sequence[tuple[int, bytes]], dimension: int) -> Matrix:
        """Return the matrix of rows: their numbers and their vectors."""
        vectors = vectors_of(dimension, [vector for _, vector in rows])
        numbers = [number for number, _ in rows]
        return cls(numbers, _counts(rows, dimension), vectors, {number: at for at, number in enumerate(numbers)})

    def followed(self, changed: Collection[int], rows: Sequence[tuple[int, bytes]], dimension: int) -> Matrix | None:
        """Return the matrix with these rows instead of those that changed; None if too many are gone."""
        places = dict(self.places)
        gone = self.gone.union(places.pop(number) for number in changed if number in places)
        if _MOST_GONE * len(gone) > len(self.numbers):
            return None
        vectors = self._vectors.followed_by([vector for _, vector in rows])
        numbers = [*self.numbers, *(number for number, _ in rows)]
        places.update((numbers[at], at) for at in range(len(self.numbers), len(numbers)))
        return Matrix(numbers, [*self._counts, *_counts(rows, dimension)], vectors, places, gone)

    @property
    def size(self) -> int:
        """How many bytes the vectors take."""
        return self._vectors.size

    def compared(self, vector: Sequence[float], damping: float) -> Similarities:
        """Return the similarity of each row: that of its nearest passage, damped for rows with many."""
        cosines = self._vectors.cosines(vector)
        return (Similarities if isinstance(cosines, list) else ArraySimilarities)(self, cosines, damping)


def _counts(rows: Iterable[tuple[int, bytes]], dimension: int) -> list[int]:
    """Return how many vectors each row has."""
    return [len(vector) // (dimension * _FLOAT32_BYTES) for _, vector in rows]


class Similarities:
    """The similarity of the rows of a matrix to a query, and the nearest passage of each."""

    def __init__(self, matrix: Matrix, cosines: Any, damping: float) -> None:
        self._matrix = matrix
        self._cosines = cosines
        self._similarities = cosines if matrix.starts is None else self._held_back(matrix.starts, damping)

    def _held_back(self, starts: list[int], damping: float) -> Any:
        """Return the similarity of each row; some have several vectors."""
        return [held_back(max(self._cosines[at:end]), end - at, damping) for at, end in pairwise(starts)]

    def nearest(self, most: int) -> list[int]:
        """Return the numbers of the most similar rows, best first; of equal ones the last added first."""
        return [number for _, number in nlargest(most, self._by_similarity(most))]

    def _by_similarity(self, most: int) -> Iterable[tuple[float, int]]:
        """Return the similarity and the number of rows, at least of the most similar ones."""
        gone = self._matrix.gone
        found = zip(self._similarities, self._matrix.numbers, strict=True)
        return (each for place, each in enumerate(found) if place not in gone)

    def similarities(self, numbers: Mapping[K, int]) -> dict[K, float]:
        """Return the similarity of each of these rows that has a vector, by their keys."""
        known = self._matrix.places
        places = {key: known[number] for key, number in numbers.items() if number in known}
        return dict(zip(places, self._at(list(places.values())), strict=True))

    def _at(self, places: list[int]) -> Sequence[float]:
        return [self._similarities[place] for place in places]

    def passage(self, number: int, content: str) -> str:
        """Return the nearest passage of a row; an empty text if it has only one."""
        starts, place = self._matrix.starts, self._matrix.places.get(number)
        if starts is None or place is None or starts[place + 1] - starts[place] == 1:
            return ""
        found = list(self._cosines[starts[place] : starts[place + 1]])
        return passage_at(content, found.index(max(found)), len(found))


class ArraySimilarities(Similarities):
    """The same for a numpy array, which is filtered before its numbers become Python's."""

    def _held_back(self, starts: list[int], damping: float) -> Any:
        import numpy

        counts = numpy.diff(starts)
        # Python's powers and numpy's may differ in the last digit, and scores are the same on every machine.
        powers = numpy.array([1.0, *(count**damping for count in range(1, int(counts.max()) + 1))])
        return numpy.maximum.reduceat(self._cosines, starts[:-1]) / powers[counts]

    def _at(self, places: list[int]) -> Sequence[float]:
        found: list[float] = self._similarities[places].tolist()
        return found

    def _by_similarity(self, most: int) -> Iterable[tuple[float, int]]:
        import numpy

        found, numbers, gone = self._similarities, self._matrix.numbers, self._matrix.gone
        most += len(gone)
        if most >= len(found):
            return super()._by_similarity(most)
        least = numpy.partition(found, len(found) - most)[len(found) - most]
        places = [place for place in numpy.flatnonzero(found >= least).tolist() if place not in gone]
        return [(float(found[place]), numbers[place]) for place in places]


class Matrices:
    """Matrices by scope."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._kept: RankingCache[Matrix] = RankingCache(MOST_BYTES)

    def forget(self) -> None:
        """Drop everything: it may hold purged content."""
        self._kept.forget()

    def of(self, connection: sqlite3.Connection, statements: Statements, wanted: Filter) -> Matrix:
        """Return the vectors of the rows that match; of those that were read before, only what has changed is read."""

        def rows(condition: str = "", *values: object) -> list[tuple[int, bytes]]:
            parameters = Parameters(statements.dialect)
            where = statements.conditions(parameters, wanted)
            text = (
                f"SELECT number, vector FROM (SELECT rowid AS number, version FROM {TABLE} {condition} {where}) "
                f"JOIN memoranda_vectors ON item = number AND item_version = version"
            )
            return connection.execute(text, (*values, *parameters.values)).fetchall()

        def read() -> tuple[Matrix, int]:
            matrix = Matrix.of(rows("WHERE"), self._dimension)
            return matrix, matrix.size

        def follow(matrix: Matrix, changed: set[int]) -> tuple[Matrix, int] | None:
            now = rows("NOT INDEXED WHERE rowid IN (SELECT value FROM json_each(?)) AND", json.dumps(list(changed)))
            followed = matrix.followed(changed, now, self._dimension)
            return None if followed is None else (followed, followed.size)

        return self._kept.of(connection, statements, wanted, read, follow)
