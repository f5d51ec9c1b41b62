"""How much words and vectors are each worth in a scope, measured on its own items, without any labels.

Items of the scope stand in for queries. A vector of a model that knows the language is near those of items that share
rare words; how often it is tells whether it means anything here. And what is said beside an item has to do with it: how
soon its words find its neighbours, and how soon its vector does, tells which of the two to trust more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoranda_ranking.scope_arrays import Floats, Ints, ScopeArrays

_MOST_ITEMS = 2_048
"""How many items are looked at: the oldest, up to a power of two, so that few additions change anything."""

_PROBES = 48
"""How many of them are looked for others with."""

_SHORTEST = 4
"""How many terms an item must have to be a probe."""

_WORDS = 12
"""How many terms of a probe are looked for, the rarest ones."""

_ALIKE = 5
"""How many items that share rare words with a probe its vector should be near to."""

_BESIDE = 2
"""How many turns on each side of a probe have to do with it."""

_CHANCE, _KNOWN = 0.55, 0.65
"""The part of all items that lie behind those with the same rare words, for vectors that tell nothing, and for ones
that surely tell something. Half would be chance."""

_USUAL, _USUAL_PROBES = 0.75, 4
"""What is taken for granted before anything is measured, and how many probes that counts as."""

_EVEN, _STEEPNESS = 0.35, 1.8
"""The share of meaning where vectors find as much as words, and how fast it grows where they find more."""

_LEAST, _MOST = 0.1, 0.7


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
        if vectors is None:
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
    lengths = np.add.reduceat(arrays.layout.lengths, arrays.layout.first_place[:-1])[items]
    able = np.flatnonzero(embedded & (lengths >= _SHORTEST))
    if len(able) <= _ALIKE:
        return PRIOR
    probes = able[np.unique(np.linspace(0, len(able) - 1, _PROBES).astype(np.int64))]
    every = np.arange(len(probes))
    by_words = arrays.shared_words(items, probes, _WORDS)
    # Equal vectors may differ in the last digit of float32.
    by_meaning = np.einsum("ij,kj->ik", vectors[probes], vectors).astype(np.float64).round(5)
    by_words[every, probes] = by_meaning[every, probes] = -np.inf
    return Calibration(_known(by_words, by_meaning), _found(arrays, items, probes, by_words, by_meaning))


def _known(by_words: Floats, by_meaning: Floats) -> float:
    """Return whether the vectors of items that share rare words are near each other."""
    agreements = []
    for words, meaning in zip(by_words, by_meaning, strict=True):
        least = np.sort(words)[-_ALIKE:][0]
        alike = np.flatnonzero((words >= least) & (words > 0))
        if len(alike):
            behind = np.searchsorted(np.sort(meaning), meaning[alike])
            agreements.append(float(behind.mean()) / max(1, len(meaning) - 1))
    agreed = (sum(agreements) + _USUAL * _USUAL_PROBES) / (len(agreements) + _USUAL_PROBES)
    return min(1.0, max(0.0, (agreed - _CHANCE) / (_KNOWN - _CHANCE)))


def _found(arrays: ScopeArrays, items: Ints, probes: Ints, by_words: Floats, by_meaning: Floats) -> float:
    """Return the part that vectors have in what words and vectors find of what was said beside the probes."""
    stretch = arrays.layout.stretch
    place = np.full(len(stretch), -1)
    place[items] = np.arange(len(items))
    found = np.full(2, _USUAL_PROBES / _PROBES)
    for row, probe in enumerate(items[probes].tolist()):
        near = np.arange(max(0, probe - _BESIDE), min(len(stretch), probe + _BESIDE + 1))
        near = place[near[(near != probe) & (stretch[near] == stretch[probe])]]
        near = near[near >= 0]
        if len(near):
            for number, scores in enumerate((by_words[row], by_meaning[row])):
                best = scores[near].max()
                rank = 1 + np.count_nonzero(scores > best) + (np.count_nonzero(scores == best) - 1) / 2
                found[number] += 1 / rank
    return float(found[1] / found.sum())
