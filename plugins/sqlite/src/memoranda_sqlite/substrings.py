"""Substring search: candidates from the trigram index, checked against the rows; or the rows themselves.

Both ways give the same answer. Which one is taken decides only how long it takes: never much longer than reading the
scope, however much others store.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from typing import Any

from memoranda.sql import Parameters
from memoranda.store import Filter, Page
from memoranda_sqlite.schema import TABLE
from memoranda_sqlite.statements import SQLiteStatements
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
    connection: sqlite3.Connection, statements: SQLiteStatements, wanted: Filter, page: Page, *, indexed: bool
) -> list[Any]:
    """Return a page of the rows that match the filter, newest first."""
    query = trigram_query(wanted.folded) if indexed else None
    if query is None:
        return connection.execute(*statements.search(wanted, page)).fetchall()
    # One snapshot for both statements: in between, rows may be moved into the index.
    connection.execute("BEGIN")
    try:
        candidates = [row[0] for row in connection.execute(_CANDIDATES, (query,))]
        if len(candidates) > MOST_CANDIDATES or _is_smaller(connection, statements, wanted, len(candidates)):
            return connection.execute(*statements.search(wanted, page)).fetchall()
        return connection.execute(*statements.among(wanted, json.dumps(candidates), page)).fetchall()
    finally:
        connection.execute("COMMIT")


def _is_smaller(connection: sqlite3.Connection, statements: SQLiteStatements, wanted: Filter, candidates: int) -> bool:
    """Whether the scope has fewer rows than there are candidates, so that reading it takes less."""
    if candidates <= FEW_CANDIDATES:
        return False
    parameters = Parameters(statements.dialect)
    where = statements.conditions(parameters, replace(wanted, query=""))
    text = f"SELECT count(*) FROM (SELECT 1 FROM {TABLE} WHERE {where} LIMIT {candidates})"
    (found,) = connection.execute(text, parameters.values).fetchone()
    return int(found) < candidates
