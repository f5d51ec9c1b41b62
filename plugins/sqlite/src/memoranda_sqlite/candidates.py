"""What a ranked search looks at, as the core's policy has it: answered from the rows of a scope and their indexes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from memoranda.ranking import (
    MOST_HITS,
    NEWEST_FOUND,
    WHOLE_SCOPE,
    Passage,
    Weights,
    beginning,
    best_hits,
    query_dates,
    query_terms,
    turns_around,
)
from memoranda.sql import Parameters
from memoranda.store import Filter
from memoranda_sqlite.passages import MARK_COLUMNS, Mark, Passages, Turn
from memoranda_sqlite.schema import TABLE
from memoranda_sqlite.scope_rows import Having, ScopeRows

_NEWEST = f"ORDER BY created_at DESC, rowid DESC LIMIT {NEWEST_FOUND}"
_SPOKEN_BY = (
    # Most rows name nobody, or somebody else: that is told sooner than JSON is read.
    "instr(lower(extra_json), ?) AND CASE WHEN json_valid(extra_json) "
    "THEN memoranda_contains(CAST(json_extract(extra_json, '$.name') AS BLOB), ?) END"
)


@dataclass(slots=True)
class Candidates:
    """Passages in windows of consecutive turns, and the numbers of their rows by key."""

    windows: list[list[Passage]] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    total: int = 0
    frequencies: dict[str, int] | None = None


class Gatherer:
    """Gathers the candidates of one search, within one snapshot of the file."""

    def __init__(self, rows: ScopeRows, passages: Passages, weights: Weights) -> None:
        self._rows = rows
        self._passages = passages
        self._turns_around = turns_around(weights)
        self._found = Candidates()

    def gather(self, query: str, wanted: Filter, limit: int, near: Sequence[int] = ()) -> Candidates:
        """Return the candidates for the best ``limit`` items that match ``wanted``, which lies in the scope.

        ``near`` are the numbers of rows that are alike in meaning.
        """
        if self._rows.size <= WHOLE_SCOPE:
            self._take_all()
            return self._found
        self._found.total = self._rows.size
        terms = query_terms(query)
        having = self._rows.with_terms(terms)
        self._found.frequencies = {term: found.frequency for term, found in having.items()}
        missing = [term for term in terms if not having[term].frequency]
        certain = [*near, *self._on_dates(query_dates(query)), *self._by_names_and_letters(missing)]
        self._take_windows([*certain, *self._best(list(having.values()), wanted, max(MOST_HITS, limit))])
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
        """Return the expression of the turns on one side of a hit, the nearest first."""
        where = self._rows.statements.conditions(parameters, self._rows.scope)
        return (
            f"(SELECT json_group_array(number) FROM (SELECT near.rowid AS number FROM {TABLE} AS near WHERE {where} "
            f"AND near.user_id IS hit.user_id AND near.session_id IS hit.session_id AND near.task_id IS hit.task_id "
            f"AND (near.created_at, near.rowid) {side} (hit.created_at, hit.rowid) "
            f"ORDER BY near.created_at {order}, near.rowid {order} LIMIT {self._turns_around}))"
        )

    def _marks(self, numbers: Collection[int], rest: str = "") -> list[Mark]:
        return list(map(Mark._make, self._rows.among(MARK_COLUMNS, numbers, rest)))

    def _turns(self, marks: Sequence[Mark]) -> dict[int, Turn]:
        turns = self._passages.of(self._rows.connection, marks)
        self._found.numbers.update((turn.passage.key, number) for number, turn in turns.items())
        return turns

    def _on_dates(self, dates: Iterable[str]) -> list[int]:
        """Return the newest rows of the days or months that the query names."""
        condition = "created_at >= ? AND created_at < ?"
        found = (self._rows.select("rowid", _NEWEST, condition, date, date + "\U0010ffff") for date in dates)
        return [number for rows in found for (number,) in rows]

    def _by_names_and_letters(self, missing: Sequence[str]) -> list[int]:
        """Return the newest rows whose speaker, or a word of which, begins as a term that no content has."""
        found: list[int] = []
        for term, letters in ((term, beginning(term)) for term in missing):
            if letters is not None:
                found += self._rows.containing(letters, _NEWEST)
            hint = term if term.isascii() else '"name"'  # SQLite knows the cases of ASCII letters alone.
            found += (number for (number,) in self._rows.select("rowid", _NEWEST, _SPOKEN_BY, hint, term))
        return found

    def _best(self, having: Sequence[Having], wanted: Filter, most: int) -> list[int]:
        """Return the best hits, and the best that match ``wanted``.

        Those that do not match count as neighbours of others that do, but must not take the place of any.
        """
        total = len({number for found in having for number in found.numbers})
        filtered = wanted != self._rows.scope and total > most
        ordered = best_hits(having, self._found.total, total if filtered else most, newest=int)
        if not filtered:
            return ordered
        matching = ScopeRows(self._rows.connection, self._rows.statements, wanted)
        return [*ordered[:most], *islice(_matching(matching, ordered, most), most)]


def _matching(rows: ScopeRows, numbers: Sequence[int], step: int) -> Iterator[int]:
    """Yield those of the numbers that lie in the scope, in the same order, reading a part at a time."""
    for start in range(0, len(numbers), step):
        part = numbers[start : start + step]
        inside = {number for (number,) in rows.among("rowid", part)}
        yield from (number for number in part if number in inside)
