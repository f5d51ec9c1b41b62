"""Ranks the items of a scope by their words, or by their words and their meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, compress, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoranda_backend.ranking.calibration import calibrated
from memoranda_backend.ranking.fusion import likeness, semantic_share, standing_out
from memoranda_backend.ranking.passages import Passage, Scored, Weights
from memoranda_backend.ranking.scope_arrays import Added, Flags, Floats, Ints, ScopeArrays, Wanted
from memoranda_backend.ranking.scoring import WordScores, asked
from memoranda_backend.ranking.telling import most_telling
from memoranda_backend.ranking.verdict import evidence
from memoranda_backend.ranking.windows import joined

_FIRST = 10
"""Among how many of the first a standing instruction keeps a place."""

_SORTED_FIRST = 64
"""How many of the best are put in order first; usually no more are asked for."""


_TIED = 1e-9
"""The relative difference below which two scores are equal but for rounding."""


def rank_text(
    query: str,
    windows: Iterable[Sequence[Passage]],
    *,
    total: int | None = None,
    frequencies: Mapping[str, int] | None = None,
    weights: Weights | None = None,
    wanted: Callable[[str], bool] | None = None,
    limit: int | None = None,
) -> list[Scored]:
    """Return the passages that have to do with the query, best first; of equal score, the newest first.

    Each window holds consecutive turns of one conversation, oldest first: a whole conversation, or a turn that shares a
    term with the query together with the turns around it (two on each side are enough). Windows that overlap are
    joined, and their order does not matter. ``total`` is the number of items in the scope from which the windows were
    taken. ``frequencies`` says in how many of them each term occurs; give it where not all of these are in the windows.
    Passages without any term of the query in reach are left out, and so are empty ones; a query without terms finds
    nothing. At most ``limit`` are returned, of those whose key passes ``wanted``; all count as each other's neighbours.
    """
    return rank_hybrid(
        query, windows, {}, total=total, frequencies=frequencies, weights=weights, wanted=wanted, limit=limit
    )


def rank_hybrid(
    query: str,
    windows: Iterable[Sequence[Passage]],
    similarities: Mapping[str, float],
    *,
    total: int | None = None,
    frequencies: Mapping[str, int] | None = None,
    weights: Weights | None = None,
    wanted: Callable[[str], bool] | None = None,
    limit: int | None = None,
    unrelated: float = 0.0,
) -> list[Scored]:
    """Rank as :func:`rank_text` does, with words and meaning together.

    ``similarities`` are cosines by key, of a long item that of its best passage, held back as :func:`held_back` does; a
    passage without one, or with a negative one, counts as unlike the query. The windows hold the most similar passages
    too, alone or with their neighbours. ``unrelated`` is how similar texts are that have nothing to do with the query.
    """
    weights = weights or Weights()
    arrays = ScopeArrays(weights.passage, as_given=True)
    runs = enumerate(joined(windows))
    placed = [(run, passage) for run, window in runs for passage in window]
    arrays.add([Added(number, passage, run=run) for number, (run, passage) in enumerate(placed)])
    if not query or not len(arrays):
        return []
    keys = [arrays.keys[row] for row in arrays.layout.rows.tolist()]
    near = np.array([similarities.get(key, 0.0) for key in keys]) if similarities else None
    return rank(
        arrays,
        query,
        weights,
        near=near,
        total=total,
        frequencies=frequencies,
        wanted=None if wanted is None else lambda item: wanted(keys[item]),
        limit=limit,
        unrelated=unrelated,
    )


def rank(
    arrays: ScopeArrays,
    query: str,
    weights: Weights,
    *,
    near: Floats | None = None,
    total: int | None = None,
    frequencies: Mapping[str, int] | None = None,
    wanted: Wanted | None = None,
    limit: int | None = None,
    unrelated: float = 0.0,
) -> list[Scored]:
    """Rank the items of a scope; ``near`` are their similarities, and ``wanted`` chooses some, in the layout's order.

    Words and meaning are each taken relative to their best and added in their proportion; the bonuses come on top. The
    score of the best is how well it answers the query, from 0 to 1: the part of the query's words that it covers, the
    rare ones counting more, and how much more similar it is than ``unrelated`` texts, in the same proportion. The
    others have their part of that. An empty query asks for what is worth knowing anyway: see
    :mod:`memoranda_backend.ranking.telling`.
    """
    if not len(arrays):
        return []
    if not query:
        return most_telling(arrays, wanted, limit)
    # What frequencies are known of was stemmed without knowing the scope.
    usual = arrays.language if frequencies is None else None
    scoring = _Scoring(WordScores(arrays, asked(query, usual), weights, total, frequencies), near, unrelated)
    found = scoring.best_first()
    best = next(found, None)
    if best is None:
        return []
    top = float(scoring.scores[best])
    # Ties are broken by order, which must not change the scores.
    unit = float(scoring.relevance[scoring.scores >= top * (1 - _TIED)].max()) / top
    items = list(islice(_chosen(chain((best,), found), wanted), limit))
    return scoring.scored(items, unit)


class _Scoring:
    """The score of each item by its words and its meaning, with the bonuses that come on top.

    Words and meaning are taken in their proportions, each relative to its own best, and together relative to the most
    relevant item. Of one with several passages the best counts, less the more there are: many find something by chance.
    """

    def __init__(self, words: WordScores, near: Floats | None, unrelated: float) -> None:
        self.words = words
        self._layout = layout = words.layout
        weights = words.weights
        self._by_place = words.words + words.letters
        texts: Floats = layout.by_item(self._by_place)
        covered = words.covered
        if layout.has_passages:
            texts = texts / layout.parts**weights.damping
            covered = words.covered[self._best_places()]
        self._near = np.zeros(len(layout)) if near is None else np.maximum(near, 0.0)
        meanings = standing_out(self._near) if near is not None else self._near
        self.share = share = self._share(texts, meanings)
        best_text, best_meaning = float(texts.max()) or 1.0, float(meanings.max()) or 1.0
        self._by_words = ((1 - share) / best_text) * texts
        self._by_meaning = (share / best_meaning) * meanings
        relevances = self._by_words + self._by_meaning
        self._best = float(relevances.max()) or 1.0
        self._relevances = relevances / self._best
        alike = self._near if near is None else likeness(self._near, unrelated)
        self.relevance = self._relevance(covered, alike)
        self._most_covered, self._most_alike = float(covered.max()), float(alike.max())
        sittings = np.maximum.reduceat(self._relevances, layout.sitting_starts)
        self._bonuses: dict[str, NDArray[Any]] = {"session": (weights.session * sittings)[layout.sitting]}
        if weights.topic and words.crowding:
            self._bonuses["topic"] = (weights.topic * words.crowding * words.told_in_sitting)[layout.sitting]
        if words.speaking.any():
            self._bonuses["speaker"] = weights.asked_speaker * words.speaking
        if words.query.asks_for_time:
            self._bonuses["time"] = weights.time * words.telling_time
        self._bonuses["statement"] = weights.statement * layout.states
        self.scores = self._relevances + sum(self._bonuses.values())
        # What says nothing answers nothing, whatever was said around it: a turn that only calls tools, say.
        found = np.flatnonzero((self._relevances > 0) & layout.speaks)
        self._order = _descending(self.scores, found, layout.times, layout.numbers)
        self._first = list(islice(self._order, _FIRST))
        self._kept = self._keep_a_place(found)

    def _keep_a_place(self, found: Ints) -> int | None:
        """Lift the best of what holds from now on to the score of the tenth, if none is among the first ten.

        A request for a recipe does not ask for what its user said of nuts, months ago. Returns that item.
        """
        least, first = self.words.weights.standing, self._first
        standing = found[self.words.standing[found]] if least and len(found) > _FIRST else found[:0]
        if not len(standing):
            return None
        standing = standing[self.scores[standing] >= least * self.scores[first[0]]]
        if not len(standing) or not set(first).isdisjoint(standing.tolist()):
            return None
        kept = next(_descending(self.scores, standing, self._layout.times, self._layout.numbers))
        lift = np.zeros(len(self.scores))
        lift[kept] = self.scores[first[-1]] - self.scores[kept]
        self._bonuses["standing"] = lift
        self.scores = self.scores + lift
        return kept

    def _best_places(self) -> Ints:
        """Return the first of the best places of each item."""
        layout = self._layout
        best = self._by_place == layout.by_item(self._by_place)[layout.item_at]
        places = np.flatnonzero(best)
        return places[np.unique(layout.item_at[places], return_index=True)[1]]

    def _share(self, texts: Floats, meanings: Floats) -> float:
        if not self._near.any():
            return 0.0 if texts.any() or not meanings.any() else 1.0
        semantic = self.words.weights.semantic
        if semantic is None:
            semantic = calibrated(self.words.arrays).semantic
        query = self.words.query
        return semantic_share(semantic, texts, meanings, covered=self.words.together, asking=query.is_asking)

    def _relevance(self, covered: Floats, alike: Floats) -> Floats:
        """Return how well each item answers: by its words alone, or by words and meaning in equal parts.

        Vectors that tell nothing count for nothing, and words where the query has none.
        """
        if not self.words.query.terms:
            return alike
        if not self.share:
            return covered
        share = 0.5 * self._known
        return (1 - share) * covered + share * alike

    @property
    def _known(self) -> float:
        """How surely the vectors tell anything, from 0 to 1."""
        if not self.share:
            return 0.0
        given = self.words.weights.semantic
        return calibrated(self.words.arrays).known if given is None else min(1.0, 2 * given)

    @cached_property
    def _evidence(self) -> float:
        return evidence(self._most_covered, self.words.heard, self._most_alike, self._known)

    def best_first(self) -> Iterator[int]:
        """Yield every item that has to do with the query, by score, then the newest first; to be asked for once."""
        if self._kept is None:
            return chain(self._first, self._order)
        others = (item for item in self._order if item != self._kept)
        return chain(self._first[:-1], (self._kept,), self._first[-1:], others)

    def scored(self, items: Sequence[int], unit: float) -> list[Scored]:
        """Return items with their scores in this unit, and what these are made of."""
        words, layout = self.words, self._layout
        at = np.array(items, np.int64)
        first, place, parts = self._places_of(at)
        by_place = self._by_place[place]
        text = self._by_words[at] / self._best
        semantic = self._by_meaning[at] / self._best
        in_letters = np.divide(words.letters[place], by_place, out=np.zeros(len(at)), where=by_place > 0)
        shares = {"text": text * (1 - in_letters), "letters": text * in_letters, "semantic": semantic}
        shares |= {name: bonus[at] for name, bonus in self._bonuses.items()}
        there = {name: (unit * share).tolist() for name, share in shares.items() if share.any()}
        names, count = tuple(there), len(items)
        columns = (
            list(map(words.arrays.keys.__getitem__, layout.rows[at].tolist())),
            (self.scores[at] * unit).tolist(),
            [
                dict(zip(compress(names, row), filter(None, row), strict=True))
                for row in zip(*there.values(), strict=True)
            ],
            words.found_in(at),
            list(
                zip(np.where(by_place, place - first, 0).tolist(), np.where(by_place, parts, 1).tolist(), strict=True)
            ),
            items,
            (semantic > text).tolist(),
            [self.share] * count,
            [self._evidence] * count,
            [words.unheard] * count,
        )
        return list(map(Scored._make, zip(*columns, strict=True)))

    def _places_of(self, items: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the first place of each of some items, its best one, and how many it has."""
        layout = self._layout
        first, end = layout.first_place[items], layout.first_place[items + 1]
        best = first.copy()
        for divided in np.flatnonzero(end - first > 1).tolist() if layout.has_passages else ():
            best[divided] += self._by_place[first[divided] : end[divided]].argmax()
        return first, best, end - first


def nearest_first(arrays: ScopeArrays, near: Floats, wanted: Wanted | None = None) -> Iterator[int]:
    """Return the wanted items of a layout by their similarity, the newest of equal ones first."""
    layout = arrays.layout
    found = _descending(near, np.flatnonzero(arrays.embedded), layout.times, layout.numbers)
    return _chosen(found, wanted)


def _chosen(items: Iterator[int], wanted: Wanted | None) -> Iterator[int]:
    if wanted is None:
        return items
    return filter(wanted.item if isinstance(wanted, np.ndarray) else wanted, items)


def _descending(scores: Floats, items: Ints, times: Ints, numbers: Ints) -> Iterator[int]:
    """Yield items by their scores, then the newest first; the first few at once, since usually no more are read."""
    scores = scores[items]
    while len(items):
        some: Flags = np.ones(len(items), np.bool_)
        if len(items) > 2 * _SORTED_FIRST:
            some = scores >= np.partition(scores, len(scores) - _SORTED_FIRST)[len(scores) - _SORTED_FIRST]
        first = items[some]
        order = np.lexsort((numbers[first], times[first], scores[some]))
        yield from first[order[::-1]].tolist()
        items, scores = items[~some], scores[~some]
