"""The rows of a scope: the live rows that a filter matches, and nothing else.

A ranking must not reveal anything about other tenants. So everything that it counts, cuts off or averages comes from
here: how many items there are, which of them have a term, how many have it, and which are left out if there are too
many. What other scopes store, or have cleared, only decides which of two ways leads to the same rows.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from heapq import merge
from itertools import islice
from typing import Any

from memoranda.store.backend import Filter
from memoranda_ranking import MOST_COUNTED, index_terms
from memoranda_sql import Parameters
from memoranda_sqlite.ranking_cache import RankingCache, state_of
from memoranda_sqlite.statements import SQLiteStatements
from memoranda_sqlite.tables import TABLE
from memoranda_sqlite.text_index import trigram_query, words_query

MOST_OF_A_TERM = 20_000
"""How many rows of one term are looked at in a scope that is not counted, the last added ones; a term that is in as
many counts there as one that is in all."""

ENTRIES_PER_ROW = 4
"""How many entries of the index are read for each row of the scope, before the rows themselves are quicker."""

MOST_NUMBERS = 1_000_000
"""How many numbers of rows are kept between searches: some sixty megabytes."""

MOST_OUTSIDE = 1_000
"""How many rows may lie among those of a scope that are not of it, for the index to be asked how many have a term."""

MOST_NAMED = 200_000
"""How many rows with names are kept between searches: some twenty megabytes."""

_NAMED = "rowid, created_us, CASE WHEN json_valid(extra_json) THEN json_extract(extra_json, '$.name') END"
_HAS_NAME = "instr(extra_json, '\"name\"')"
_LAST_ADDED = "ORDER BY rowid DESC LIMIT"
_HAS_TERM = f"instr((SELECT ' ' || terms || ' ' FROM memoranda_terms WHERE item = {TABLE}.rowid), ?)"
_WAITING = (
    "rowid > (SELECT value FROM memoranda_meta WHERE key = 'indexed')",
    "rowid IN (SELECT item FROM memoranda_stale)",
)


class RowNumbers:
    """The numbers of all rows of a scope in one state of the file, and what searches found out about them."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self.all = frozenset(numbers)
        self.first, self.last = (min(self.all), max(self.all)) if self.all else (0, 0)
        self.oldest_first: list[int] | None = None
        """All of them in the order of time, where a search has asked for it."""
        self.outside: tuple[object, list[frozenset[str]] | None] = None, None
        """What the index has among them that is not of the scope, and which state of the file that was read from."""

    def __len__(self) -> int:
        return len(self.all)


class SpeakerRows:
    """The rows of a scope that name a speaker: for each name the times and numbers of its rows, oldest first."""

    def __init__(self, rows: Iterable[tuple[int, int, object]]) -> None:
        self.names: dict[int, str] = {}
        self.rows: dict[str, list[tuple[int, int]]] = {}
        for number, created, name in rows:
            if isinstance(name, str):
                self.names[number] = name
                self.rows.setdefault(name, []).append((created, number))
        for found in self.rows.values():
            found.sort()

    def followed(self, changed: Collection[int], rows: Iterable[tuple[int, int, object]]) -> SpeakerRows:
        """Return the same with these rows instead of those that changed."""
        new = SpeakerRows(rows)
        other = SpeakerRows(())
        other.names = {number: name for number, name in self.names.items() if number not in changed} | new.names
        other.rows = dict(self.rows)
        for name in {self.names[number] for number in changed if number in self.names} | new.rows.keys():
            left = [found for found in self.rows.get(name, ()) if found[1] not in changed]
            other.rows[name] = [*merge(left, new.rows.get(name, ()))]
        return other


