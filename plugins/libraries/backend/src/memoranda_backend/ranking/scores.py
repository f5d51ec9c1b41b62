"""The score of each item by its words and its meaning, with the bonuses that come on top, and the best of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, compress, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoranda_backend.ranking.fusion import calibrated, likeness, semantic_share, standing_out
from memoranda_backend.ranking.passages import Scored
from memoranda_backend.ranking.scope_arrays import Flags, Floats, Ints, ScopeArrays, Wanted
from memoranda_backend.ranking.scoring import WordScores
from memoranda_backend.ranking.verdict import evidence

_FIRST = 10
"""Among how many of the first a standing instruction keeps a place."""

_SORTED_FIRST = 64
"""How many of the best are put in order first; usually no more are asked for."""


_TIED = 1e-9
"""The relative difference below which two scores are equal but for rounding."""


class RankedScope(NamedTuple):
    """A scope to be ranked; ``near`` are the similarities of its items, ``wanted`` chooses some, as in its layout."""

    arrays: ScopeArrays
    near: Floats | None = None
    wanted: Wanted | None = None
    unrelated: float = 0.0
    """How similar texts are that have nothing to do with the query."""


class Scores:
    """The scores of the items of some scopes.

    Words and meaning are taken in their proportions, each relative to the best of its scope, and together relative to
    the most relevant item there. Of one with several passages the best counts, less the more there are: many find
    something by chance.
    """

    def __init__(self, words: WordScores, scopes: Sequence[RankedScope]) -> None:
        self.words, self._scopes = words, scopes
        self._beside = beside = words.beside
        weights = words.weights
        self._by_place = words.words + words.letters
        texts: Floats = beside.by_item(self._by_place)
        covered = words.covered
        if beside.has_passages:
            texts = texts / beside.parts**weights.damping
            covered = words.covered[self._best_places()]
        self._has_vectors = any(scope.near is not None for scope in scopes)
        meanings = self._meanings()
        self.shares = self._shares_of_meaning(texts, meanings)
        best_text = beside.most_of_items(texts)
        units = [(1 - share) / (best or 1.0) for share, best in zip(self.shares, best_text, strict=True)]
        relevances = self._by_words = beside.of_items(units) * texts
        self._by_meaning = meanings
        if self._has_vectors:
            best_meaning = beside.most_of_items(meanings)
            units = [share / (best or 1.0) for share, best in zip(self.shares, best_meaning, strict=True)]
            self._by_meaning = beside.of_items(units) * meanings
            relevances = self._by_words + self._by_meaning
        self._best: Any = beside.of_items([best or 1.0 for best in beside.most_of_items(relevances)])
        self._relevances = relevances / self._best
        alike = self._alike()
        self.relevance = self._relevance(covered, alike)
        self._most_covered, self._most_alike = beside.most_of_items(covered), beside.most_of_items(alike)
        sittings = np.maximum.reduceat(self._relevances, beside.sitting_starts)
        self._bonuses: dict[str, NDArray[Any]] = {"session": (weights.session * sittings)[beside.sitting]}
        crowding = [weights.topic * each for each in words.crowding]
        if any(crowding):
            self._bonuses["topic"] = (beside.of_sittings(crowding) * words.told_in_sitting)[beside.sitting]
        if words.speaking.any():
            self._bonuses["speaker"] = weights.asked_speaker * words.speaking
        if words.query.asks_for_time:
            self._bonuses["time"] = weights.time * words.telling_time
        self._bonuses["statement"] = weights.statement * beside.states
        self.scores = self._relevances + sum(self._bonuses.values())
        # What says nothing answers nothing, whatever was said around it: a turn that only calls tools, say.
        self._found = (self._relevances > 0) & beside.speaks
        self.supported: dict[int, tuple[float, tuple[str, ...]]] = {}
        """The evidence and the words that are missing in each scope that has results."""

    def best(self, limit: int | None) -> list[tuple[int, Scored]]:
        """Return the best of the wanted items, each with the number of its scope."""
        words, items = self.words, list[int]()
        units: list[float] = []
        numbers: list[int] = []
        for number, scope in enumerate(self._scopes):
            here = self._beside.items_of(number)
            order = self._best_first(here)
            best = next(order, None)
            if best is None:
                continue
            top = float(self.scores[best])
            # Ties are broken by order, which must not change the scores.
            relevance = self.relevance[here][self.scores[here] >= top * (1 - _TIED)]
            chosen = islice(chosen_of(chain((best,), order), scope.wanted, here.start), limit)
            items += chosen
            added = len(items) - len(units)
            if added:
                self.supported[number] = self._evidence(number), words.unheard(number)
            units += [float(relevance.max()) / top] * added
            numbers += [number] * added
        if len(self._scopes) > 1 and limit is not None:
            order_of_all = np.argsort(-self.scores[items] * units, kind="stable")[:limit].tolist()
            items, units, numbers = ([each[at] for at in order_of_all] for each in (items, units, numbers))
        return list(zip(numbers, self._scored(items, np.array(units), numbers), strict=True))

    def _best_first(self, here: slice) -> Iterator[int]:
        """Yield every item of a scope that has to do with the query, by score, then the newest first.

        The best of what holds from now on is lifted to the score of the tenth, if none is among the first ten. A
        request for a recipe does not ask for what its user said of nuts, months ago.
        """
        found = np.flatnonzero(self._found[here]) + here.start
        times, numbers = self._beside.times, self._beside.numbers
        order = descending(self.scores, found, times, numbers)
        first = list(islice(order, _FIRST))
        kept = self._to_be_kept(found, first)
        if kept is None:
            return chain(first, order)
        lift = self._bonuses.setdefault("standing", np.zeros(len(self.scores)))
        lift[kept] = self.scores[first[-1]] - self.scores[kept]
        self.scores[kept] += lift[kept]
        return chain(first[:-1], (kept,), first[-1:], (item for item in order if item != kept))

    def _to_be_kept(self, found: Ints, first: Sequence[int]) -> int | None:
        least = self.words.weights.standing
        standing = found[self.words.standing[found]] if least and len(found) > _FIRST else found[:0]
        if not len(standing):
            return None
        standing = standing[self.scores[standing] >= least * self.scores[first[0]]]
        if not len(standing) or not set(first).isdisjoint(standing.tolist()):
            return None
        return next(descending(self.scores, standing, self._beside.times, self._beside.numbers))

    def _best_places(self) -> Ints:
        """Return the first of the best places of each item."""
        beside = self._beside
        best = self._by_place == beside.by_item(self._by_place)[beside.item_at]
        places = np.flatnonzero(best)
        return places[np.unique(beside.item_at[places], return_index=True)[1]]

    def _meanings(self) -> Floats:
        """Return how far each item stands out of its scope by its similarity; 0 without vectors."""
        if not self._has_vectors:
            return np.zeros(self._beside.item_count)
        return np.concatenate([standing_out(near) for near in self._near])

    @cached_property
    def _near(self) -> list[Floats]:
        """How similar the items of each scope are, at least 0."""
        return [
            np.zeros(len(scope.arrays)) if scope.near is None else np.maximum(scope.near, 0.0) for scope in self._scopes
        ]

    def _alike(self) -> Floats:
        """Return how alike each item and the query are, from 0 to 1."""
        if not self._has_vectors:
            return np.zeros(self._beside.item_count)
        pairs = zip(self._near, self._scopes, strict=True)
        return np.concatenate(
            [near if scope.near is None else likeness(near, scope.unrelated) for near, scope in pairs]
        )

    def _shares_of_meaning(self, texts: Floats, meanings: Floats) -> list[float]:
        """Return which part of the ranking of each scope meaning has."""
        if not self._has_vectors:
            return [0.0] * len(self._scopes)
        every = [(number, self._beside.items_of(number)) for number in range(len(self._scopes))]
        return [self._share_of_meaning(number, texts[here], meanings[here]) for number, here in every]

    def _share_of_meaning(self, number: int, texts: Floats, meanings: Floats) -> float:
        if not self._near[number].any():
            return 0.0 if texts.any() or not meanings.any() else 1.0
        semantic = self.words.weights.semantic
        if semantic is None:
            semantic = calibrated(self._scopes[number].arrays).semantic
        covered, asking = self.words.together(number), self.words.query.is_asking
        return semantic_share(semantic, texts, meanings, covered=covered, asking=asking)

    def _relevance(self, covered: Floats, alike: Floats) -> Floats:
        """Return how well each item answers: by its words alone, or by words and meaning in equal parts.

        Vectors that tell nothing count for nothing, and words where the query has none.
        """
        if not self.words.query.terms:
            return alike
        if not any(self.shares):
            return covered
        share = self._beside.of_items([0.5 * self._known(number) for number in range(len(self._scopes))])
        together: Floats = (1 - share) * covered + share * alike
        return together

    def _known(self, number: int) -> float:
        """Return how surely the vectors of a scope tell anything, from 0 to 1."""
        if not self.shares[number]:
            return 0.0
        given = self.words.weights.semantic
        return calibrated(self._scopes[number].arrays).known if given is None else min(1.0, 2 * given)

    def _evidence(self, number: int) -> float:
        covered, alike = self._most_covered[number], self._most_alike[number]
        return evidence(covered, self.words.heard(number), alike, self._known(number))

    def _scored(self, items: Sequence[int], units: Floats, numbers: Sequence[int]) -> list[Scored]:
        """Return items with their scores in these units, and what they are made of; ``numbers`` are their scopes."""
        words, beside = self.words, self._beside
        at = np.array(items, np.int64)
        first, place, parts = self._places_of(at)
        by_place = self._by_place[place]
        best = self._best if beside.is_one else self._best[at]
        text, semantic = self._by_words[at] / best, self._by_meaning[at] / best
        shares = {"text": text, "semantic": semantic}
        letters = words.letters[place]
        if letters.any():
            in_letters = np.divide(letters, by_place, out=np.zeros(len(at)), where=by_place > 0)
            shares = {"text": text * (1 - in_letters), "letters": text * in_letters, "semantic": semantic}
        shares |= {name: bonus[at] for name, bonus in self._bonuses.items()}
        there = {name: (units * share).tolist() for name, share in shares.items() if any(share.tolist())}
        names = tuple(there)
        placed = [item - beside.first_items[number] for item, number in zip(items, numbers, strict=True)]
        keys = [scope.arrays.keys for scope in self._scopes]
        columns = (
            [keys[number][row] for number, row in zip(numbers, beside.rows[at].tolist(), strict=True)],
            (self.scores[at] * units).tolist(),
            [
                dict(zip(compress(names, row), filter(None, row), strict=True))
                for row in zip(*there.values(), strict=True)
            ],
            words.found_in(at),
            list(
                zip(np.where(by_place, place - first, 0).tolist(), np.where(by_place, parts, 1).tolist(), strict=True)
            ),
            placed,
            (semantic > text).tolist(),
            [self.shares[number] for number in numbers],
            *zip(*[self.supported[number] for number in numbers], strict=True),
        )
        return list(map(Scored._make, zip(*columns, strict=True)))

    def _places_of(self, items: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the first place of each of some items, its best one, and how many it has."""
        beside = self._beside
        first, end = beside.first_place[items], beside.first_place[items + 1]
        best = first.copy()
        for divided in np.flatnonzero(end - first > 1).tolist() if beside.has_passages else ():
            best[divided] += self._by_place[first[divided] : end[divided]].argmax()
        return first, best, end - first


def chosen_of(items: Iterator[int], wanted: Wanted | None, first: int = 0) -> Iterator[int]:
    """Return the wanted ones of some items of a scope whose first item has this number."""
    if wanted is None:
        return items
    is_wanted = wanted.item if isinstance(wanted, np.ndarray) else wanted
    return filter(is_wanted if not first else (lambda item: is_wanted(item - first)), items)


def descending(scores: Floats, items: Ints, times: Ints, numbers: Ints) -> Iterator[int]:
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
