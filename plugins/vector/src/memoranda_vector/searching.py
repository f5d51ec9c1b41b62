"""Ranked search over a table: by meaning, by words, and by both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from memoranda.embeddings import Embeddings
from memoranda.items import MemoryItem
from memoranda.ranking import (
    NEAREST,
    WHOLE_SCOPE,
    RankedItem,
    Weights,
    fold_words,
    query_without_names,
    rank_hybrid,
    speaker_of,
    turns_around,
)
from memoranda.store import Filter, copy_item
from memoranda.turns import aside
from memoranda_vector.ann import ApproximateIndex
from memoranda_vector.facets import Rows
from memoranda_vector.nearest import best, similarities
from memoranda_vector.table import Matrix, Table
from memoranda_vector.vectors import embed_one
from memoranda_vector.word_index import Turn, WordIndex

_SAMPLE = 50
_NO_ROWS: Rows = np.zeros(0, dtype=np.int32)
_NO_NUMBERS: NDArray[np.float32] = np.zeros(0, dtype=np.float32)


class Searcher:
    """Ranks the items of a table, and keeps the indexes that this needs up to date."""

    def __init__(
        self, table: Table, embeddings: Embeddings, weights: Weights, ann: ApproximateIndex | None, ann_above: int
    ) -> None:
        self._table = table
        self._embeddings = embeddings
        self._weights = weights
        self._ann = ann
        self._ann_above = ann_above
        self._words: WordIndex | None = None

    def changed(self, rows: list[int]) -> None:
        """Take note that these rows have another item, or none any more."""
        if self._ann is not None:
            self._ann.touch(rows)
        if self._words is not None:
            for row in rows:
                self._words.changed(row)

    async def by_meaning(self, query: str, wanted: Filter, limit: int) -> list[RankedItem]:
        """Return the items whose vectors are nearest to the query's."""
        table = self._table
        vector = await self._query_vector(query, wanted)
        rows = await table.chosen(wanted)
        if rows is None and self._ann is not None and len(table) > self._ann_above and limit < len(table) // 10:
            rows = await self._ann.nearest(table, vector, limit)
        found = best(table, rows, await similarities(table, rows, vector), limit)
        # While a thread compared the vectors, a row may have been freed, or given to somebody else's item.
        shown = [(table.items[row], similarity) for row, similarity in found]
        return await aside(len(shown), _ranked_by_meaning, shown, wanted)

    async def by_words(self, query: str, wanted: Filter, limit: int, *, with_meaning: bool) -> list[RankedItem]:
        """Return the items that share words with the query, themselves or in the turns around them.

        With meaning, the nearest items are candidates as well, and similarity counts.
        """
        table = self._table
        # Neighbours count whatever their type and status, so these filters come after the ranking.
        scope = wanted.scope()
        vector = await self._query_vector(query, scope) if with_meaning else None
        self._words = words = self._words or WordIndex(table)
        await words.build()
        chosen = table.listed(await table.chosen(scope))
        stamps = table.stamps(chosen)
        asked = chosen if wanted == scope else table.listed(await table.chosen(wanted))
        rows, found = _NO_ROWS, _NO_NUMBERS
        if vector is not None:
            rows, found = chosen, await similarities(table, chosen, vector)
        # From here on nothing waits until all is gathered. What changed since the words were listed is left out, and so
        # are rows that were freed or given to somebody else's item meanwhile, and that another search has listed.
        same = chosen[table.stamps(chosen) == stamps]
        inside = words.listed(table.mask(same) & table.mask(table.listed(table.select(scope))))
        whole = np.count_nonzero(inside) <= WHOLE_SCOPE
        hits, frequencies = (_NO_ROWS, {}) if whole else words.hits(query, inside, limit)
        if wanted != scope and not whole:
            # Those that do not match count as neighbours, but must not take the place of any that do.
            matching, _ = words.hits(query, inside & table.mask(asked), limit)
            hits = np.union1d(hits, matching)
        near = np.array([row for row, _ in best(table, rows, found, NEAREST) if inside[row]], dtype=np.int32)
        if whole:
            near = np.flatnonzero(inside).astype(np.int32)
        windows = words.windows(np.union1d(hits, near), inside, turns_around(self._weights))
        cosines = np.zeros(len(inside), dtype=np.float32)
        cosines[rows] = found
        similar = {turn.item.id: float(cosines[table.row_in_use(turn.item.id)]) for run in windows for turn in run}
        return await aside(
            len(similar),
            _ranked_by_words,
            query,
            windows,
            similar if with_meaning else {},
            wanted,
            total=int(inside.sum()),
            frequencies=frequencies,
            weights=self._weights,
            limit=limit,
        )

    async def _query_vector(self, query: str, scope: Filter) -> Matrix:
        return await embed_one(
            self._embeddings, query_without_names(query, await self._speakers(query, scope)), query=True
        )

    async def _speakers(self, query: str, scope: Filter) -> set[str]:
        """Return the names of those who speak within the scope and whom the query may name."""
        facet = self._table.facets["speaker"]
        codes = [code for word in set(fold_words(query)) if (code := facet.code(word)) is not None]
        if not codes:
            return set()
        rows = self._table.listed(await self._table.chosen(scope))
        items = [self._table.item(row) for code in codes for row in rows[facet.codes[rows] == code][:_SAMPLE].tolist()]
        return {speaker_of(item.name, "", item.content) for item in items}


def _ranked_by_meaning(shown: Iterable[tuple[MemoryItem | None, float]], wanted: Filter) -> list[RankedItem]:
    return [
        RankedItem(copy_item(item), similarity, {"semantic": similarity})
        for item, similarity in shown
        if item is not None and wanted.matches(item)
    ]


def _ranked_by_words(
    query: str,
    windows: Sequence[Sequence[Turn]],
    similar: Mapping[str, float],
    wanted: Filter,
    *,
    total: int,
    frequencies: Mapping[str, int],
    weights: Weights,
    limit: int,
) -> list[RankedItem]:
    items = {turn.item.id: turn.item for run in windows for turn in run}
    scored = rank_hybrid(
        query,
        [[turn.passage() for turn in run] for run in windows],
        similar,
        total=total,
        frequencies=frequencies,
        weights=weights,
        wanted=lambda key: wanted.matches(items[key]),
        limit=limit,
    )
    return [RankedItem.of(copy_item(items[result.key]), result) for result in scored]
