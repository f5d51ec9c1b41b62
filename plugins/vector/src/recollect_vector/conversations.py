"""Candidates for a ranking by words: rows that share a term with the query, among the turns around them."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterable, Sequence

import numpy as np

from recollect.items import MemoryItem
from recollect.ranked import passage_of
from recollect.ranking import Passage, index_terms
from recollect_vector.facets import Rows
from recollect_vector.table import Table

MOST_HITS = 1_000
"""How many rows are usually ranked by words. Rare terms come first, so what is left out has only common ones."""

_AROUND = 2
_AT_ONCE = 500
_STALE_AT_LEAST = 10_000


class WordIndex:
    """The rows of each term. It is made when words are first asked for, and kept up from then on.

    A row that was freed stays listed until enough of them have gathered; candidates are looked at anyway.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._terms: dict[int, list[str]] = {}
        self._rows: dict[str, array[int]] = {}
        self._stale = 0
        self._building = asyncio.Lock()
        self._covered = 0

    async def build(self) -> None:
        """List the rows that were there before this index, a part at a time: others want their turn meanwhile."""
        async with self._building:
            while self._covered < self._table.height:
                upto = min(self._covered + _AT_ONCE, self._table.height)
                for row in range(self._covered, upto):
                    item = self._table.items[row]
                    if item is not None and row not in self._terms:
                        self.put(row, item)
                self._covered = upto
                await asyncio.sleep(0)

    def put(self, row: int, item: MemoryItem) -> None:
        """List a row under the terms of its item, which replaces the one that was there."""
        self.take(row)
        terms = self._terms[row] = index_terms(item.content)
        for term in set(terms):
            self._rows.setdefault(term, array("i")).append(row)

    def take(self, row: int) -> None:
        """Forget the terms of a row."""
        terms = self._terms.pop(row, None)
        if terms is not None:
            self._stale += len(terms)

    def tidy(self) -> None:
        """Drop what freed rows left behind, once it is more than what is in use."""
        if self._stale > max(_STALE_AT_LEAST, sum(map(len, self._terms.values()))):
            self.purge()

    def purge(self) -> None:
        """Leave no trace of freed rows."""
        self._rows, self._stale = {}, 0
        for row, terms in self._terms.items():
            for term in set(terms):
                self._rows.setdefault(term, array("i")).append(row)

    def hits(self, terms: Iterable[str], scope: np.ndarray, limit: int) -> tuple[Rows, dict[str, int]]:
        """Return the rows of a scope (a mask) that have any of the terms, and how many there are for each term.

        Of very many, those with the rarest terms and the newest are returned: ``limit`` if that is more than usual.
        """
        most = max(MOST_HITS, limit)
        found: dict[str, Rows] = {}
        for term in terms:
            rows = np.frombuffer(self._rows.get(term, array("i")), dtype=np.int32)
            found[term] = np.unique(rows[scope[rows]])
        hits = np.empty(0, dtype=np.int32)
        for rows in sorted(found.values(), key=len):
            if len(hits) < most:
                # By time: which number a row has depends on the rows that others have left.
                hits = np.union1d(hits, self._table.newest_first(rows, most - len(hits)))
        return hits, {term: len(rows) for term, rows in found.items()}

    def windows(self, rows: Rows, scope: np.ndarray) -> list[list[Passage]]:
        """Return the rows with the turns around them, as runs of consecutive turns of each conversation."""
        table = self._table
        marked = np.zeros(len(scope), dtype=np.bool_)
        marked[rows] = True
        facet = table.facets["conversation"]
        runs: list[list[Passage]] = []
        for code in np.unique(facet.codes[rows]).tolist():
            turns = facet.rows(facet.value(code))
            turns = table.newest_first(turns[scope[turns]])[::-1]
            places = np.flatnonzero(marked[turns])
            around = np.unique(np.clip(places[:, np.newaxis] + np.arange(-_AROUND, _AROUND + 1), 0, len(turns) - 1))
            consecutive = np.split(around, np.flatnonzero(np.diff(around) > 1) + 1)
            runs.extend(self._passages(turns[run].tolist()) for run in consecutive)
        return runs

    def _passages(self, rows: Sequence[int]) -> list[Passage]:
        return [passage_of(self._table.item(row), self._terms[row]) for row in rows]
