"""What a ranked search looks at: the core's questions, answered from the columns of a table and its words."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np

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
    Whole,
    WithLetters,
)
from memoranda_vector.facets import Rows
from memoranda_vector.nearest import Found, best
from memoranda_vector.table import Table
from memoranda_vector.word_index import Mask, WordIndex

_DIGITS = 9  # A sum depends on the order of adding.


class Answers:
    """Answers the questions of one search at one moment of the table. Items go by their rows.

    ``inside`` are the rows of the scope, ``asked`` those of them that match what is searched for, and ``near`` the
    similarities of rows, where meaning counts.
    """

    def __init__(self, table: Table, words: WordIndex, inside: Mask, asked: Mask, near: Found | None) -> None:
        self._table = table
        self._words = words
        self._inside = inside
        self._asked = asked
        self._near = near
        self._having: dict[str, Rows] = {}
        self.rows: dict[str, int] = {}
        """The rows of all passages that were given, by their keys."""

    def answer(self, question: Question) -> Any:
        """Return the answer to a question of the policy."""
        words, inside = self._words, self._inside
        match question:
            case Size():
                return int(np.count_nonzero(inside))
            case Whole():
                rows = np.flatnonzero(inside).astype(np.int32)
                return self._windows(rows, len(rows))
            case Frequencies(terms):
                self._having = {term: words.with_term(term, inside) for term in terms}
                return {term: len(rows) for term, rows in self._having.items()}
            case Best(told, most, matching):
                return self._best(told, inside & self._asked if matching else inside, most)
            case OnDay(day, most):
                return self._newest(self._on_day(day), most)
            case SpokenBy(term, most):
                return self._newest(words.spoken_by(term, inside), most)
            case WithLetters(letters, most):
                return self._newest(words.with_letters(letters, inside), most)
            case Nearest(most):
                return self._nearest(most)
            case Around(keys, turns):
                return self._windows(np.array(keys, dtype=np.int32), turns)

    def _best(self, told: Mapping[str, float], inside: Mask, most: int) -> list[int]:
        sums = np.zeros(len(inside), dtype=np.float64)
        for term, tells in told.items():
            sums[self._having[term]] += tells
        found = np.flatnonzero((sums > 0) & inside).astype(np.int32)
        order = self._table.order(sums[found].round(_DIGITS), found)[:most]
        return self._listed(found[order])

    def _on_day(self, day: str) -> Rows:
        first = np.datetime64(day)
        start, end = (moment.astype("datetime64[us]").astype(np.int64) for moment in (first, first + 1))
        times = self._table.times[: len(self._inside)]
        return np.flatnonzero(self._inside & (times >= start) & (times < end)).astype(np.int32)

    def _newest(self, rows: Rows, most: int) -> list[int]:
        return self._listed(self._table.newest_first(rows, most))

    def _nearest(self, most: int) -> list[int]:
        if self._near is None:
            return []
        return [row for row, _ in best(self._table, *self._near, most) if self._inside[row]]

    def _windows(self, rows: Rows, around: int) -> list[list[Passage]]:
        windows = self._words.windows(rows, self._inside, around)
        passages = [self._words.passages(window) for window in windows]
        given = chain.from_iterable
        self.rows = {passage.key: row for passage, row in zip(given(passages), given(windows), strict=True)}
        return passages

    def _listed(self, rows: Rows) -> list[int]:
        numbers: list[int] = rows.tolist()
        return numbers
