"""What a ranked search looks at: the whole of a small scope, else rows that share a term, with their neighbours."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, log
from typing import Any

from recollect.errors import CorruptStoreError
from recollect.items import MemoryItem
from recollect.query import Filter
from recollect.ranked import conversation_key, passage_of
from recollect.ranking import Passage, index_terms, query_dates, query_terms
from recollect.sql import ITEM_COLUMNS, Statements, unpack
from recollect.sql.dialect import Parameters
from recollect_sqlite.schema import TABLE
from recollect_sqlite.text_index import words_query

logger = logging.getLogger(__name__)

WHOLE_SCOPE = 1_000
"""A scope of up to this many items is ranked as a whole."""

MOST_HITS = 300
"""Of a larger scope, this many rows are ranked with their neighbours: those with the rarest terms of the query."""

MOST_OF_A_TERM = 50_000
"""How many rows of one term are looked at; a term that is in more says little."""

MOST_COUNTED = 200_000
"""Beyond this many items, how many more there are makes no difference to a ranking."""

MOST_OF_A_DATE = 100

_KEPT_TERMS = (
    f"(SELECT terms FROM recollect_terms WHERE item = {TABLE}.rowid "
    f"AND NOT EXISTS (SELECT 1 FROM recollect_stale WHERE recollect_stale.item = {TABLE}.rowid))"
)
_COLUMNS = f"{', '.join(ITEM_COLUMNS)}, rowid, {_KEPT_TERMS}"
_NEWEST_FIRST = "ORDER BY created_at DESC, rowid DESC"
_WIDTH = len(ITEM_COLUMNS)

Types = Mapping[str, type[MemoryItem]]


@dataclass(slots=True)
class Candidates:
    """Items by the keys of their passages, and the passages in windows of consecutive turns."""

    items: dict[str, MemoryItem] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    windows: list[list[Passage]] = field(default_factory=list)
    total: int = 0
    frequencies: dict[str, int] | None = None


class Gatherer:
    """Gathers the candidates of one search, within one snapshot of the file."""

    def __init__(
        self, connection: sqlite3.Connection, statements: Statements, scope: Filter, types: Types, reach: int
    ) -> None:
        self._connection = connection
        self._statements = statements
        self._scope = scope
        self._types = types
        self._reach = reach
        self._found = Candidates()
        self._passages: dict[int, Passage] = {}

    def gather(self, query: str, near: Sequence[int] = ()) -> Candidates:
        """Return the candidates for a query; ``near`` are the numbers of rows that are alike in meaning."""
        rows = self._rows(f"{_NEWEST_FIRST} LIMIT {WHOLE_SCOPE + 1}")
        if len(rows) <= WHOLE_SCOPE:
            self._take_all(rows)
            return self._found
        self._found.total = self._size()
        hits = self._hits(query_terms(query))
        certain = [*near, *self._on_dates(query_dates(query))]
        hits.update(dict.fromkeys(certain, inf))
        for row in self._best(hits, MOST_HITS + len(certain)):
            self._take_window(row)
        return self._found

    def _take_all(self, rows: Sequence[Any]) -> None:
        conversations: dict[object, list[Passage]] = {}
        for row in reversed(rows):
            passage = self._passage(row)
            if passage is not None:
                key = conversation_key(self._found.items[passage.key])
                conversations.setdefault(key, []).append(passage)
        self._found.windows = list(conversations.values())
        self._found.total = len(self._found.items)

    def _hits(self, terms: Sequence[str]) -> dict[int, float]:
        """Return the rows that share a term with the query, each with the rarity of what it shares."""
        if not terms:
            return {}
        postings = {term: self._indexed_with(term) for term in terms}
        for number, content in self._waiting():
            for term in postings.keys() & index_terms(content):
                postings[term].add(number)
        self._found.frequencies = self._exact_frequencies(postings)
        hits: dict[int, float] = {}
        for numbers in postings.values():
            rarity = log(1 + (self._found.total + 0.5) / (len(numbers) + 0.5))
            for number in numbers:
                hits[number] = hits.get(number, 0.0) + rarity
        return hits

    def _indexed_with(self, term: str) -> set[int]:
        metadata = self._scope.metadata
        query = words_query([term], metadata.user_id if metadata else None)
        text = f"SELECT rowid FROM recollect_words WHERE recollect_words MATCH ? LIMIT {MOST_OF_A_TERM}"
        return {number for (number,) in self._connection.execute(text, (query,))}

    def _exact_frequencies(self, postings: Mapping[str, set[int]]) -> dict[str, int] | None:
        """Return the frequencies if they are those of the scope: of one user, or of everybody."""
        metadata = self._scope.metadata
        if metadata and (metadata.session_id or metadata.task_id or metadata.agent_id or metadata.extra):
            return None
        return {term: len(numbers) for term, numbers in postings.items()}

    def _waiting(self) -> list[tuple[int, str]]:
        """Return the rows of the scope that the index does not know, or not as they are now."""
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, self._scope)
        later = "rowid > (SELECT value FROM recollect_meta WHERE key = 'indexed')"
        changed = "rowid IN (SELECT item FROM recollect_stale)"
        found: list[tuple[int, str]] = []
        for condition in (later, changed):
            text = f"SELECT rowid, content FROM {TABLE} NOT INDEXED WHERE {condition} AND {where}"
            found += self._connection.execute(text, parameters.values)
        return found

    def _on_dates(self, dates: Iterable[str]) -> list[int]:
        """Return the newest rows of the days or months that the query names."""
        found: list[int] = []
        for date in dates:
            parameters = Parameters(self._statements.dialect)
            where = self._statements.conditions(parameters, self._scope)
            begin, end = parameters.add(date), parameters.add(date + "\U0010ffff")
            text = (
                f"SELECT rowid FROM {TABLE} WHERE {where} AND created_at >= {begin} AND created_at < {end} "
                f"{_NEWEST_FIRST} LIMIT {MOST_OF_A_DATE}"
            )
            found += (number for (number,) in self._connection.execute(text, parameters.values))
        return found

    def _best(self, hits: Mapping[int, float], wanted: int) -> list[Any]:
        """Return the rows of the best hits that lie in the scope; of equal rarity, the last added ones."""
        ordered = sorted(hits, key=lambda number: (hits[number], number), reverse=True)
        rows: list[Any] = []
        for start in range(0, len(ordered), wanted):
            chosen = json.dumps(ordered[start : start + wanted])
            rows += self._rows("", "rowid IN (SELECT value FROM json_each(?))", chosen, indexed=False)
            if len(rows) >= wanted:
                break
        return rows[:wanted]

    def _take_window(self, row: Any) -> None:
        passage = self._passage(row)
        if passage is None:
            return
        key = conversation_key(self._found.items[passage.key])
        place = (row[ITEM_COLUMNS.index("created_at")], row[_WIDTH])
        same = "user_id IS ? AND session_id IS ? AND task_id IS ?"
        before = self._rows(
            f"{_NEWEST_FIRST} LIMIT {self._reach}", f"{same} AND (created_at, rowid) < (?, ?)", *key, *place
        )
        after = self._rows(
            f"ORDER BY created_at, rowid LIMIT {self._reach}", f"{same} AND (created_at, rowid) > (?, ?)", *key, *place
        )
        turns = [*(self._passage(turn) for turn in reversed(before)), passage, *(self._passage(turn) for turn in after)]
        self._found.windows.append([turn for turn in turns if turn is not None])

    def _rows(self, rest: str, condition: str = "", *values: object, indexed: bool = True) -> list[Any]:
        """Return rows of the scope that also meet the condition."""
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, self._scope)
        text = (
            f"SELECT {_COLUMNS} FROM {TABLE} {'' if indexed else 'NOT INDEXED'} WHERE {where} "
            f"{f'AND {condition}' if condition else ''} {rest}"
        )
        return self._connection.execute(text, (*parameters.values, *values)).fetchall()

    def _passage(self, row: Any) -> Passage | None:
        """Return the passage of a row and keep its item; None if the row cannot be read."""
        number = row[_WIDTH]
        known = self._passages.get(number)
        if known is not None:
            return known
        try:
            item = unpack(row[:_WIDTH], self._types)
        except CorruptStoreError as error:
            logger.warning("%s It was left out; 'recollect doctor' lists such rows.", error)
            return None
        terms = row[_WIDTH + 1]
        passage = passage_of(item, None if terms is None else terms.split())
        self._passages[number] = passage
        self._found.items[passage.key] = item
        self._found.numbers[passage.key] = number
        return passage

    def _size(self) -> int:
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, self._scope)
        text = f"SELECT count(*) FROM (SELECT 1 FROM {TABLE} WHERE {where} LIMIT {MOST_COUNTED})"
        (size,) = self._connection.execute(text, parameters.values).fetchone()
        return int(size)
