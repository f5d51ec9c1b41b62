"""What a ranked search looks at: the whole of a small scope, else rows that share a term, with their neighbours."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from math import inf, log
from typing import Any

from recollect.query import Filter
from recollect.ranking import Passage, index_terms, query_dates, query_terms
from recollect.sql import Statements
from recollect.sql.dialect import Parameters
from recollect_sqlite.passages import MARK_COLUMNS, Mark, Passages, Turn, Types
from recollect_sqlite.schema import TABLE
from recollect_sqlite.text_index import words_query

WHOLE_SCOPE = 1_000
"""A scope of up to this many items is ranked as a whole."""

MOST_HITS = 300
"""Of a larger scope, this many rows are ranked with their neighbours: those with the rarest terms of the query."""

MOST_OF_A_TERM = 20_000
"""How many rows of one term are looked at, the last added ones; a term that is in more says little."""

MOST_COUNTED = 200_000
"""Beyond this many items, how many more there are makes no difference to a ranking."""

MOST_OF_A_DATE = 100

_NEWEST_FIRST = "ORDER BY created_at DESC, rowid DESC"
_SAME_CONVERSATION = "user_id IS ? AND session_id IS ? AND task_id IS ?"


@dataclass(slots=True)
class Candidates:
    """Passages in windows of consecutive turns, and the numbers of their rows by key."""

    windows: list[list[Passage]] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    total: int = 0
    frequencies: dict[str, int] | None = None
    whole: bool = False


class Gatherer:
    """Gathers the candidates of one search, within one snapshot of the file."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        statements: Statements,
        scope: Filter,
        passages: Passages,
        types: Types,
        reach: int,
    ) -> None:
        self._connection = connection
        self._statements = statements
        self._scope = scope
        self._passages = passages
        self._types = types
        self._reach = reach
        self._found = Candidates()

    def gather(self, query: str, near: Sequence[int] = ()) -> Candidates:
        """Return the candidates for a query; ``near`` are the numbers of rows that are alike in meaning."""
        marks = self._marks(f"{_NEWEST_FIRST} LIMIT {WHOLE_SCOPE + 1}")
        if len(marks) <= WHOLE_SCOPE:
            self._take_all(marks[::-1])
            return self._found
        self._found.total = self._size()
        hits = self._hits(query_terms(query))
        certain = [*near, *self._on_dates(query_dates(query))]
        hits.update(dict.fromkeys(certain, inf))
        self._take_windows(self._best(hits, MOST_HITS + len(certain)))
        return self._found

    def _take_all(self, marks: Sequence[Mark]) -> None:
        turns = self._turns(marks)
        conversations: dict[object, list[Passage]] = {}
        for mark in marks:
            turn = turns.get(mark.number)
            if turn is not None:
                conversations.setdefault(turn.conversation, []).append(turn.passage)
        self._found.windows = list(conversations.values())
        self._found.total = len(turns)
        self._found.whole = True

    def _take_windows(self, hits: Sequence[Mark]) -> None:
        turns = self._turns(hits)
        windows = [self._around(mark, turns[mark.number]) for mark in hits if mark.number in turns]
        turns.update(self._turns([mark for window in windows for mark in window]))
        self._found.windows = [
            [turns[mark.number].passage for mark in window if mark.number in turns] for window in windows
        ]

    def _around(self, mark: Mark, turn: Turn) -> list[Mark]:
        """Return the row with its neighbours in the conversation, oldest first."""
        values = (*turn.conversation, turn.passage.date, mark.number)
        before = self._marks(
            f"{_NEWEST_FIRST} LIMIT {self._reach}", f"{_SAME_CONVERSATION} AND (created_at, rowid) < (?, ?)", *values
        )
        after = self._marks(
            f"ORDER BY created_at, rowid LIMIT {self._reach}",
            f"{_SAME_CONVERSATION} AND (created_at, rowid) > (?, ?)",
            *values,
        )
        return [*reversed(before), mark, *after]

    def _turns(self, marks: Sequence[Mark]) -> dict[int, Turn]:
        turns = self._passages.of(self._connection, marks, self._types)
        self._found.numbers.update((turn.passage.key, number) for number, turn in turns.items())
        return turns

    def _hits(self, terms: Sequence[str]) -> dict[int, float]:
        """Return the rows that share a term with the query, each with the rarity of what it shares."""
        postings = {term: self._indexed_with(term) for term in terms}
        for number, content in self._waiting() if terms else ():
            for term in postings.keys() & index_terms(content):
                postings[term].add(number)
        self._found.frequencies = self._frequencies(postings)
        hits: dict[int, float] = {}
        for numbers in postings.values():
            rarity = log(1 + (self._found.total + 0.5) / (self._frequency(numbers) + 0.5))
            for number in numbers:
                hits[number] = hits.get(number, 0.0) + rarity
        return hits

    def _indexed_with(self, term: str) -> set[int]:
        metadata = self._scope.metadata
        query = words_query([term], metadata.user_id if metadata else None)
        text = (
            f"SELECT rowid FROM recollect_words WHERE recollect_words MATCH ? "
            f"ORDER BY rowid DESC LIMIT {MOST_OF_A_TERM}"
        )
        return {number for (number,) in self._connection.execute(text, (query,))}

    def _frequencies(self, postings: Mapping[str, set[int]]) -> dict[str, int] | None:
        """Return the frequencies if they are those of the scope: of one user, or of everybody."""
        metadata = self._scope.metadata
        if metadata and not (metadata.session_id is metadata.task_id is metadata.agent_id is None):
            return None
        return {term: self._frequency(numbers) for term, numbers in postings.items()}

    def _frequency(self, numbers: Sized) -> int:
        """Return how many rows have a term; of one that is in very many, not all were counted."""
        return len(numbers) if len(numbers) < MOST_OF_A_TERM else max(self._found.total, len(numbers))

    def _waiting(self) -> list[tuple[int, str]]:
        """Return the rows of the scope that the index does not know, or not as they are now."""
        found: list[tuple[int, str]] = []
        for condition in (
            "rowid > (SELECT value FROM recollect_meta WHERE key = 'indexed')",
            "rowid IN (SELECT item FROM recollect_stale)",
        ):
            found += self._select("rowid, content", "", condition, indexed=False)
        return found

    def _on_dates(self, dates: Iterable[str]) -> list[int]:
        """Return the newest rows of the days or months that the query names."""
        rest = f"{_NEWEST_FIRST} LIMIT {MOST_OF_A_DATE}"
        condition = "created_at >= ? AND created_at < ?"
        found = (self._select("rowid", rest, condition, date, date + "\U0010ffff") for date in dates)
        return [number for rows in found for (number,) in rows]

    def _best(self, hits: Mapping[int, float], wanted: int) -> list[Mark]:
        """Return the best hits that lie in the scope; of equal rarity, the last added ones."""
        ordered = sorted(hits, key=lambda number: (hits[number], number), reverse=True)
        marks: list[Mark] = []
        for start in range(0, len(ordered), wanted):
            chosen = json.dumps(ordered[start : start + wanted])
            marks += self._marks("", "rowid IN (SELECT value FROM json_each(?))", chosen, indexed=False)
            if len(marks) >= wanted:
                break
        return marks[:wanted]

    def _size(self) -> int:
        return len(self._select("1", f"LIMIT {MOST_COUNTED}"))

    def _marks(self, rest: str, condition: str = "", *values: object, indexed: bool = True) -> list[Mark]:
        return list(map(Mark._make, self._select(MARK_COLUMNS, rest, condition, *values, indexed=indexed)))

    def _select(self, columns: str, rest: str, condition: str = "", *values: object, indexed: bool = True) -> list[Any]:
        """Return columns of those rows of the scope that also meet the condition."""
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, self._scope)
        # NOT INDEXED leaves the row number as the only way in.
        text = (
            f"SELECT {columns} FROM {TABLE} {'' if indexed else 'NOT INDEXED'} WHERE {where} "
            f"{f'AND {condition}' if condition else ''} {rest}"
        )
        return self._connection.execute(text, (*parameters.values, *values)).fetchall()
