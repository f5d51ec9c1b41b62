"""Ranked search: candidates from the indexes, ranked by the core's own functions, on a thread that reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from memoranda.errors import NoVectorsError, OtherModelError, StoreUnavailableError
from memoranda.store import RankedItem, SearchMode
from memoranda.store.backend import Filter
from memoranda_ranking import (
    HEARD,
    Scored,
    Weights,
    gather,
    gathered,
    likeness,
    query_without_names,
    rank_hybrid,
    taking_part,
)
from memoranda_sql import Parameters
from memoranda_sqlite.candidates import CandidateSource
from memoranda_sqlite.connections import Connections
from memoranda_sqlite.faults import Undecodable
from memoranda_sqlite.matrices import Matrices, Similarities
from memoranda_sqlite.passages import Passages, Types, items_of
from memoranda_sqlite.scope_rows import ScopeCache, ScopeRows
from memoranda_sqlite.statements import SQLiteStatements
from memoranda_sqlite.tables import TABLE
from memoranda_sqlite.vectors import Vectors, stored_model

_MOST_WAITING = 2_000
"""How many rows may wait for the text index when a ranked search begins: it reads the terms of all of them itself."""


class Retrieval:
    """Ranks for one store."""

    def __init__(self, statements: SQLiteStatements, weights: Weights | None, vectors: Vectors | None) -> None:
        self._statements = statements
        self._weights = weights or Weights() if vectors is None else vectors.weights
        self._vectors = vectors
        self._passages = Passages()
        self._matrices = Matrices(0 if vectors is None else vectors.dimension)
        self._scopes = ScopeCache()

    def forget(self) -> None:
        """Drop all caches: they may hold purged content."""
        self._passages.forget()
        self._matrices.forget()
        self._scopes.forget()

    async def rank(
        self, connections: Connections, query: str, wanted: Filter, limit: int, mode: SearchMode, types: Types
    ) -> list[RankedItem]:
        """Return the items that answer the query best, by the means that a mode names."""
        if connections.filler.waiting > _MOST_WAITING:
            with suppress(StoreUnavailableError):  # A full disk or a locked file can still be read.
                await connections.filler.finish()
        else:
            connections.filler.searched()
        ranked = {"text": self.by_words, "semantic": self.by_meaning, "hybrid": self.by_words_and_meaning}[mode]
        return await ranked(connections, query, wanted, limit, types)

    async def by_words(
        self, connections: Connections, query: str, wanted: Filter, limit: int, types: Types
    ) -> list[RankedItem]:
        """Return the items that answer the query best by their words."""

        def work(connection: sqlite3.Connection) -> list[RankedItem]:
            with _snapshot(connection):
                return self._ranked(connection, query, None, wanted, limit, types)

        return await connections.read(work)

    async def by_words_and_meaning(
        self, connections: Connections, query: str, wanted: Filter, limit: int, types: Types
    ) -> list[RankedItem]:
        """Return the items that answer the query best by their words and their meaning."""
        vector, unrelated = await self._query_vector(connections, query, wanted)

        def work(connection: sqlite3.Connection) -> list[RankedItem]:
            with _snapshot(connection):
                alike = self._alike(connection, wanted.scope(), vector)
                return self._ranked(connection, query, alike, wanted, limit, types, unrelated)

        return await connections.read(work)

    async def by_meaning(
        self, connections: Connections, query: str, wanted: Filter, limit: int, types: Types
    ) -> list[RankedItem]:
        """Return the items whose vectors are most like the query's."""
        vector, unrelated = await self._query_vector(connections, query, wanted)

        def work(connection: sqlite3.Connection) -> list[RankedItem]:
            with _snapshot(connection):
                alike = self._alike(connection, wanted, vector)
                numbers = alike.nearest(limit)
                found = alike.similarities({number: number for number in numbers})
                items = items_of(connection, numbers, types)
            scores = {number: likeness(similarity, unrelated) for number, similarity in found.items()}
            return [
                RankedItem(
                    items[number],
                    scores[number],
                    {"semantic": scores[number]},
                    passage=alike.passage(number, items[number].content),
                )
                for number in numbers
                if number in items
            ]

        return await connections.read(work)

    def _alike(self, connection: sqlite3.Connection, wanted: Filter, vector: Sequence[float]) -> Similarities:
        return self._matrices.of(connection, self._statements, wanted).compared(vector, self._weights.damping)

    async def _query_vector(
        self, connections: Connections, query: str, wanted: Filter
    ) -> tuple[Sequence[float], float]:
        vectors = self._vectors
        assert vectors is not None, "a mode without its capability is refused before"

        def work(connection: sqlite3.Connection) -> tuple[str | None, set[str]]:
            return stored_model(connection), self._speakers(connection, query, wanted.scope())

        model, speakers = await connections.read(work)
        if model is None:  # No embedder has opened it to write yet.
            raise NoVectorsError(f"The SQLite file {connections.database.path!r}")
        if model != vectors.model:
            raise OtherModelError(f"The SQLite file {connections.database.path!r}", model, vectors.model)
        return await vectors.query_vector(query_without_names(query, speakers))

    def _speakers(self, connection: sqlite3.Connection, query: str, scope: Filter) -> set[str]:
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, scope)
        text = (
            f"SELECT CASE WHEN json_valid(extra_json) THEN json_extract(extra_json, '$.name') END, "
            f"substr(content, 1, 80) FROM (SELECT extra_json, content FROM {TABLE} WHERE {where} "
            f"ORDER BY created_us DESC, rowid DESC LIMIT {HEARD})"
        )
        rows = connection.execute(text, parameters.values)
        named = [row for row in rows if Undecodable not in map(type, row)]
        return taking_part(query, [(name, str(beginning)) for name, beginning in named])

    def _ranked(
        self,
        connection: sqlite3.Connection,
        query: str,
        alike: Similarities | None,
        wanted: Filter,
        limit: int,
        types: Types,
        unrelated: float = 0.0,
    ) -> list[RankedItem]:
        """Return the best items; ``alike`` says how alike in meaning each row is, where that counts."""
        scope = wanted.scope()
        rows = ScopeRows(connection, self._statements, scope, self._scopes)
        source = CandidateSource(
            rows, self._passages, wanted, lambda most: [] if alike is None else alike.nearest(most)
        )
        filtered = wanted != scope
        gathering = gather(query, self._weights, limit, filtered=filtered, meaning=alike is not None)
        candidates = gathered(gathering, source.answer)
        numbers = source.numbers
        scored = rank_hybrid(
            query,
            candidates.windows,
            {} if alike is None else alike.similarities(numbers),
            total=candidates.total,
            frequencies=candidates.frequencies,
            weights=self._weights,
            limit=None if filtered else limit,
            nearest=None if alike is None else lambda passage: alike.passage(numbers[passage.key], passage.text),
            unrelated=unrelated,
        )
        return _items(connection, scored, numbers, wanted, limit, types)


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Read everything from one state of the file."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


def _items(
    connection: sqlite3.Connection,
    scored: Sequence[Scored],
    numbers: Mapping[str, int],
    wanted: Filter,
    limit: int,
    types: Types,
) -> list[RankedItem]:
    """Return the first ``limit`` that match, reading no more rows than that takes."""
    ranked: list[RankedItem] = []
    sought = wanted.sought()  # They are of the scope.
    step = max(min(limit, 500), 50)
    for start in range(0, len(scored), step):
        part = scored[start : start + step]
        items = items_of(connection, [numbers[found.key] for found in part], types)
        for found in part:
            item = items.get(numbers[found.key])
            if item is not None and sought.matches(item):
                ranked.append(found.ranked(item))
                if len(ranked) == limit:
                    return ranked
    return ranked
