"""Joining words and meaning, whose scores do not compare: how much of a ranking each of them has."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoranda_backend.ranking.passages import EXACT

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
