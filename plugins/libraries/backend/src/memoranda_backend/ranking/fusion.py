"""Joining words and meaning, whose scores do not compare: how much of a ranking each of them has.

How much each is worth in a scope is measured on its own items, without any labels: items of the scope stand in for
queries. A vector of a model that knows the language is near those of items that share rare words; how often it is tells
whether it means anything here. And what is said beside an item has to do with it: how soon its words find its
neighbours, and how soon its vector does, tells which of the two to trust more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoranda_backend.ranking.passages import EXACT
from memoranda_backend.ranking.postings import spans
from memoranda_backend.ranking.scope_arrays import Floats, Ints, ScopeArrays

_MOST_ITEMS = 256
"""How many items are looked at: the oldest, up to a power of two, so that few additions change anything."""

_PROBES = 64
"""How many of them are looked for others with."""

_SHORTEST = 4
"""How many terms an item must have to be a probe."""

_COMMON = 0.25
"""A term that a greater part of the items has tells nothing."""

_ALIKE = 5
"""How many items that share rare words with a probe its vector should be near to."""

_BESIDE = 2
"""How many turns on each side of a probe have to do with it."""

_CHANCE, _KNOWN = 0.58, 0.64
"""The part of all items that lie behind those with the same rare words, for vectors that tell nothing, and for ones
that surely tell something. Half would be chance."""

_USUAL, _USUAL_PROBES = 0.75, 4
"""What is taken for granted before anything is measured, and how many probes that counts as."""

_EVEN, _STEEPNESS = 0.35, 1.0
"""The share of meaning where vectors find as much as words, and how fast it grows where they find more."""

_LEAST, _MOST = 0.22, 0.5


class Calibration(NamedTuple):
    """What was measured: whether vectors tell anything, from 0 to 1, and the part of neighbours that they find."""

    known: float
    found: float

    @property
    def semantic(self) -> float:
        """The share of meaning in a hybrid ranking."""
        return self.known * min(_MOST, max(_LEAST, _EVEN + _STEEPNESS * (self.found - 0.5)))


PRIOR = Calibration(1.0, 0.5)
"""What holds where nothing can be measured."""


Vectors = Callable[[Ints], tuple[NDArray[np.float32], NDArray[np.bool_]]]
"""Returns one vector of length one for each of some items of a layout, and which of them have one."""


def calibrated(arrays: ScopeArrays, vectors: Vectors | None = None) -> Calibration:
    """Return what words and vectors are worth in a scope. It depends on its items alone, and is kept with them.

    ``vectors`` are asked for where the arrays hold none.
    """
    vectors = arrays.mean_vectors if arrays.has_vectors else vectors
    items = _oldest(arrays)
    key = arrays.layout.rows[items].tobytes()
    if arrays.measured is None or arrays.measured[0] != key:
        if vectors is None or not len(items):
            return PRIOR
        arrays.measured = key, _measured(arrays, items, *vectors(items))
    found: Calibration = arrays.measured[1]
    return found


def _oldest(arrays: ScopeArrays) -> Ints:
    """Return the oldest items, the oldest first: the greatest power of two that there are."""
    layout = arrays.layout
    if len(layout) == 0:
        return np.empty(0, np.int64)
    most = min(_MOST_ITEMS, 1 << (len(layout).bit_length() - 1))
    return np.lexsort((layout.numbers, layout.times))[:most]


def _measured(
    arrays: ScopeArrays, items: Ints, vectors: NDArray[np.float32], embedded: NDArray[np.bool_]
) -> Calibration:
    term, of = arrays.terms_of(items)
    lengths = np.bincount(of, minlength=len(items))
    able = np.flatnonzero(embedded & (lengths >= _SHORTEST))
    if len(able) <= _ALIKE:
        return PRIOR
    probes = able[np.unique(np.linspace(0, len(able) - 1, _PROBES).astype(np.int64))]
    by_words = _shared_words(term, of, probes, lengths)
    # Equal vectors may differ in the last digit of float32.
    by_meaning = np.einsum("ij,kj->ik", vectors[probes], vectors).astype(np.float64).round(5)
    every = np.arange(len(probes))
    by_words[every, probes] = by_meaning[every, probes] = -np.inf
    stretch = arrays.layout.stretch[items]
    apart = np.abs(items[probes, None] - items)
    beside = (apart > 0) & (apart <= _BESIDE) & (stretch[probes, None] == stretch)
    return Calibration(_known(by_words, by_meaning), _found(beside, by_words, by_meaning))


def _shared_words(term: Ints, of: Ints, probes: Ints, lengths: Ints) -> Floats:
    """Return how much each probe has in common with each item: terms, which tell the more the fewer items have them."""
    starts = np.searchsorted(term, np.arange(term.max() + 2))
    told = np.log(1 + len(lengths) / np.maximum(np.diff(starts), 1)) ** 4
    row = np.full(len(lengths), -1)
    row[probes] = np.arange(len(probes))
    asking = np.flatnonzero((row[of] >= 0) & (np.diff(starts)[term] <= _COMMON * len(lengths)))
    which, at = spans(starts[term[asking]], starts[term[asking] + 1])
    places = row[of[asking]][which] * len(lengths) + of[at]
    scores = np.bincount(places, told[term[asking]][which], len(probes) * len(lengths)).reshape(len(probes), -1)
    # A sum depends on the order of its terms.
    shared: Floats = (scores / (1 + lengths / lengths.mean())).round(9)
    return shared


def _known(by_words: Floats, by_meaning: Floats) -> float:
    """Return how surely the vectors of items that share rare words are near each other, from 0 to 1."""
    alike = (by_words >= np.sort(by_words)[:, -_ALIKE, None]) & (by_words > 0)
    probe, item = np.nonzero(alike)
    behind = (by_meaning[probe] < by_meaning[probe, item][:, None]).sum(axis=1) / max(1, by_meaning.shape[1] - 1)
    counts = alike.sum(axis=1)
    agreed = np.bincount(probe, behind, len(alike))[counts > 0] / counts[counts > 0]
    agreement = (agreed.sum() + _USUAL * _USUAL_PROBES) / (len(agreed) + _USUAL_PROBES)
    return float(np.clip((agreement - _CHANCE) / (_KNOWN - _CHANCE), 0.0, 1.0))


def _found(beside: NDArray[np.bool_], by_words: Floats, by_meaning: Floats) -> float:
    """Return the part that vectors have in what words and vectors find of what was said beside the probes.

    What chance would find does not count.
    """
    having = beside.any(axis=1)
    beside, found = beside[having], []
    for scores in (by_words[having], by_meaning[having]):
        best = np.where(beside, scores, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
        ranks = 1 + (scores > best).sum(axis=1) + ((scores == best).sum(axis=1) - 1) / 2
        found.append(float((1 / ranks).sum()))
    chance = sum(_by_chance(count, beside.shape[1] - 1) for count in beside.sum(axis=1).tolist())
    words, vectors = (max(0.0, each - chance) + _USUAL_PROBES for each in found)
    return vectors / (words + vectors)


@lru_cache(maxsize=1024)
def _by_chance(wanted: int, total: int) -> float:
    """Return what 1 / rank is on average for the first of the wanted ones, where the order is chance."""
    ranks = np.arange(1, total + 2)
    later = np.prod([np.maximum(total - ranks - at + 1, 0) / (total - at) for at in range(wanted)], axis=0)
    return float(np.sum(-np.diff(later) / ranks[:-1]))


_FIRST = 10
"""Among how many results the first should stand out."""

_BELOW = 1e-3

_HARDLY = 0.02
"""An embedder that finds nothing this much more similar than the mean of a scope does not know its language."""


_ENOUGH = 0.65
"""Which part of a query's words must be found together for what stands out by words to count in full."""


