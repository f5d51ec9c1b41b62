"""What a ranked search looks at: the whole of a small scope, else rows that share a term, with their neighbours."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import islice
from math import inf, log

from memoranda.ranking import Passage, query_dates, query_terms
from memoranda.sql import Parameters
from memoranda.store import Filter
from memoranda_sqlite.passages import MARK_COLUMNS, Mark, Passages, Turn, Types
from memoranda_sqlite.schema import TABLE
from memoranda_sqlite.scope_rows import ScopeRows

WHOLE_SCOPE = 1_000
"""A scope of up to this many items is ranked as a whole."""

MOST_HITS = 300
"""Of a larger scope, at least this many rows are ranked with their neighbours: those with the rarest terms."""

MOST_OF_A_DATE = 100

_NEWEST_FIRST = "ORDER BY created_at DESC, rowid DESC"


@dataclass(slots=True)
class Candidates:
    """Passages in windows of consecutive turns, and the numbers of their rows by key."""

    windows: list[list[Passage]] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    total: int = 0
    frequencies: dict[str, int] | None = None


class Gatherer:
    """Gathers the candidates of one search, within one snapshot of the file."""

    def __init__(self, rows: ScopeRows, passages: Passages, types: Types, reach: int) -> None:
        self._rows = rows
        self._passages = passages
        self._types = types
        self._reach = reach
        self._found = Candidates()

    def gather(self, query: str, wanted: Filter, limit: int, near: Sequence[int] = ()) -> Candidates:
        """Return the candidates for the best ``limit`` items that match ``wanted``, which lies in the scope.

        ``near`` are the numbers of rows that are alike in meaning.
        """
        if self._rows.size <= WHOLE_SCOPE:
            self._take_all()
            return self._found
        self._found.total = self._rows.size
        hits = self._hits(query_terms(query))
        certain = dict.fromkeys((*near, *self._on_dates(query_dates(query))), inf)
        self._take_windows([*certain, *self._best(hits, wanted, max(MOST_HITS, limit))])
        return self._found

    def _take_all(self) -> None:
        marks = self._marks(self._rows.numbers or (), "ORDER BY created_at, rowid")
        turns = self._turns(marks)
        conversations: dict[object, list[Passage]] = {}
        for mark in marks:
            turn = turns.get(mark.number)
            if turn is not None:
                conversations.setdefault(turn.conversation, []).append(turn.passage)
        self._found.windows = list(conversations.values())
        self._found.total = len(turns)

    def _take_windows(self, hits: Iterable[int]) -> None:
        windows = self._around(dict.fromkeys(hits))
        turns = self._turns(self._marks({number for window in windows for number in window}))
        self._found.windows = [[turns[number].passage for number in window if number in turns] for window in windows]

    def _around(self, hits: Iterable[int]) -> list[list[int]]:
        """Return each row with its neighbours in the conversation, oldest first."""
        parameters = Parameters(self._rows.statements.dialect)
        before, after = self._turns_beside(parameters, "<", "DESC"), self._turns_beside(parameters, ">", "ASC")
        text = (
            f"SELECT hit.rowid, {before}, {after} "
            f"FROM json_each(?) AS given CROSS JOIN {TABLE} AS hit ON hit.rowid = given.value"
        )
        found = self._rows.connection.execute(text, (*parameters.values, json.dumps(list(hits))))
        return [[*reversed(json.loads(earlier)), hit, *json.loads(later)] for hit, earlier, later in found]

    def _turns_beside(self, parameters: Parameters, side: str, order: str) -> str:
        """Return the expression of the turns on one side of a hit, the nearest first.

        Those in reach count for the hit, and those in reach of these for how long they are.
        """
        where = self._rows.statements.conditions(parameters, self._rows.scope)
        return (
            f"(SELECT json_group_array(number) FROM (SELECT near.rowid AS number FROM {TABLE} AS near WHERE {where} "
            f"AND near.user_id IS hit.user_id AND near.session_id IS hit.session_id AND near.task_id IS hit.task_id "
            f"AND (near.created_at, near.rowid) {side} (hit.created_at, hit.rowid) "
            f"ORDER BY near.created_at {order}, near.rowid {order} LIMIT {2 * self._reach}))"
        )

    def _marks(self, numbers: Collection[int], rest: str = "") -> list[Mark]:
        return list(map(Mark._make, self._rows.among(MARK_COLUMNS, numbers, rest)))

    def _turns(self, marks: Sequence[Mark]) -> dict[int, Turn]:
        turns = self._passages.of(self._rows.connection, marks, self._types)
        self._found.numbers.update((turn.passage.key, number) for number, turn in turns.items())
        return turns

    def _hits(self, terms: Sequence[str]) -> dict[int, float]:
        """Return the rows that share a term with the query, each with the rarity of what it shares."""
        having = self._rows.with_terms(terms)
        self._found.frequencies = {term: found.frequency for term, found in having.items()}
        hits: dict[int, float] = {}
        for numbers, frequency in having.values():
            rarity = log(1 + (self._found.total + 0.5) / (frequency + 0.5))
            for number in numbers:
                hits[number] = hits.get(number, 0.0) + rarity
        return hits

    def _on_dates(self, dates: Iterable[str]) -> list[int]:
        """Return the newest rows of the days or months that the query names."""
        rest = f"{_NEWEST_FIRST} LIMIT {MOST_OF_A_DATE}"
        condition = "created_at >= ? AND created_at < ?"
        found = (self._rows.select("rowid", rest, condition, date, date + "\U0010ffff") for date in dates)
        return [number for rows in found for (number,) in rows]

    def _best(self, hits: Mapping[int, float], wanted: Filter, most: int) -> list[int]:
        """Return the best hits, and the best that match ``wanted``; of equal rarity, the last added ones.

        Those that do not match count as neighbours of others that do, but must not take the place of any.
        """
        best = nlargest(most, hits, key=lambda number: (hits[number], number))
        if wanted == self._rows.scope or len(best) == len(hits):
            return best
        matching = ScopeRows(self._rows.connection, self._rows.statements, wanted)
        ordered = sorted(hits, key=lambda number: (hits[number], number), reverse=True)
        return [*best, *islice(_matching(matching, ordered, most), most)]


def _matching(rows: ScopeRows, numbers: Sequence[int], step: int) -> Iterator[int]:
    """Yield those of the numbers that lie in the scope, in the same order, reading a part at a time."""
    for start in range(0, len(numbers), step):
        part = numbers[start : start + step]
        inside = {number for (number,) in rows.among("rowid", part)}
        yield from (number for number in part if number in inside)
