"""Ranked search: candidates from the indexes, ranked by the core's own functions, on a thread that reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from recollect.query import Filter
from recollect.ranked import RankedItem
from recollect.ranking import Scored, Weights, rank_text
from recollect.sql import Statements
from recollect_sqlite.candidates import Candidates, Gatherer
from recollect_sqlite.passages import Passages, Types, items_of


class Retrieval:
    """Ranks for one store. Every method runs on a thread, with a connection that reads."""

    def __init__(self, statements: Statements, weights: Weights | None) -> None:
        self._statements = statements
        self._weights = weights or Weights()
        self._passages = Passages()

    def forget(self) -> None:
        """Keep nothing of what was purged."""
        self._passages.forget()

    def by_words(
        self, connection: sqlite3.Connection, query: str, wanted: Filter, limit: int, types: Types
    ) -> list[RankedItem]:
        """Return the items that answer the query best by their words."""
        connection.execute("BEGIN")  # One snapshot for all that is read.
        try:
            candidates = self._candidates(connection, query, wanted, types)
            # Neighbours count whatever their type and status, so these filters come after the ranking.
            filtered = wanted.memory_type is not None or wanted.status is not None
            scored = rank_text(
                query,
                candidates.windows,
                total=candidates.total,
                frequencies=candidates.frequencies,
                weights=self._weights,
                limit=None if filtered else limit,
            )
            return _items(connection, scored, candidates, wanted, limit, types)
        finally:
            connection.execute("COMMIT")

    def _candidates(self, connection: sqlite3.Connection, query: str, wanted: Filter, types: Types) -> Candidates:
        scope = Filter(metadata=wanted.metadata, archived=wanted.archived)
        gatherer = Gatherer(connection, self._statements, scope, self._passages, types, self._weights.reach)
        return gatherer.gather(query)


def _items(
    connection: sqlite3.Connection,
    scored: Sequence[Scored],
    candidates: Candidates,
    wanted: Filter,
    limit: int,
    types: Types,
) -> list[RankedItem]:
    """Return the first ``limit`` that match, reading no more rows than that takes."""
    ranked: list[RankedItem] = []
    step = max(min(limit, 500), 50)
    for start in range(0, len(scored), step):
        part = scored[start : start + step]
        items = items_of(connection, [candidates.numbers[found.key] for found in part], types)
        for found in part:
            item = items.get(found.key)
            if item is not None and wanted.matches(item):
                ranked.append(RankedItem(item, found.score, found.parts, found.terms))
                if len(ranked) == limit:
                    return ranked
    return ranked
