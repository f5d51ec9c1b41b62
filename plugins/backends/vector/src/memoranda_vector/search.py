"""Ranked search over a table: by meaning, by words, and by both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from memoranda.embeddings import Embeddings
from memoranda.items import MemoryItem
from memoranda.loops import ITEMS_FILTERED_PER_TURN, ITEMS_PER_TURN, LoopLock, import_in_thread, offload, word_weight
from memoranda.store import RankedItem, copy_item
from memoranda.store.backend import Expiry, Filter
from memoranda_backend.ranking import (
    HEARD,
    Added,
    KeptScopes,
    ScopeArrays,
    Weights,
    calibrated,
    capitalised,
    embed_query,
    fold_words,
    likeness,
    of_length_one,
    passage_of,
    query_without_names,
    rank,
    taking_part,
)
from memoranda_vector.batch_columns import Matrix, Times
from memoranda_vector.column_index import Rows
from memoranda_vector.filtering import matching_rows
from memoranda_vector.table import Table
from memoranda_vector.vectors import ApproximateIndex, Compared, best, compare, passage_text, unit_vector

MOST_BYTES = 256 << 20
"""About how many bytes are kept for all scopes. A larger scope is kept alone."""

_QUICK = 20_000
"""How many items a scope may have for a small change to be made in the event loop: sorting takes a while."""


class ScopeIndex:
    """The items of one scope. Those whose stamps it knows are in its arrays, and no others.

    Only the search that holds the lock may use it. If that is broken off, a thread may still be at work on the arrays:
    then it has to :meth:`start_anew`.
    """

    def __init__(self, passage: float) -> None:
        self.lock = LoopLock()
        self._passage = passage
        self.start_anew()

    def start_anew(self) -> None:
        """Forget all items."""
        self.arrays = ScopeArrays(self._passage)
        self.size = 0
        self._stamps: Times = np.empty(0, dtype=np.int64)
        self._numbers: Times = np.empty(0, dtype=np.int64)

    async def follow(self, table: Table, scope: Filter) -> Rows:
        """Take note of what has changed since the last search, and return the rows of the scope.

        The result holds until the next ``await``.
        """
        while True:
            rows = table.listed(await matching_rows(table, scope))
            stamps, numbers = table.stamps[rows], table.added[rows]
            known = len(self._stamps)
            if np.array_equal(stamps[:known], self._stamps):  # As after most changes: what is new comes last.
                left = np.ones(known, dtype=np.bool_)
                new = np.arange(known, len(rows))
            else:
                left = np.isin(self._stamps, stamps)
                new = np.flatnonzero(np.isin(stamps, self._stamps, invert=True))
            gone = self._numbers[~left].tolist()
            if not len(new) and not gone:
                self._stamps, self._numbers = stamps, numbers
                return rows
            new = new[:ITEMS_FILTERED_PER_TURN]
            items = table.items_of(rows[new])
            letters = sum([len(item.content) for item in items])
            weight = max(len(new) + len(gone), word_weight(letters), len(rows) * ITEMS_PER_TURN // _QUICK)
            await offload(weight, self._change, gone, numbers[new].tolist(), items)
            self._stamps = np.concatenate([self._stamps[left], stamps[new]])
            self._numbers = np.concatenate([self._numbers[left], numbers[new]])
            if self.arrays.is_worn:
                self.start_anew()

    def places(self) -> NDArray[np.intp]:
        """Return the place among the rows of each item of the layout."""
        order = np.argsort(self._numbers)
        return order[np.searchsorted(self._numbers, self.arrays.layout.numbers, sorter=order)]

    def _change(self, gone: Sequence[int], numbers: Sequence[int], items: Sequence[MemoryItem]) -> None:
        self.arrays.remove(gone)
        self.arrays.add([Added(number, passage_of(item)) for number, item in zip(numbers, items, strict=True)])
        self.size = self.arrays.size


def scope_key(scope: Filter) -> tuple[str, ...]:
    """Return what a scope is kept under. Time passes for every search and makes no other scope of it."""
    return tuple([repr(each) for each in scope.conditions if type(each) is not Expiry or each.expired])


class Searcher:
    """Ranks the items of a table and keeps the indexes for that up to date."""

    def __init__(
        self, table: Table, embeddings: Embeddings, weights: Weights, ann: ApproximateIndex | None, ann_above: int
    ) -> None:
        self._table = table
        self._embeddings = embeddings
        self._weights = weights
        self._ann = ann
        self._ann_above = ann_above
        self._scopes: KeptScopes[ScopeIndex] = KeptScopes()

    def changed(self, rows: Iterable[int]) -> None:
        """Mark rows whose vector was replaced or removed."""
        if self._ann is not None:
            self._ann.touch(rows)

    def forget(self) -> None:
        """Drop what is kept between searches: it may hold words of purged items."""
        self._scopes.forget()

    async def by_meaning(self, query: str, wanted: Filter, limit: int) -> list[RankedItem]:
        """Return the items whose vectors are nearest to the query's."""
        table = self._table
        vector, unrelated = await self._query_vector(query, wanted)
        rows = await matching_rows(table, wanted)
        if rows is None and self._ann is not None and len(table) > self._ann_above and limit < len(table) // 10:
            rows = await self._ann.nearest(table, vector, limit)
        alike = await compare(table, rows, vector, self._weights.damping)
        found = best(table, rows, alike.similarities, limit)
        # While a thread compared the vectors, a row may have been freed or reused for an item of another user.
        rows_found = [(row, table.items[row], similarity) for row, similarity in found]
        return await offload(len(rows_found), _ranked_by_meaning, rows_found, alike, wanted, unrelated)

    async def by_words(self, query: str, wanted: Filter, limit: int, *, with_meaning: bool) -> list[RankedItem]:
        """Return the items that share words with the query, themselves or in the turns around them.

        With meaning, similarity counts, too.
        """
        table = self._table
        # Neighbours count whatever their type and status, so these filters come after the ranking.
        scope = wanted.scope()
        vector, unrelated = await self._query_vector(query, scope) if with_meaning else (None, 0.0)
        await import_in_thread("numpy.ma")  # numpy.unique imports it.
        key = scope_key(scope)
        index = self._scopes.of(key, lambda: ScopeIndex(self._weights.passage))
        async with index.lock.held():
            try:
                rows = await index.follow(table, scope)
                self._scopes.measured(key, index, index.size, MOST_BYTES)
                items = _CurrentItems(table, index, rows, wanted)
                if vector is not None:  # Here, where no row is changed meanwhile.
                    calibrated(index.arrays, items.mean_vectors)
                alike = None if vector is None else await compare(table, rows, vector, self._weights.damping)
                return await offload(len(rows), self._ranked_by_words, query, items, alike, unrelated, limit)
            except BaseException:
                index.start_anew()
                raise

    def _ranked_by_words(
        self, query: str, items: _CurrentItems, alike: Compared | None, unrelated: float, limit: int
    ) -> list[RankedItem]:
        places = items.index.places()
        found: dict[int, MemoryItem] = {}

        def chosen(place: int) -> bool:
            item = items.at(int(places[place]))
            if item is not None:
                found[place] = item
            return item is not None

        scored = rank(
            items.index.arrays,
            query,
            self._weights,
            near=None if alike is None else alike.similarities[places].astype(np.float64),
            wanted=chosen,
            limit=limit,
            unrelated=unrelated,
        )
        ranked = []
        for each in scored:
            item, row = found[each.item], int(items.rows[places[each.item]])
            nearest = "" if alike is None else passage_text(item.content, alike.passage(row))
            ranked.append(each.ranked(copy_item(item), nearest))
        return ranked

    async def _query_vector(self, query: str, scope: Filter) -> tuple[Matrix, float]:
        """Return the vector of a query, and how similar unrelated texts are to it."""
        text = query_without_names(query, await self._speakers(query, scope))
        vector, unrelated = await embed_query(self._embeddings, text)
        return unit_vector(vector), unrelated

    async def _speakers(self, query: str, scope: Filter) -> set[str]:
        """Return who takes part in the newest items of the scope, if the query may name someone."""
        index = self._table.indexes["speaker"]
        if not capitalised(query) and not any(index.count(word) for word in fold_words(query)):
            return set()
        newest = self._table.newest_first(await matching_rows(self._table, scope), HEARD)
        items = [self._table.item(row) for row in newest.tolist()]
        return taking_part(query, [(item.name, item.content) for item in items])


