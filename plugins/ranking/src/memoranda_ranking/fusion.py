"""Joining words and meaning, whose scores do not compare: how much of a ranking each of them has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest
from math import fsum, sqrt

_FIRST = 10
"""Among how many results the first should stand out."""

_BELOW = 1e-3

_HARDLY = 0.02
"""An embedder that finds nothing this much more similar than the mean of a scope does not know its language."""

_ENOUGH = 0.4
"""Which part of a query's words must be found together for what stands out by words to count in full."""

_USUAL_LENGTH = 7
_SHORTEST, _LONGEST = 0.7, 1.6
"""How far the length of a query changes what its meaning counts."""


def likeness(similarity: float, unrelated: float) -> float:
    """Return how alike two texts are, from 0 for no more than ``unrelated`` ones to 1 for the same text."""
    return min(1.0, max(0.0, similarity - unrelated) / max(1e-9, 1 - unrelated))


def standing_out(similarities: Sequence[float]) -> list[float]:
    """Return how far each similarity lies above the mean; those below come last, in their order.

    Texts have much in common by the vectors of any model, and nearly all by those of some: the difference tells.
    """
    mean = fsum(similarities) / len(similarities)
    last = mean / (1 - _BELOW)
    return [each - mean if each > last else _BELOW * each for each in similarities]


def semantic_share(
    usual: float,
    length: int,
    texts: Iterable[float],
    similarities: Iterable[float],
    *,
    covered: float = 1.0,
    asking: bool = True,
) -> float:
    """Return which part of a hybrid ranking meaning has: more than usual where its best result stands out more.

    How much the first stands out is told by the tenth, from a half where that is as good to 1 where it has nothing. A
    rare word that few items have stands out; where all have the same common ones, meaning decides. So it does for a
    query of many terms, ``length`` of them, which tells what it means: of a few, each word counts. And so it does where
    the most of it that any item has, ``covered``, may be chance, and still more if it is not ``asking`` for anything.
    """
    by_words, by_meaning = _prominence(texts), _prominence(similarities, _HARDLY)
    if not by_words or not by_meaning:
        return 0.0 if by_words else 1.0
    usual *= min(_LONGEST, max(_SHORTEST, sqrt(length / _USUAL_LENGTH)))
    found = min(1.0, covered / _ENOUGH)
    share = min(1.0, 2 * usual * by_meaning / (by_words * found + by_meaning))
    return share if asking or not usual else 1 - (1 - share) * found


def _prominence(scores: Iterable[float], least: float = 0.0) -> float:
    first = nlargest(_FIRST, scores)
    if not first or first[0] <= least:
        return 0.0
    tenth = first[-1] if len(first) == _FIRST else 0.0
    return 1 - tenth / first[0] / 2
