"""The rows and the candidates of a scope that is too large to be ranked as a whole, found by the indexes.

A ranking must not reveal anything about other tenants. So everything that it counts, cuts off or averages comes from
the rows that a filter matches. What other scopes store, or have cleared, only decides how long that takes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

from memoranda.store.backend import Filter
from memoranda_backend.ranking import Passage, index_terms
from memoranda_backend.sql import Parameters
from memoranda_backend.sql.candidates import (
    WHOLE_SCOPE,
    Around,
    Best,
    Frequencies,
    Nearest,
    OnDay,
    Question,
    Sought,
    WithLetters,
    best_hits,
)
from memoranda_sqlite.scope_cache import rows_of
from memoranda_sqlite.statements import SQLiteStatements
from memoranda_sqlite.tables import TABLE, span
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


_NEWEST = "ORDER BY created_us DESC, rowid DESC LIMIT"


class CandidateSource:
    """Answers the questions of one search, within one snapshot of the file. Items go by the numbers of their rows.

    ``wanted`` is within the scope of ``rows``; ``nearest`` returns the rows that are most similar in meaning.
    """

    def __init__(self, rows: ScopeRows, wanted: Filter, nearest: Callable[[int], Sequence[int]]) -> None:
        self._rows = rows
        self._wanted = wanted
        self._nearest = nearest
        self.numbers: dict[str, int] = {}
        """The numbers of the rows of all passages that were given, by their keys."""

    def answer(self, question: Question) -> Any:
        """Return the answer to a question of the policy."""
        match question:
            case Frequencies(terms):
                return {term: self._rows.frequency(term) for term in terms}
            case Best(weights, most, matching):
                return self._best(weights, most, self._wanted if matching else None)
            case OnDay(day, most):
                return self._newest(most, "created_us >= ? AND created_us < ?", *span(day))
            case WithLetters(letters, most):
                return self._rows.containing(letters, f"{_NEWEST} {most}")
            case Nearest(most):
                return self._nearest(most)
            case Around(keys, turns):
                return self._windows(keys, turns)

    def _best(self, weights: Mapping[Sought, float], most: int, wanted: Filter | None) -> list[int]:
        """Return the rows whose terms weigh most, of those that are wanted."""
        rows = self._rows
        having = [(rows.with_term(term), weight) for term, weight in weights.items()]
        if wanted is not None:
            inside = ScopeRows(rows.connection, rows.statements, wanted)
            found = {number for numbers, _ in having for number in numbers}
            chosen = {number for (number,) in inside.among("rowid", found)}
            having = [([number for number in numbers if number in chosen], weight) for numbers, weight in having]

        def newest(numbers: list[int], room: int) -> list[int]:
            return [number for (number,) in rows.among("rowid", numbers, f"{_NEWEST} {room}")]

        return best_hits(having, most, newest)

    def _newest(self, most: int, condition: str, *values: object) -> list[int]:
        return [number for (number,) in self._rows.select("rowid", f"{_NEWEST} {most}", condition, *values)]

    def _windows(self, hits: Sequence[int], around: int) -> list[list[Passage]]:
        """Return each row with its neighbours in the conversation, oldest first."""
        windows = [*self._chains(hits, around, in_session=True), *self._chains(hits, around, in_session=False)]
        read = rows_of(self._rows.connection, set(chain.from_iterable(windows)))
        self.numbers |= {passage.key: number for number, passage in read.items()}
        return [[read[number] for number in window if number in read] for window in windows]

    def _chains(self, hits: Sequence[int], around: int, *, in_session: bool) -> Iterator[list[int]]:
        """Yield the numbers around those of the hits that have a session, or have none."""
        parameters = Parameters(self._rows.statements.dialect)
        before = self._turns_beside(parameters, "<", "DESC", around, in_session)
        after = self._turns_beside(parameters, ">", "ASC", around, in_session)
        window = f"json_array(hit.rowid, json({before}), json({after}))"
        text = (
            f"SELECT json_group_array({window}) "
            f"FROM json_each(?) AS given CROSS JOIN {TABLE} AS hit ON hit.rowid = given.value "
            f"WHERE hit.session_id IS {'NOT NULL' if in_session else 'NULL'}"
        )
        # One value is read faster than two for each hit.
        (found,) = self._rows.connection.execute(text, (*parameters.values, json.dumps(list(hits)))).fetchone()
        return ([*reversed(earlier), hit, *later] for hit, earlier, later in json.loads(found))

    def _turns_beside(self, parameters: Parameters, side: str, order: str, around: int, in_session: bool) -> str:
        """Return the expression of the turns on one side of a hit, the nearest first."""
        scope = self._rows.scope
        if scope.metadata is not None:
            # What a turn has in common with its hit, which is of the scope, needs no other condition.
            common = dict.fromkeys(("user_id", "session_id", "task_id"))
            scope = replace(scope, metadata=scope.metadata.model_copy(update=common))
        where = self._rows.statements.conditions(parameters, scope)
        # The plus keeps the planner from an index: a session has fewer rows than a user.
        same = "+near.user_id IS hit.user_id AND near.session_id = hit.session_id AND +near.task_id IS hit.task_id"
        if not in_session:
            same = "near.user_id IS hit.user_id AND +near.session_id IS NULL AND near.task_id IS hit.task_id"
        return (
            f"(SELECT json_group_array(number) FROM (SELECT near.rowid AS number FROM {TABLE} AS near WHERE {where} "
            f"AND {same} AND (near.created_us, near.rowid) {side} (hit.created_us, hit.rowid) "
            f"ORDER BY near.created_us {order}, near.rowid {order} LIMIT {around}))"
        )