def _ranked_by_meaning(
    rows_found: Iterable[tuple[int, MemoryItem | None, float]], alike: Compared, wanted: Filter, unrelated: float
) -> list[RankedItem]:
    found = [
        (row, item, similarity) for row, item, similarity in rows_found if item is not None and wanted.matches(item)
    ]
    scores = likeness(np.array([similarity for _, _, similarity in found]), unrelated).tolist()
    return [
        RankedItem(
            copy_item(item),
            score,
            {"semantic": score},
            passage=passage_text(item.content, alike.passage(row)),
            meaning=1.0,
        )
        for (row, item, _), score in zip(found, scores, strict=True)
    ]


class _CurrentItems:
    """The items of an index's rows that match a filter, as long as they are what the index knows.

    Others may change them while a thread ranks: a row may be freed, or used again for an item of another user.
    """

    def __init__(self, table: Table, index: ScopeIndex, rows: Rows, wanted: Filter) -> None:
        self.index = index
        self.rows = rows
        self._table = table
        self._wanted = wanted
        self._stamps = table.stamps[rows]

    def mean_vectors(self, items: NDArray[np.int64]) -> tuple[Matrix, NDArray[np.bool_]]:
        """Return one vector of length one for each of some items of the layout, and which of them have one."""
        rows = self.rows[self.index.places()[items]]
        found = self._table.matrix[rows]
        for place in np.flatnonzero(self._table.divided[rows]).tolist():
            found[place] = np.vstack((found[place], self._table.further[int(rows[place])])).mean(axis=0)
        return of_length_one(found)

    def at(self, place: int) -> MemoryItem | None:
        """Return the item of a row by its place; None if it does not match or has changed."""
        row = int(self.rows[place])
        item = self._table.items[row]
        # A row has its new stamp before its new item.
        if item is None or self._table.stamps[row] != self._stamps[place] or not self._wanted.matches(item):
            return None
        return item
