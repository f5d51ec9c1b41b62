"""Candidates for a ranking, as the core's policy has it: rows by their words, dates and speakers, with their turns."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoranda.items import MemoryItem
from memoranda.loops import LoopLock
from memoranda.ranking import (
    MOST_HITS,
    NEWEST_FOUND,
    Passage,
    beginning,
    date_terms,
    index_terms,
    passage_of,
    query_dates,
    query_terms,
    rarity,
)
from memoranda.turns import AT_ONCE, LETTERS_AT_ONCE
from memoranda_vector.facets import Rows
from memoranda_vector.table import Table

_FEW_CONVERSATIONS = 8

# Terms are letters and digits, so that these never stand for a word of the content.
_SPEAKER = "@"
_DATE = "#"


class Turn(NamedTuple):
    """An item with its terms, as they were when a search asked."""

    item: MemoryItem
    terms: list[str]

    def passage(self) -> Passage:
        """Return the turn as ranking sees it."""
        return passage_of(self.item, self.terms)


class _Listing:
    """The rows of one term, and which of its keys the term is for each row."""

    __slots__ = ("numbers", "rows")

    def __init__(self) -> None:
        self.rows = array("i")
        self.numbers = array("i")


class WordIndex:
    """The rows of each term. It is made when words are first asked for, and kept up from then on.

    A row is listed under the terms of its content, and under those of its speaker and its date with a sign before them.
    Each row knows its place in every list that it is in, so that changing it touches these lists and nothing else. A
    term that no row has any more is forgotten.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._terms: dict[int, list[str]] = {}
        self._keys: dict[int, tuple[str, ...]] = {}
        self._places: dict[int, array[int]] = {}
        self._listings: dict[str, _Listing] = {}
        self._building = LoopLock()
        self._unlisted: dict[int, None] = {row: None for row, item in enumerate(table.items) if item is not None}

    def changed(self, row: int) -> None:
        """Forget what a row said; what it says now is listed before the next search."""
        self._take(row)
        if self._table.items[row] is None:
            self._unlisted.pop(row, None)
        else:
            self._unlisted[row] = None

    async def build(self) -> None:
        """List the rows that are not listed yet, a part at a time: others want their turn meanwhile.

        Rows that change while this, or whoever called it, waits are not listed again: see :meth:`listed`.
        """
        async with self._building.held():
            while self._unlisted:
                rows = list(islice(self._unlisted, AT_ONCE))
                letters = 0
                for row in rows:
                    item = self._table.item(row)
                    self._put(row, item)
                    letters += len(item.content)
                    if letters > LETTERS_AT_ONCE:
                        break
                if self._unlisted:
                    await asyncio.sleep(0)

    def listed(self, scope: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return a scope (a mask) without the rows that are not listed yet, because they changed in the last moment."""
        if self._unlisted:
            scope = scope.copy()
            scope[np.fromiter(self._unlisted, dtype=np.int32, count=len(self._unlisted))] = False
        return scope

    def _put(self, row: int, item: MemoryItem) -> None:
        """List a row that is not listed under the terms of its item."""
        self._unlisted.pop(row, None)
        terms = self._terms[row] = index_terms(item.content)
        keys = self._keys[row] = _keys(item, terms)
        places = self._places[row] = array("i")
        for number, key in enumerate(keys):
            listing = self._listings.get(key)
            if listing is None:
                listing = self._listings[key] = _Listing()
            places.append(len(listing.rows))
            listing.rows.append(row)
            listing.numbers.append(number)

    def _take(self, row: int) -> None:
        """Forget the terms of a row: the last of each list moves to its place there."""
        if self._terms.pop(row, None) is None:
            return
        for key, place in zip(self._keys.pop(row), self._places.pop(row), strict=True):
            listing = self._listings[key]
            last, number = listing.rows.pop(), listing.numbers.pop()
            if last != row:
                listing.rows[place], listing.numbers[place] = last, number
                self._places[last][number] = place
            elif not listing.rows:
                del self._listings[key]

    def hits(self, query: str, scope: NDArray[np.bool_], limit: int) -> tuple[Rows, dict[str, int]]:
        """Return the rows of a scope (a mask) that a query may mean, and how many have each of its terms."""
        having = {term: self._listed([term], scope) for term in query_terms(query)}
        size = int(np.count_nonzero(scope))
        told = np.zeros(len(scope), dtype=np.float32)
        for rows in having.values():
            told[rows] += rarity(size, len(rows))
        found = np.flatnonzero(told).astype(np.int32)
        best = found[self._table.order(told[found], found)[: max(MOST_HITS, limit)]]
        certain = [self._on_date(date, scope) for date in query_dates(query)]
        for term, rows in having.items():
            if not len(rows):
                certain += [self._listed([_SPEAKER + term], scope), self._with_letters(beginning(term), scope)]
        newest = [self._table.newest_first(rows, NEWEST_FOUND) for rows in certain]
        return np.unique(np.concatenate([best, *newest])), {term: len(rows) for term, rows in having.items()}

    def _on_date(self, date: str, scope: NDArray[np.bool_]) -> Rows:
        """Return the rows of a day (``2023-05-08``) or a month (``2023-05``)."""
        terms = date_terms(date) or date_terms(f"{date}-01")[1:]
        rows = self._listed([_DATE + terms[0]], scope)
        for term in terms[1:]:
            rows = np.intersect1d(rows, self._listed([_DATE + term], scope))
        return rows

    def _with_letters(self, letters: str | None, scope: NDArray[np.bool_]) -> Rows:
        """Return the rows with a term that has these letters in it."""
        alike = [] if letters is None else [key for key in self._listings if letters in key]
        return self._listed((key for key in alike if key[0] not in (_SPEAKER, _DATE)), scope)

    def _listed(self, keys: Iterable[str], scope: NDArray[np.bool_]) -> Rows:
        """Return the rows of a scope that are listed under any of the keys."""
        listed = [np.empty(0, dtype=np.int32)]
        for key in keys:
            listing = self._listings.get(key)
            if listing is not None:
                rows = np.frombuffer(listing.rows, dtype=np.int32)
                listed.append(rows[scope[rows]])
        return np.unique(np.concatenate(listed))

    def windows(self, rows: Rows, scope: NDArray[np.bool_], around: int) -> list[list[Turn]]:
        """Return the rows with so many turns around each, as runs of consecutive turns of each conversation."""
        table = self._table
        codes = table.facets["conversation"].codes
        turns = table.oldest_first_by(codes, self._same_conversations(rows, scope))
        spoken = codes[turns]
        marked = np.zeros(len(scope), dtype=np.bool_)
        marked[rows] = True
        places = np.flatnonzero(marked[turns])
        near = places[:, np.newaxis] + np.arange(-around, around + 1)
        inside = np.clip(near, 0, len(turns) - 1)
        shown = np.unique(inside[(inside == near) & (spoken[inside] == spoken[places][:, np.newaxis])])
        breaks = np.flatnonzero((np.diff(shown) > 1) | (np.diff(spoken[shown]) != 0)) + 1
        return [
            [Turn(table.item(row), self._terms[row]) for row in turns[run].tolist()]
            for run in np.split(shown, breaks)
            if len(run)
        ]

    def _same_conversations(self, rows: Rows, scope: NDArray[np.bool_]) -> Rows:
        """Return the rows of a scope that belong to a conversation of these rows."""
        facet = self._table.facets["conversation"]
        codes = np.unique(facet.codes[rows])
        if len(codes) <= _FEW_CONVERSATIONS:
            found = [np.empty(0, dtype=np.int32), *(facet.rows(facet.value(code)) for code in codes.tolist())]
            together: Rows = np.concatenate(found)
            return together[scope[together]]
        within: Rows = np.flatnonzero(scope).astype(np.int32)
        return within[np.isin(facet.codes[within], codes)]


def _keys(item: MemoryItem, terms: list[str]) -> tuple[str, ...]:
    """Return what an item is listed under, each once."""
    speaker = (_SPEAKER + term for term in index_terms(passage_of(item, terms).speaker))
    date = (_DATE + term for term in date_terms(item.created_at))
    return tuple(dict.fromkeys([*terms, *speaker, *date]))