_ENOUGH_ASKED = 0.36
"""The same for a question; where less is found, it is asked in other words than the answer was told in."""


def likeness(similarity: Any, unrelated: float) -> Any:
    """Return how alike two texts are, from 0 for no more than ``unrelated`` ones to 1 for the same text."""
    return np.clip((similarity - unrelated) / max(1e-9, 1 - unrelated), 0.0, 1.0)


def standing_out(similarities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far each similarity lies above the mean; those below come last, in their order.

    Texts have much in common by the vectors of any model, and nearly all by those of some: the difference tells.
    """
    mean = round(float(similarities.mean()), EXACT)
    return np.where(similarities > mean / (1 - _BELOW), similarities - mean, _BELOW * similarities)


def semantic_share(
    usual: float,
    texts: NDArray[np.float64],
    similarities: NDArray[np.float64],
    *,
    covered: float = 1.0,
    asking: bool = True,
) -> float:
    """Return which part of a hybrid ranking meaning has: more than usual where its best result stands out more.

    How much the first stands out is told by the tenth, from a half where that is as good to 1 where it has nothing. A
    rare word that few items have stands out; where all have the same common ones, meaning decides. So it does where the
    most of the query that any item has, ``covered``, may be chance, and sooner if it is not ``asking`` for anything.
    """
    by_words, by_meaning = _prominence(texts), _prominence(similarities, _HARDLY)
    if not by_words or not by_meaning:
        return 0.0 if by_words else 1.0
    found = min(1.0, covered / _ENOUGH)
    share = min(1.0, 2 * usual * by_meaning / (by_words * found + by_meaning))
    if not usual:
        return share
    return 1 - (1 - share) * min(1.0, covered / (_ENOUGH_ASKED if asking else _ENOUGH))


def _prominence(scores: NDArray[np.float64], least: float = 0.0) -> float:
    first = np.sort(np.partition(scores, -_FIRST)[-_FIRST:] if len(scores) > _FIRST else scores)[::-1]
    if not len(first) or first[0] <= least:
        return 0.0
    tenth = float(first[-1]) if len(first) == _FIRST else 0.0
    return 1 - tenth / float(first[0]) / 2
