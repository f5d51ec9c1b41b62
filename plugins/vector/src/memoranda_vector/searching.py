"""Ranked search over a table: by meaning, by words, and by both."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from memoranda.embeddings import Embeddings
from memoranda.items import MemoryItem
from memoranda.offloading import AT_ONCE, import_in_thread, offload, word_weight
from memoranda.store import RankedItem, copy_item
from memoranda.store.backend import Filter
from memoranda_ranking import (
    HEARD,
    Weights,
    capitalised,
    fold_words,
    gather,
    gathered,
    query_without_names,
    rank_hybrid,
    taking_part,
)
from memoranda_vector.ann import ApproximateIndex
from memoranda_vector.answers import Answers
from memoranda_vector.batches import Matrix
from memoranda_vector.nearest import Compared, best, compared, passage_text
from memoranda_vector.table import Table
from memoranda_vector.vectors import embed_one
from memoranda_vector.word_index import WordIndex


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

    def changed_many(self, rows: list[int]) -> None:
        """Take note of it for many rows; what they said is not found any more, and :meth:`forget` drops it."""
        if self._ann is not None:
            self._ann.touch(rows)
        if self._words is not None:
            self._words.changed_many(rows)

    async def forget(self) -> None:
        """Drop what changed rows said, a part at a time."""
        if self._words is not None:
            await self._words.forget()

    async def by_meaning(self, query: str, wanted: Filter, limit: int) -> list[RankedItem]:
        """Return the items whose vectors are nearest to the query's."""
        table = self._table
        vector = await self._query_vector(query, wanted)
        rows = await table.chosen(wanted)
        if rows is None and self._ann is not None and len(table) > self._ann_above and limit < len(table) // 10:
            rows = await self._ann.nearest(table, vector, limit)
        alike = await compared(table, rows, vector, self._weights.damping)
        found = best(table, rows, alike.similarities, limit)
        # While a thread compared the vectors, a row may have been freed, or given to somebody else's item.
        shown = [(row, table.items[row], similarity) for row, similarity in found]
        return await offload(len(shown), _ranked_by_meaning, shown, alike, wanted)

    async def by_words(self, query: str, wanted: Filter, limit: int, *, with_meaning: bool) -> list[RankedItem]:
        """Return the items that share words with the query, themselves or in the turns around them.

        With meaning, the nearest items are candidates as well, and similarity counts.
        """
        table = self._table
        # Neighbours count whatever their type and status, so these filters come after the ranking.
        scope = wanted.scope()
        vector = await self._query_vector(query, scope) if with_meaning else None
        await import_in_thread("numpy.ma")  # What makes rows unique looks for it.
        self._words = words = self._words or WordIndex(table)
        await words.build()
        chosen = table.listed(await table.chosen(scope))
        stamps = table.stamps(chosen)
        asked = chosen if wanted == scope else table.listed(await table.chosen(wanted))
        alike = None if vector is None else await compared(table, chosen, vector, self._weights.damping)
        near = None if alike is None else (chosen, alike.similarities)
        # From here on nothing waits until all is gathered. What changed since the words were listed is left out, and so
        # are rows that were freed or given to somebody else's item meanwhile, and that another search has listed.
        same = chosen[table.stamps(chosen) == stamps]
        inside = words.listed(table.mask(same) & table.mask(table.listed(table.select(scope))))
        answers = Answers(table, words, inside, table.mask(asked), near)
        gathering = gather(query, self._weights, limit, filtered=wanted != scope, meaning=with_meaning)
        candidates = gathered(gathering, answers.answer)
        similar: dict[str, float] = {}
        rows = answers.rows
        if near is not None:
            cosines = np.zeros(len(inside), dtype=np.float32)
            cosines[near[0]] = near[1]
            similar = dict(zip(rows, cosines[list(rows.values())].tolist(), strict=True))
        # Now, as they are: another may have the row before the ranking is done.
        held = zip(rows, map(table.items.__getitem__, rows.values()), strict=True)
        items = {key: item for key, item in held if item is not None}

        def ranked() -> list[RankedItem]:
            scored = rank_hybrid(
                query,
                candidates.windows,
                similar,
                total=candidates.total,
                frequencies=candidates.frequencies,
                weights=self._weights,
                wanted=lambda key: wanted.matches(items[key]),
                limit=limit,
                nearest=None
                if alike is None
                else lambda passage: passage_text(passage.text, alike.passage(rows[passage.key])),
            )
            return [result.ranked(copy_item(items[result.key])) for result in scored]

        weight = len(items)
        if weight <= AT_ONCE:  # They may be long.
            weight = max(weight, word_weight(sum(len(item.content) for item in items.values())))
        return await offload(weight, ranked)

    async def _query_vector(self, query: str, scope: Filter) -> Matrix:
        return await embed_one(
            self._embeddings, query_without_names(query, await self._speakers(query, scope)), query=True
        )

    async def _speakers(self, query: str, scope: Filter) -> set[str]:
        """Return who takes part in the newest items of the scope, if the query may name anybody."""
        facet = self._table.facets["speaker"]
        if not capitalised(query) and all(facet.code(word) is None for word in fold_words(query)):
            return set()
        newest = self._table.newest_first(await self._table.chosen(scope), HEARD)
        items = [self._table.item(row) for row in newest.tolist()]
        return taking_part(query, [(item.name, item.content) for item in items])


def _ranked_by_meaning(
    shown: Iterable[tuple[int, MemoryItem | None, float]], alike: Compared, wanted: Filter
) -> list[RankedItem]:
    found = [(row, item, cosine) for row, item, cosine in shown if item is not None and wanted.matches(item)]
    return [
        RankedItem(
            copy_item(item), cosine, {"semantic": cosine}, passage=passage_text(item.content, alike.passage(row))
        )
        for row, item, cosine in found
    ]
