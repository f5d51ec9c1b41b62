"""The rows of a scope: what a filter matches, live, and nothing else.

A ranking must not tell anything about other tenants. So whatever it counts, cuts off or averages is taken from here:
how many items there are, which of them have a term, how many have it, and which are left out where there are too many.
What others store, or have cleared, decides at most which of two ways leads to the same rows.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from memoranda.ranking import MOST_COUNTED, index_terms
from memoranda.sql import Parameters
from memoranda.store import Filter
from memoranda_sqlite.keeping import Kept
from memoranda_sqlite.schema import TABLE
from memoranda_sqlite.statements import SQLiteStatements
from memoranda_sqlite.text_index import trigram_query, words_query

MOST_OF_A_TERM = 20_000
"""How many rows of one term are looked at, the last added ones; in a scope that is not counted, a term that is in as
many counts as one that is in all."""

ENTRIES_PER_ROW = 4
"""How many entries of the index are read for each row of the scope, before the rows themselves are quicker."""

MOST_NUMBERS = 1_000_000
"""How many numbers of rows are kept between searches: some sixty megabytes."""

_LAST_ADDED = "ORDER BY rowid DESC LIMIT"
_HAS_TERM = f"instr((SELECT ' ' || terms || ' ' FROM memoranda_terms WHERE item = {TABLE}.rowid), ?)"
_WAITING = (
    "rowid > (SELECT value FROM memoranda_meta WHERE key = 'indexed')",
    "rowid IN (SELECT item FROM memoranda_stale)",
)


class Having(NamedTuple):
    """The rows that have a term, the last added first, and how many they are; of very many, only the first."""

    numbers: list[int]
    frequency: int


class Known:
    """What searches need again: the numbers of the rows of a scope, and the terms of contents that wait."""

    def __init__(self) -> None:
        self.numbers: Kept[frozenset[int] | None] = Kept(MOST_NUMBERS)
        self._terms: dict[str, dict[str, frozenset[str]]] = {}

    def forget(self) -> None:
        """Keep nothing of what may have been purged."""
        self.numbers.forget()
        self._terms = {}

    def terms_of(self, state: str, contents: Mapping[int, str]) -> dict[int, frozenset[str]]:
        """Return the terms of contents in a state; those that are asked for together are kept until others are."""
        before = self._terms.get(state, {})
        terms = {text: before.get(text) or frozenset(index_terms(text)) for text in contents.values()}
        self._terms[state] = terms
        return {number: terms[text] for number, text in contents.items()}


class ScopeRows:
    """The rows of one scope, within one snapshot of the file."""

    def __init__(
        self, connection: sqlite3.Connection, statements: SQLiteStatements, scope: Filter, known: Known
    ) -> None:
        self.connection = connection
        self.statements = statements
        self.scope = scope
        self._known = known

    def inside(self, wanted: Filter) -> ScopeRows:
        """Return the rows of a narrower scope."""
        return ScopeRows(self.connection, self.statements, wanted, self._known)

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

    @cached_property
    def numbers(self) -> frozenset[int] | None:
        """The numbers of all rows, or None where these are more than are counted."""
        return self._known.numbers.of(self.connection, self.statements, self.scope, self._read_numbers)

    def _read_numbers(self) -> tuple[frozenset[int] | None, int]:
        found = self._numbers(*self.statements.numbers_up_to(self.scope, MOST_COUNTED + 1))
        return (None, 1) if len(found) > MOST_COUNTED else (frozenset(found), len(found))

    @cached_property
    def _ends(self) -> tuple[int, int]:
        return (min(self.numbers), max(self.numbers)) if self.numbers else (0, 0)

    @property
    def size(self) -> int:
        """How many rows there are, as far as they are counted."""
        return MOST_COUNTED if self.numbers is None else len(self.numbers)

    def with_terms(self, terms: Iterable[str]) -> dict[str, Having]:
        """Return the rows that have each term in what they say now."""
        late, stale = map(self._waiting, _WAITING)
        found = {}
        for term in terms:
            indexed = self._indexed_with(term)
            if stale:
                indexed = [number for number in indexed if number not in stale]
            waiting = [number for some in (late, stale) for number in some if term in some[number]]
            numbers = sorted((*waiting, *indexed), reverse=True) if waiting else indexed
            counted = self.numbers is not None or len(numbers) < MOST_OF_A_TERM
            found[term] = Having(numbers[:MOST_OF_A_TERM], len(numbers) if counted else self.size)
        return found

    def containing(self, letters: str, rest: str) -> list[int]:
        """Return rows whose content has these letters, as ``rest`` says; in what order and how many."""
        found = "memoranda_contains(CAST(content AS BLOB), ?)"
        candidates = self._numbers(
            f"SELECT rowid FROM memoranda_trigrams WHERE memoranda_trigrams MATCH ? LIMIT {MOST_OF_A_TERM + 1}",
            (trigram_query(letters),),
        )
        if len(candidates) > MOST_OF_A_TERM:
            return [number for (number,) in self.select("rowid", rest, found, letters)]
        waiting = [number for state in _WAITING for (number,) in self.select("rowid", "", state, indexed=False)]
        chosen = f"rowid IN (SELECT value FROM json_each(?)) AND {found}"
        rows = self.select("rowid", rest, chosen, json.dumps([*candidates, *waiting]), letters, indexed=False)
        return [number for (number,) in rows]

    def _waiting(self, state: str) -> dict[int, frozenset[str]]:
        """Return the terms of those rows that the index does not know, or not as they are now."""
        rows = self.select("rowid, content", "", state, indexed=False)
        return self._known.terms_of(state, {number: text for number, text in rows if isinstance(text, str)})

    def _indexed_with(self, term: str) -> list[int]:
        found = self._by_entries(term) if self.numbers is None else self._by_entries_within(term, self.numbers)
        if found is not None:
            return found
        # Most entries of this term are others', or of rows that are gone: the scope itself is sooner read.
        most = MOST_COUNTED if self.numbers is not None else MOST_OF_A_TERM
        return [number for (number,) in self.select("rowid", f"{_LAST_ADDED} {most}", _HAS_TERM, f" {term} ")]

    def _by_entries_within(self, term: str, numbers: frozenset[int]) -> list[int] | None:
        """Return the rows by the index, or None if the index has far more entries than the scope has rows."""
        if not numbers:
            return []
        most = ENTRIES_PER_ROW * len(numbers)
        first, last = self._ends
        # Where most rows in between are of the scope, the mark of the user would be looked up for nothing.
        marked = 2 * len(numbers) <= last - first
        entries = self._entries(term, "rowid BETWEEN ? AND ?", (first, last), most + 1, marked=marked)
        return None if len(entries) > most else [number for number in entries if number in numbers]

    def _by_entries(self, term: str) -> list[int] | None:
        """Return the last added rows by the index, which is asked for a part at a time; None as above."""
        found: list[int] = []
        before = 1 << 62
        for _ in range(ENTRIES_PER_ROW * MOST_COUNTED // MOST_OF_A_TERM):
            entries = self._entries(term, "rowid < ?", (before,), MOST_OF_A_TERM)
            found += sorted((number for (number,) in self.among("rowid", entries)), reverse=True)
            if len(entries) < MOST_OF_A_TERM or len(found) >= MOST_OF_A_TERM:
                return found
            before = entries[-1]
        return None

    def _entries(
        self, term: str, condition: str, values: tuple[int, ...], most: int, *, marked: bool = True
    ) -> list[int]:
        """Return the last numbers that the index has for a term: in a user's scope, those with the user's mark."""
        metadata = self.scope.metadata
        query = words_query([term], metadata.user_id if metadata and marked else None)
        text = (
            f"SELECT rowid FROM memoranda_words WHERE memoranda_words MATCH ? AND {condition} "
            f"ORDER BY rowid DESC LIMIT {most}"
        )
        return self._numbers(text, (query, *values))

    def _numbers(self, text: str, values: Iterable[object]) -> list[int]:
        """Return the row numbers that a statement selects: as one value, which is three times as fast as row by row."""
        (found,) = self.connection.execute(f"SELECT json_group_array(rowid) FROM ({text})", (*values,)).fetchone()
        numbers: list[int] = json.loads(found)
        return numbers
