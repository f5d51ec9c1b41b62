"""An inverted index of rows by their words and speakers, and the turns around a row."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterable
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from memoranda.items import MemoryItem
from memoranda.loops import LoopLock
from memoranda.offloading import CHANGED_AT_ONCE, LETTERS_AT_ONCE, in_slices, offload, word_weight
from memoranda_ranking import Passage, index_terms, passage_of
from memoranda_vector.column_index import Rows
from memoranda_vector.table import Table

Mask = NDArray[np.bool_]
"""True for the rows that are meant, over all rows of the table."""

_FEW_CONVERSATIONS = 8

# Terms consist of letters and digits, so no word of a content begins with this.
_SPEAKER = "@"


class _Postings:
    """The rows of one key, and the number of the key among those of each row."""

    __slots__ = ("numbers", "rows")

    def __init__(self) -> None:
        self.rows = array("i")
        self.numbers = array("i")


class WordIndex:
    """The rows of each term. The index is built at the first search by words and kept up to date from then on.

    A row is listed under the terms of its content, and under those of its name with a prefix. Each row knows its place
    in every list that it is in, so that a change touches only these lists. A term that no row has any more is dropped.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._passages: dict[int, Passage] = {}
        self._keys: dict[int, tuple[str, ...]] = {}
        self._places: dict[int, array[int]] = {}
        self._postings: dict[str, _Postings] = {}
        self._building = LoopLock()
        self._unlisted: dict[int, None] = {row: None for row, item in enumerate(table.items) if item is not None}

    def changed(self, row: int) -> None:
        """Drop the words of a row; its new ones are listed before the next search."""
        self._take(row)
        if self._table.items[row] is None:
            self._unlisted.pop(row, None)
        else:
            self._unlisted[row] = None

    def changed_many(self, rows: Iterable[int]) -> None:
        """Mark changed rows: their old words are no longer found, and :meth:`forget` drops them."""
        self._unlisted.update(dict.fromkeys(rows))

    async def forget(self) -> None:
        """Drop the words of changed rows, a part at a time."""
        async for rows in in_slices(list(self._unlisted), CHANGED_AT_ONCE):
            for row in rows:
                if row in self._unlisted:
                    self.changed(row)

    async def build(self) -> None:
        """List the rows that are not listed yet, a part at a time, so that the event loop is not blocked.

        Rows that change while this or its caller waits are not listed again: see :meth:`listed`.
        """
        async with self._building.held():
            while self._unlisted:
                rows = list(islice(self._unlisted, CHANGED_AT_ONCE))
                letters = 0
                for row in rows:
                    self.changed(row)
                    item = self._table.items[row]
                    if item is None:
                        continue
                    letters += len(item.content)
                    if len(item.content) > LETTERS_AT_ONCE:
                        indexed = await offload(word_weight(len(item.content)), _indexed, item)
                        if self._table.items[row] is item:
                            self._put(row, *indexed)
                    else:
                        self._put(row, *_indexed(item))
                    if letters > LETTERS_AT_ONCE:
                        break  # After a wait, other rows may have to be listed.
                if self._unlisted:
                    await asyncio.sleep(0)

    def listed(self, scope: Mask) -> Mask:
        """Return a scope without the rows that are not listed yet because they have just changed."""
        if self._unlisted:
            scope = scope.copy()
            scope[np.fromiter(self._unlisted, dtype=np.int32, count=len(self._unlisted))] = False
        return scope

    def _put(self, row: int, passage: Passage, keys: tuple[str, ...]) -> None:
        """List a row that is not listed under the keys of its item."""
        self._unlisted.pop(row, None)
        self._passages[row], self._keys[row] = passage, keys
        places = self._places[row] = array("i")
        for number, key in enumerate(keys):
            postings = self._postings.get(key)
            if postings is None:
                postings = self._postings[key] = _Postings()
            places.append(len(postings.rows))
            postings.rows.append(row)
            postings.numbers.append(number)

    def _take(self, row: int) -> None:
        """Remove a row from its lists: the last row of each list moves to its place."""
        if self._passages.pop(row, None) is None:
            return
        for key, place in zip(self._keys.pop(row), self._places.pop(row), strict=True):
            postings = self._postings[key]
            last, number = postings.rows.pop(), postings.numbers.pop()
            if last != row:
                postings.rows[place], postings.numbers[place] = last, number
                self._places[last][number] = place
            elif not postings.rows:
                del self._postings[key]

    def with_term(self, term: str, scope: Mask) -> Rows:
        """Return the rows of a scope that have a term."""
        return self._listed([term], scope)

    def spoken_by(self, term: str, scope: Mask) -> Rows:
        """Return the rows of a scope that have this term in their name."""
        return self._listed([_SPEAKER + term], scope)

    def with_letters(self, letters: str, scope: Mask) -> Rows:
        """Return the rows of a scope with a term that contains these letters."""
        alike = [key for key in self._postings if letters in key and key[0] != _SPEAKER]
        return self._listed(alike, scope)

    def _listed(self, keys: Iterable[str], scope: Mask) -> Rows:
        """Return the rows of a scope that are listed under any of the keys."""
        listed = [np.empty(0, dtype=np.int32)]
        for key in keys:
            postings = self._postings.get(key)
            if postings is not None:
                rows = np.frombuffer(postings.rows, dtype=np.int32)
                listed.append(rows[scope[rows]])
        # One key lists each row once; only several keys can repeat a row.
        return listed[-1] if len(listed) <= 2 else np.unique(np.concatenate(listed))

    def passages(self, rows: Iterable[int]) -> list[Passage]:
        """Return the passages of listed rows."""
        return list(map(self._passages.__getitem__, rows))

    def windows(self, rows: Rows, scope: Mask, around: int) -> list[list[int]]:
        """Return the rows with this many turns around each, as runs of consecutive turns of one conversation."""
        table = self._table
        codes = table.indexes["conversation"].codes
        turns = table.oldest_first_by(codes, self._same_conversations(rows, scope))
        spoken = codes[turns]
        marked = np.zeros(len(scope), dtype=np.bool_)
        marked[rows] = True
        places = np.flatnonzero(marked[turns])
        if not len(places):
            return []
        first = np.maximum(places - around, np.searchsorted(spoken, spoken[places]))
        end = np.minimum(places + around + 1, np.searchsorted(spoken, spoken[places], side="right"))
        # Windows that share a turn become one run; those that only touch stay apart, as in every other backend.
        apart = np.flatnonzero(first[1:] >= end[:-1])
        runs = zip(first[np.append(0, apart + 1)].tolist(), end[np.append(apart, len(end) - 1)].tolist(), strict=True)
        return [turns[start:stop].tolist() for start, stop in runs]

    def _same_conversations(self, rows: Rows, scope: Mask) -> Rows:
        """Return the rows of a scope that belong to a conversation of these rows."""
        index = self._table.indexes["conversation"]
        codes = np.unique(index.codes[rows])
        if len(codes) <= _FEW_CONVERSATIONS:
            found = [np.empty(0, dtype=np.int32), *(index.rows(index.value(code)) for code in codes.tolist())]
            together: Rows = np.concatenate(found)
            return together[scope[together]]
        within: Rows = np.flatnonzero(scope).astype(np.int32)
        return within[np.isin(index.codes[within], codes)]


def _indexed(item: MemoryItem) -> tuple[Passage, tuple[str, ...]]:
    """Return the passage of an item, and the keys under which it is listed."""
    terms = index_terms(item.content)
    keys = dict.fromkeys(terms)
    if item.name:
        keys |= dict.fromkeys(_SPEAKER + term for term in index_terms(item.name))
    return passage_of(item, terms), tuple(keys)