class ScopeCache:
    """Keeps what searches need again of a scope, and the terms of contents that are not indexed yet."""

    def __init__(self) -> None:
        self.numbers: RankingCache[RowNumbers | None] = RankingCache(MOST_NUMBERS)
        self.named: RankingCache[SpeakerRows] = RankingCache(MOST_NAMED)
        self._terms: dict[str, dict[str, frozenset[str]]] = {}

    def forget(self) -> None:
        """Drop everything: it may hold purged content."""
        self.numbers.forget()
        self.named.forget()
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
        self, connection: sqlite3.Connection, statements: SQLiteStatements, scope: Filter, cache: ScopeCache
    ) -> None:
        self.connection = connection
        self.statements = statements
        self.scope = scope
        self._cache = cache
        self._found: dict[tuple[str, ...], list[int]] = {}

    def inside(self, wanted: Filter) -> ScopeRows:
        """Return the rows of a narrower scope."""
        return ScopeRows(self.connection, self.statements, wanted, self._cache)

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
    def numbers(self) -> RowNumbers | None:
        """The numbers of all rows, or None where these are more than are counted."""
        return self._cache.numbers.of(
            self.connection, self.statements, self.scope, self._read_numbers, self._follow_numbers
        )

    def _read_numbers(self) -> tuple[RowNumbers | None, int]:
        found = self._numbers(*self.statements.numbers_up_to(self.scope, MOST_COUNTED + 1))
        return (None, 1) if len(found) > MOST_COUNTED else (RowNumbers(found), len(found) + 1)

    def _follow_numbers(self, numbers: RowNumbers | None, changed: set[int]) -> tuple[RowNumbers | None, int] | None:
        inside = {number for (number,) in self.among("rowid", changed)}
        if numbers is None:
            return (None, 1) if inside == changed else None  # Some are gone: what is left may be few enough.
        found = (numbers.all - changed) | inside
        return None if len(found) > MOST_COUNTED else (RowNumbers(found), len(found) + 1)

    @property
    def _ends(self) -> tuple[int, int]:
        return (self.numbers.first, self.numbers.last) if self.numbers else (0, 0)

    @property
    def size(self) -> int:
        """How many rows there are, as far as they are counted."""
        return MOST_COUNTED if self.numbers is None else len(self.numbers)

    def frequency(self, term: str) -> int:
        """Return how many rows have a term in what they say now; of very many that are not counted, how many there are.

        To count what the index has takes a fraction of the time that reading it does.
        """
        if self._outside is not None:
            query = "SELECT count(*) FROM memoranda_words WHERE memoranda_words MATCH ? AND rowid BETWEEN ? AND ?"
            (indexed,) = self.connection.execute(query, (words_query([term], None), *self._ends)).fetchone()
            waiting = sum(term in terms for terms in self._waiting.values())
            return int(indexed) - sum(term in terms for terms in self._outside) + waiting
        numbers = self._all_with(term)
        return len(numbers) if self.numbers is not None or len(numbers) < MOST_OF_A_TERM else self.size

    def with_terms(self, *terms: str) -> list[int]:
        """Return the rows that have all of these terms in what they say now, the last added first.

        Of very many in a scope that is not counted, these are only the first. Elsewhere no row may be left out: what
        was added long ago may be the newest.
        """
        return self._all_with(*terms)[: None if self.numbers is not None else MOST_OF_A_TERM]

    def _all_with(self, *terms: str) -> list[int]:
        if terms not in self._found:
            found = self._indexed_with(terms)
            if self._waiting:
                waiting = [number for number, held in self._waiting.items() if held.issuperset(terms)]
                found = sorted((*waiting, *(each for each in found if each not in self._waiting)), reverse=True)
            self._found[terms] = found
        return self._found[terms]

    def spoken_by(self, term: str, most: int) -> list[int]:
        """Return the newest rows that have a term in the name of their speaker."""
        named = self._cache.named.of(self.connection, self.statements, self.scope, self._read_named, self._follow_named)
        found = [reversed(rows) for name, rows in named.rows.items() if term in index_terms(name)]
        return [number for _, number in islice(merge(*found, reverse=True), most)]

    def _read_named(self) -> tuple[SpeakerRows, int]:
        first, last = self._ends
        # If many of the rows in between are of the scope, reading them in the order of the table is faster.
        dense = self.numbers is not None and 4 * len(self.numbers) > last - first
        within, values = ("rowid BETWEEN ? AND ? AND ", self._ends) if dense else ("", ())
        named = SpeakerRows(self.select(_NAMED, "", f"{within}{_HAS_NAME}", *values, indexed=not dense))
        return named, len(named.names) + 1

    def _follow_named(self, named: SpeakerRows, changed: set[int]) -> tuple[SpeakerRows, int]:
        followed = named.followed(changed, self.among(_NAMED, changed, f"AND {_HAS_NAME}"))
        return followed, len(followed.names) + 1

    def containing(self, letters: str, rest: str) -> list[int]:
        """Return rows whose content has these letters, as ``rest`` says; in what order and how many."""
        found = "memoranda_contains(CAST(content AS BLOB), ?)"
        candidates = self._numbers(
            f"SELECT rowid FROM memoranda_trigrams WHERE memoranda_trigrams MATCH ? LIMIT {MOST_OF_A_TERM + 1}",
            (trigram_query(letters),),
        )
        if len(candidates) > MOST_OF_A_TERM:
            return [number for (number,) in self.select("rowid", rest, found, letters)]
        chosen = f"rowid IN (SELECT value FROM json_each(?)) AND {found}"
        rows = self.select("rowid", rest, chosen, json.dumps([*candidates, *self._waiting]), letters, indexed=False)
        return [number for (number,) in rows]

    @cached_property
    def _waiting(self) -> dict[int, frozenset[str]]:
        """The terms of those rows that the index does not know, or not as they are now."""
        waiting: dict[int, frozenset[str]] = {}
        for state in _WAITING:
            rows = self.select("rowid, content", "", state, indexed=False)
            contents = {number: text for number, text in rows if isinstance(text, str)}
            waiting |= self._cache.terms_of(state, contents)
        return waiting

    @cached_property
    def _outside(self) -> list[frozenset[str]] | None:
        """What the index has between the first and the last row of the scope that is not of it, or no longer so.

        These are the terms of each such row. None where they are many, or the scope is not counted.
        """
        if not self.numbers:
            return None
        # It changes with the index too, and not only with the rows.
        state = (id(self.connection), *state_of(self.connection))
        known = self.numbers.outside
        if known[0] != state:
            known = self.numbers.outside = state, self._read_outside(self.numbers)
        return known[1]

    def _read_outside(self, numbers: RowNumbers) -> list[frozenset[str]] | None:
        between = range(numbers.first, numbers.last + 1)
        if len(between) - len(numbers) > MOST_OUTSIDE:
            return None
        is_whole = len(between) == len(numbers)
        others = json.dumps([] if is_whole else [number for number in between if number not in numbers.all])
        rows = self.connection.execute(
            f"SELECT terms FROM memoranda_terms WHERE item IN (SELECT value FROM json_each(?) UNION "
            f"SELECT item FROM memoranda_stale WHERE item BETWEEN ? AND ?) LIMIT {MOST_OUTSIDE + 1}",
            (others, numbers.first, numbers.last),
        ).fetchall()
        return None if len(rows) > MOST_OUTSIDE else [frozenset(terms.split()) for (terms,) in rows]

    def _indexed_with(self, terms: Sequence[str]) -> list[int]:
        found = self._by_entries(terms) if self.numbers is None else self._by_entries_within(terms, self.numbers.all)
        if found is not None:
            return found
        # Most entries of these terms are of other scopes or of removed rows: reading the scope itself is faster.
        most = MOST_COUNTED if self.numbers is not None else MOST_OF_A_TERM
        has_all = " AND ".join([_HAS_TERM] * len(terms))
        rows = self.select("rowid", f"{_LAST_ADDED} {most}", has_all, *(f" {term} " for term in terms))
        return [number for (number,) in rows]

    def _by_entries_within(self, terms: Sequence[str], numbers: frozenset[int]) -> list[int] | None:
        """Return the rows by the index, or None if the index has far more entries than the scope has rows."""
        if not numbers:
            return []
        most = ENTRIES_PER_ROW * len(numbers)
        first, last = self._ends
        # Where most rows in between are of the scope, the mark of the user would be looked up for nothing.
        marked = 2 * len(numbers) <= last - first
        entries = self._entries(terms, "rowid BETWEEN ? AND ?", (first, last), most + 1, marked=marked)
        if len(entries) > most:
            return None
        # Usually all are of the scope, which is a faster check than which of them are.
        return entries if numbers.issuperset(entries) else [number for number in entries if number in numbers]

    def _by_entries(self, terms: Sequence[str]) -> list[int] | None:
        """Return the last added rows by the index, which is asked for a part at a time; None as above."""
        found: list[int] = []
        before = 1 << 62
        for _ in range(ENTRIES_PER_ROW * MOST_COUNTED // MOST_OF_A_TERM):
            entries = self._entries(terms, "rowid < ?", (before,), MOST_OF_A_TERM)
            found += sorted((number for (number,) in self.among("rowid", entries)), reverse=True)
            if len(entries) < MOST_OF_A_TERM or len(found) >= MOST_OF_A_TERM:
                return found
            before = entries[-1]
        return None

    def _entries(
        self, terms: Sequence[str], condition: str, values: tuple[int, ...], most: int, *, marked: bool = True
    ) -> list[int]:
        """Return the last numbers that the index has for all terms: in a user's scope, those with the user's mark."""
        metadata = self.scope.metadata
        query = words_query(terms, metadata.user_id if metadata and marked else None)
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
