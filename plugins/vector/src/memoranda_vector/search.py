"""Ranked search over a table: by meaning, by words, and by both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np

from memoranda.embeddings import Embeddings
from memoranda.items import MemoryItem
from memoranda.offloading import AT_ONCE, import_in_thread, offload, word_weight
from memoranda.store import RankedItem, copy_item
from memoranda.store.backend import Filter
from memoranda_ranking import (
    HEARD,
    Around,
    Best,
    Frequencies,
    Nearest,
    OnDay,
    Passage,
    Question,
    Size,
    SpokenBy,
    Weights,
    Whole,
    WithLetters,
    capitalised,
    fold_words,
    gather,
    gathered,
    likeness,
    query_without_names,
    rank_hybrid,
    taking_part,
    unrelated_similarity,
)
from memoranda_vector.batch_columns import Matrix
from memoranda_vector.column_index import Rows
from memoranda_vector.filtering import matching_rows, select_rows
from memoranda_vector.nearest import ApproximateIndex, Compared, Found, best, compare, passage_text
from memoranda_vector.table import Table
from memoranda_vector.vectors import embed_one
from memoranda_vector.word_index import Mask, WordIndex

_DIGITS = 9  # A floating-point sum depends on the order of its terms.


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
        self._words: WordIndex | None = None

    def changed(self, rows: list[int]) -> None:
        """Mark rows whose item was replaced or removed."""
        if self._ann is not None:
            self._ann.touch(rows)
        if self._words is not None:
            for row in rows:
                self._words.changed(row)

    def changed_many(self, rows: list[int]) -> None:
        """Mark many such rows. Their old words are no longer found; :meth:`forget` drops them from the index."""
        if self._ann is not None:
            self._ann.touch(rows)
        if self._words is not None:
            self._words.changed_many(rows)

    async def forget(self) -> None:
        """Drop the old words of changed rows, a part at a time."""
        if self._words is not None:
            await self._words.forget()

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

        With meaning, the nearest items are candidates as well, and similarity counts.
        """
        table = self._table
        # Neighbours count whatever their type and status, so these filters come after the ranking.
        scope = wanted.scope()
        vector, unrelated = await self._query_vector(query, scope) if with_meaning else (None, 0.0)
        await import_in_thread("numpy.ma")  # numpy.unique imports it.
        self._words = words = self._words or WordIndex(table)
        await words.build()
        chosen = table.listed(await matching_rows(table, scope))
        added = table.added[chosen]
        asked = chosen if wanted == scope else table.listed(await matching_rows(table, wanted))
        alike = None if vector is None else await compare(table, chosen, vector, self._weights.damping)
        near = None if alike is None else (chosen, alike.similarities)
        # Nothing is awaited from here until all candidates are gathered. Rows that changed since their words were
        # indexed are left out, and so are rows that were freed or reused meanwhile and indexed by another search.
        same = chosen[table.added[chosen] == added]
        inside = words.listed(table.mask(same) & table.mask(table.listed(select_rows(table, scope))))
        lookup = _Lookup(table, words, inside, table.mask(asked), near)
        gathering = gather(query, self._weights, limit, filtered=wanted != scope, meaning=with_meaning)
        candidates = gathered(gathering, lookup.answer)
        similar: dict[str, float] = {}
        rows = lookup.rows
        if near is not None:
            cosines = np.zeros(len(inside), dtype=np.float32)
            cosines[near[0]] = near[1]
            similar = dict(zip(rows, cosines[list(rows.values())].tolist(), strict=True))
        # Items are read now: their rows may be reused before the ranking is done.
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
                unrelated=unrelated,
            )
            return [result.ranked(copy_item(items[result.key])) for result in scored]

        weight = len(items)
        if weight <= AT_ONCE:  # They may be long.
            weight = max(weight, word_weight(sum(len(item.content) for item in items.values())))
        return await offload(weight, ranked)

    async def _query_vector(self, query: str, scope: Filter) -> tuple[Matrix, float]:
        """Return the vector of a query, and how similar unrelated texts are to it."""
        text = query_without_names(query, await self._speakers(query, scope))
        vector = await embed_one(self._embeddings, text, query=True)
        return vector, await unrelated_similarity(self._embeddings, vector.tolist())

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
        (row, item, likeness(cosine, unrelated))
        for row, item, cosine in rows_found
        if item is not None and wanted.matches(item)
    ]
    return [
        RankedItem(copy_item(item), score, {"semantic": score}, passage=passage_text(item.content, alike.passage(row)))
        for row, item, score in found
    ]


class _Lookup:
    """Answers the questions of one ranking from a table and its words. Items are identified by their rows.

    ``inside`` is the mask of the scope's rows, ``asked`` that of the rows that match every filter, and ``near`` the
    similarities of rows, if meaning counts.
    """

    def __init__(self, table: Table, words: WordIndex, inside: Mask, asked: Mask, near: Found | None) -> None:
        self._table = table
        self._words = words
        self._inside = inside
        self._asked = asked
        self._near = near
        self._having: dict[str, Rows] = {}
        self.rows: dict[str, int] = {}
        """The rows of all passages that were returned, by their keys."""

    def answer(self, question: Question) -> Any:
        """Return the answer to a question of the candidate policy."""
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
            case Best(rarities, most, matching):
                return self._best(rarities, inside & self._asked if matching else inside, most)
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

    def _best(self, rarities: Mapping[str, float], inside: Mask, most: int) -> list[int]:
        sums = np.zeros(len(inside), dtype=np.float64)
        for term, rarity in rarities.items():
            sums[self._having[term]] += rarity
        found = np.flatnonzero((sums > 0) & inside).astype(np.int32)
        order = self._table.order(sums[found].round(_DIGITS), found)[:most]
        return _row_numbers(found[order])

    def _on_day(self, day: str) -> Rows:
        first = np.datetime64(day)
        start, end = (moment.astype("datetime64[us]").astype(np.int64) for moment in (first, first + 1))
        times = self._table.times[: len(self._inside)]
        return np.flatnonzero(self._inside & (times >= start) & (times < end)).astype(np.int32)

    def _newest(self, rows: Rows, most: int) -> list[int]:
        return _row_numbers(self._table.newest_first(rows, most))

    def _nearest(self, most: int) -> list[int]:
        if self._near is None:
            return []
        return [row for row, _ in best(self._table, *self._near, most) if self._inside[row]]

    def _windows(self, rows: Rows, around: int) -> list[list[Passage]]:
        windows = self._words.windows(rows, self._inside, around)
        passages = [self._words.passages(window) for window in windows]
        flat = chain.from_iterable
        self.rows = {passage.key: row for passage, row in zip(flat(passages), flat(windows), strict=True)}
        return passages


def _row_numbers(rows: Rows) -> list[int]:
    numbers: list[int] = rows.tolist()
    return numbers
