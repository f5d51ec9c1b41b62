"""The rows of a scope that is too large to be ranked as a whole, found by the indexes.

A ranking must not reveal anything about other tenants. So everything that it counts, cuts off or averages comes from
the rows that a filter matches. What other scopes store, or have cleared, only decides how long that takes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

from memoranda.store.backend import Filter
from memoranda_backend.ranking import index_terms
from memoranda_backend.sql import Parameters
from memoranda_backend.sql.candidates import WHOLE_SCOPE, Sought
from memoranda_sqlite.statements import SQLiteStatements
from memoranda_sqlite.tables import TABLE
from memoranda_sqlite.text_index import trigram_query, words_query

MOST_OF_A_TERM = 20_000
"""How many rows of one term are looked at, the last added ones; a term that is in as many counts as one that is in
all."""

_ENTRIES_READ = 40
"""How many times that many entries of the index are read, if most of them are of other scopes."""

_WAITING = (
    "rowid > (SELECT value FROM memoranda_meta WHERE key = 'indexed')",
    "rowid IN (SELECT item FROM memoranda_stale)",
)


class ScopeRows:
    """The rows of one scope, within one snapshot of the file."""

    def __init__(self, connection: sqlite3.Connection, statements: SQLiteStatements, scope: Filter) -> None:
        self.connection = connection
        self.statements = statements
        self.scope = scope
        self._found: dict[Sought, list[int]] = {}

    def select(self, columns: str, rest: str, condition: str = "", *values: object, indexed: bool = True) -> list[Any]:
        """Return columns of those rows that also meet the condition."""
        parameters = Parameters(self.statements.dialect)
        where = self.statements.conditions(parameters, self.scope)
        # NOT INDEXED leaves the row number as the only way in.
        text = (
            f"SELECT {columns} FROM {TABLE} {'' if indexed else 'NOT INDEXED'} WHERE {where} "
            f"{f'AND {condition}' if condition else ''} {rest}"
        )
        return self.connection.execute(text, (*parameters.values, *values)).fetchall()

    def among(self, columns: str, numbers: Collection[int], rest: str = "") -> list[Any]:
        """Return columns of those of the given rows that lie in the scope."""
        chosen = "rowid IN (SELECT value FROM json_each(?))"
        return self.select(columns, rest, chosen, json.dumps(list(numbers)), indexed=False)

    def frequency(self, term: Sought) -> int:
        """Return how many rows have a term in what they say now; of very many, how many there are."""
        found = len(self.with_term(term))
        return found if found < MOST_OF_A_TERM else WHOLE_SCOPE

    def with_term(self, term: Sought) -> list[int]:
        """Return the rows that have a term in what they say now, of very many those that were added last."""
        if term not in self._found:
            waiting = [number for number, held in self._waiting.items() if not held.isdisjoint(term.forms)]
            indexed = [number for number in self._indexed_with(term) if number not in self._waiting]
            self._found[term] = sorted((*waiting, *indexed), reverse=True)[:MOST_OF_A_TERM]
        return self._found[term]

    def containing(self, letters: str, rest: str) -> list[int]:
        """Return rows whose content has these letters, as ``rest`` says; in what order and how many."""
        query = f"SELECT rowid FROM memoranda_trigrams WHERE memoranda_trigrams MATCH ? LIMIT {MOST_OF_A_TERM}"
        candidates = [number for (number,) in self.connection.execute(query, (trigram_query(letters),))]
        chosen = "rowid IN (SELECT value FROM json_each(?)) AND memoranda_contains(CAST(content AS BLOB), ?)"
        rows = self.select("rowid", rest, chosen, json.dumps([*candidates, *self._waiting]), letters, indexed=False)
        return [number for (number,) in rows]

    @cached_property
    def _waiting(self) -> dict[int, frozenset[str]]:
        """The terms of those rows that the index does not know, or not as they are now."""
        rows = [row for state in _WAITING for row in self.select("rowid, content", "", state, indexed=False)]
        return {number: frozenset(index_terms(text)) for number, text in rows if isinstance(text, str)}

    def _indexed_with(self, term: Sought) -> Sequence[int]:
        """Return the last added rows by the index, which is asked for a part at a time."""
        metadata = self.scope.metadata
        query = words_query(term.forms, metadata.user_id if metadata else None)
        text = (
            f"SELECT rowid FROM memoranda_words WHERE memoranda_words MATCH ? AND rowid < ? "
            f"ORDER BY rowid DESC LIMIT {MOST_OF_A_TERM}"
        )
        found: list[int] = []
        before = 1 << 62
        for _ in range(_ENTRIES_READ):
            entries = [number for (number,) in self.connection.execute(text, (query, before))]
            found += [number for (number,) in self.among("rowid", entries)]
            if len(entries) < MOST_OF_A_TERM or len(found) >= MOST_OF_A_TERM:
                break
            before = entries[-1]
        return found
