"""The candidates of a ranked search: the core's questions, answered from the rows of a scope and their indexes."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from memoranda.store.backend import Filter
from memoranda_ranking import (
    Around,
    Best,
    Frequencies,
    Nearest,
    OnDay,
    Passage,
    Question,
    Size,
    SpokenBy,
    Turn,
    Whole,
    WithLetters,
    best_hits,
)
from memoranda_sql import Parameters
from memoranda_sqlite.passages import Passages
from memoranda_sqlite.scope_rows import RowNumbers, ScopeRows
from memoranda_sqlite.tables import TABLE, span

_OLDEST = "ORDER BY created_us, rowid"
_NEWEST = "ORDER BY created_us DESC, rowid DESC LIMIT"
COMMON = 5_000
"""If each term is in more rows than this, rows that have all of them are looked for first."""

_SOONER = 3
"""How many rows can be read in the order of an index in the time that one is looked up and sorted."""


class CandidateSource:
    """Answers the questions of one search, within one snapshot of the file. Items go by the numbers of their rows.

    ``wanted`` is within the scope of ``rows``; ``nearest`` returns the rows that are most similar in meaning.
    """

    def __init__(
        self, rows: ScopeRows, passages: Passages, wanted: Filter, nearest: Callable[[int], Sequence[int]]
    ) -> None:
        self._rows = rows
        self._passages = passages
        self._wanted = wanted
        self._nearest = nearest
        self._frequencies: dict[str, int] = {}
        self.numbers: dict[str, int] = {}
        """The numbers of the rows of all passages that were given, by their keys."""

    def answer(self, question: Question) -> Any:
        """Return the answer to a question of the policy."""
        match question:
            case Size():
                return self._rows.size
            case Whole():
                return self._conversations()
            case Frequencies(terms):
                self._frequencies = {term: self._rows.frequency(term) for term in terms}
                return self._frequencies
            case Best(weights, most, matching):
                return self._best(weights, most, self._rows.inside(self._wanted) if matching else self._rows)
            case OnDay(day, most):
                return self._newest(most, "created_us >= ? AND created_us < ?", *span(day))
            case SpokenBy(term, most):
                return self._rows.spoken_by(term, most)
            case WithLetters(letters, most):
                return self._rows.containing(letters, f"{_NEWEST} {most}")
            case Nearest(most):
                return self._nearest(most)
            case Around(keys, turns):
                return self._windows(keys, turns)

    def _conversations(self) -> list[list[Passage]]:
        scope = self._rows.numbers or RowNumbers(())
        if scope.oldest_first is None:
            scope.oldest_first = [number for (number,) in self._rows.among("rowid", scope.all, _OLDEST)]
        conversations: dict[object, list[Passage]] = {}
        for turn in self._turns(scope.oldest_first).values():
            conversations.setdefault(turn.conversation, []).append(turn.passage)
        return list(conversations.values())

    def _best(self, weights: Mapping[str, float], most: int, rows: ScopeRows) -> list[int]:
        """Return the rows whose terms weigh most, of those in the scope of ``rows``, which may be a narrower one."""
        if min(self._frequencies[term] for term in weights) > COMMON:
            # Rows that have all these terms weigh most, and the index finds them faster.
            found = self._within(rows, self._rows.with_terms(*weights))
            if len(found) >= most:
                return _newest_of(rows, found, most, self._rows.size)
        having = [(self._within(rows, self._rows.with_terms(term)), weight) for term, weight in weights.items()]
        return best_hits(having, most, lambda numbers, room: _newest_of(rows, numbers, room, self._rows.size))

    def _within(self, rows: ScopeRows, numbers: list[int]) -> list[int]:
        return numbers if rows is self._rows else [number for (number,) in rows.among("rowid", numbers)]

    def _newest(self, most: int, condition: str, *values: object) -> list[int]:
        return [number for (number,) in self._rows.select("rowid", f"{_NEWEST} {most}", condition, *values)]

    def _windows(self, hits: Sequence[int], around: int) -> list[list[Passage]]:
        """Return each row with its neighbours in the conversation, oldest first."""
        windows = [*self._chains(hits, around, in_session=True), *self._chains(hits, around, in_session=False)]
        turns = self._turns(chain.from_iterable(windows))
        return [[turns[number].passage for number in window if number in turns] for window in windows]

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

    def _turns(self, numbers: Iterable[int]) -> dict[int, Turn]:
        """Return the turns of these rows, which lie in the scope, in this order."""
        turns = self._passages.of(self._rows.connection, numbers)
        self.numbers |= {turn.passage.key: number for number, turn in turns.items()}
        return turns


def _newest_of(rows: ScopeRows, numbers: Collection[int], most: int, size: int) -> list[int]:
    """Return the newest of these rows, which lie in the scope of ``rows``; that has at most ``size``."""
    if len(numbers) <= most:
        return list(numbers)
    # Of very many rows, enough are among the newest of the scope, which an index has in order.
    looked_at = 2 * most * size // len(numbers)
    if looked_at <= _SOONER * len(numbers):
        wanted = frozenset(numbers)
        newest = rows.select("rowid", f"{_NEWEST} {looked_at}")
        found = [number for (number,) in newest if number in wanted][:most]
        if len(found) == most:
            return found
    return [number for (number,) in rows.among("rowid", numbers, f"{_NEWEST} {most}")]
