"""Substring search: candidates from the trigram index, checked against the rows; or the rows themselves.

Both ways give the same answer. Which one is taken decides only how long it takes: never much longer than reading the
scope, however much others store.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from typing import Any

from memoranda.sql import ITEM_COLUMNS, Parameters, Statements
from memoranda.store import Filter
from memoranda_sqlite.schema import TABLE
from memoranda_sqlite.text_index import trigram_query

MOST_CANDIDATES = 20_000
"""With more candidates than this the text is so common that reading the newest rows finds enough sooner."""

FEW_CANDIDATES = 1_000
"""With more candidates than this, most of which may be others', it is asked whether the scope is smaller."""

_CANDIDATES = f"""
SELECT rowid FROM memoranda_trigrams WHERE memoranda_trigrams MATCH ?
UNION ALL SELECT item FROM memoranda_stale
UNION ALL SELECT rowid FROM {TABLE} WHERE rowid > (SELECT value FROM memoranda_meta WHERE key = 'indexed')
LIMIT {MOST_CANDIDATES + 1}
"""


def find_rows(
    connection: sqlite3.Connection, statements: Statements, wanted: Filter, limit: int, *, indexed: bool
) -> list[Any]:
    """Return the newest rows that match the filter."""
    query = trigram_query(wanted.folded) if indexed else None
    if query is None:
        return connection.execute(*statements.search(wanted, limit)).fetchall()
    # One snapshot for both statements: in between, rows may be moved into the index.
    connection.execute("BEGIN")
    try:
        candidates = [row[0] for row in connection.execute(_CANDIDATES, (query,))]
        if len(candidates) > MOST_CANDIDATES or _is_smaller(connection, statements, wanted, len(candidates)):
            return connection.execute(*statements.search(wanted, limit)).fetchall()
        return among(connection, statements, wanted, candidates, limit)
    finally:
        connection.execute("COMMIT")


def _is_smaller(connection: sqlite3.Connection, statements: Statements, wanted: Filter, candidates: int) -> bool:
    """Whether the scope has fewer rows than there are candidates, so that reading it takes less."""
    if candidates <= FEW_CANDIDATES:
        return False
    parameters = Parameters(statements.dialect)
    where = statements.conditions(parameters, replace(wanted, query=""))
    text = f"SELECT count(*) FROM (SELECT 1 FROM {TABLE} WHERE {where} LIMIT {candidates})"
    (found,) = connection.execute(text, parameters.values).fetchone()
    return int(found) < candidates


def among(
    connection: sqlite3.Connection, statements: Statements, wanted: Filter, candidates: list[int], limit: int
) -> list[Any]:
    """Return those of the candidates that match, newest first."""
    parameters = Parameters(statements.dialect)
    parameters.add(json.dumps(candidates))
    where = statements.conditions(parameters, wanted)
    # NOT INDEXED leaves the row number as the only way in; any other index would lead through far more rows.
    text = (
        f"SELECT {', '.join(ITEM_COLUMNS)} FROM {TABLE} NOT INDEXED WHERE rowid IN (SELECT value FROM json_each(?)) "
        f"AND {where} ORDER BY created_at DESC, rowid DESC LIMIT {parameters.add(limit)}"
    )
    return connection.execute(text, parameters.values).fetchall()
