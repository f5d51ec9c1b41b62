"""Ranked search: candidates from the indexes, ranked by the core's own functions, on a thread that reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from recollect.items import MemoryItem
from recollect.query import Filter
from recollect.ranked import RankedItem
from recollect.ranking import Weights, rank_text
from recollect.sql import Statements
from recollect_sqlite.candidates import Candidates, Gatherer


def rank_by_words(
    connection: sqlite3.Connection,
    statements: Statements,
    query: str,
    wanted: Filter,
    limit: int,
    types: Mapping[str, type[MemoryItem]],
    weights: Weights | None,
) -> list[RankedItem]:
    """Return the items that answer the query best by their words."""
    weights = weights or Weights()
    # Neighbours count whatever their type and status, so these filters come after the ranking.
    scope = Filter(metadata=wanted.metadata, archived=wanted.archived)
    connection.execute("BEGIN")  # One snapshot for all that is read.
    try:
        candidates = Gatherer(connection, statements, scope, types, weights.reach).gather(query)
    finally:
        connection.execute("COMMIT")
    return _ranked(query, candidates, wanted, limit, weights)


def _ranked(query: str, candidates: Candidates, wanted: Filter, limit: int, weights: Weights) -> list[RankedItem]:
    ranked = []
    for scored in rank_text(
        query, candidates.windows, total=candidates.total, frequencies=candidates.frequencies, weights=weights
    ):
        item = candidates.items[scored.key]
        if wanted.matches(item):
            ranked.append(RankedItem(item, scored.score, scored.parts, scored.terms))
            if len(ranked) == limit:
                break
    return ranked
