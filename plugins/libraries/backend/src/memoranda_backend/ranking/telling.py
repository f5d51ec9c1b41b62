"""What is worth knowing of a scope whatever is asked: the statements that tell the most, for a query without words.

How much a statement tells by its shape is found out once (:mod:`memoranda_backend.text.telling`). Beside the others of
its scope, one that says something new tells more: what people say of their work or to pass the time keeps coming back
in the same words, and what they say of their lives does not.
"""

from __future__ import annotations

import numpy as np

from memoranda_backend.ranking.passages import Scored
from memoranda_backend.ranking.scope_arrays import Floats, Ints, ScopeArrays, Wanted
from memoranda_backend.text.telling import MANY_TOLD, MUCH_TOLD

_COMMON = 0.012
"""A term that a greater part of the statements has is not new."""

_NEW_TERMS = 6
"""How many new terms tell as much as more would."""

_NOTHING_NEW = 0.2
"""What is left of a statement without any new term."""

_OLDEST = 0.9
"""What is left of the oldest statement, beside one of today that tells as much."""

_MOST_KEPT = 8
"""For how many choices of items their order is kept."""

_MOST = 2.0
"""What shape and new terms come to at the most."""


def most_telling(arrays: ScopeArrays, wanted: Wanted | None = None, limit: int | None = None) -> list[Scored]:
    """Return the wanted items, the most telling first, then those that tell nothing; of equal ones the newest first.

    Only wanted items count for each other: what was said later than a filter allows changes nothing. The evidence is
    how much there is to know: 1 if very many of them tell much.
    """
    layout = arrays.layout
    tells = arrays.tells > 0
    items = _chosen(np.flatnonzero(layout.speaks & tells), wanted)
    if limit is None or len(items) < limit:  # Asking a filter takes most of the time.
        items = np.concatenate((items, _chosen(np.flatnonzero(layout.speaks & ~tells), wanted)))
    if not len(items):
        return []
    found, scores = _best_first(arrays, items)
    much = min(int((scores >= MUCH_TOLD).sum()) / MANY_TOLD, 1.0)
    found, scores = found[:limit], scores[:limit]
    keys = map(arrays.keys.__getitem__, layout.rows[found].tolist())
    best = zip(keys, scores.tolist(), found.tolist(), strict=True)
    return [
        Scored(key, score, {"telling": score} if score else {}, item=item, evidence=much) for key, score, item in best
    ]


def _chosen(items: Ints, wanted: Wanted | None) -> Ints:
    if wanted is None:
        return items
    if isinstance(wanted, np.ndarray):
        return items[wanted[items]]
    return np.array([item for item in items.tolist() if wanted(item)], np.int64)


def _best_first(arrays: ScopeArrays, items: Ints) -> tuple[Ints, Floats]:
    """Return items and their scores in order. It is kept with the layout: one prompt after the other asks for it."""
    layout = arrays.layout
    key = items.tobytes()
    if key not in layout.telling:
        if len(layout.telling) == _MOST_KEPT:
            layout.telling.clear()
        scores = _scores(arrays, items)
        order = np.lexsort((layout.numbers[items], layout.times[items], scores))[::-1]
        layout.telling[key] = items[order], scores[order]
    return layout.telling[key]


def _scores(arrays: ScopeArrays, items: Ints) -> Floats:
    layout = arrays.layout
    shape = arrays.tells[items]
    telling = np.flatnonzero(shape)
    if not len(telling):
        return shape
    term, of = arrays.terms_of(items[telling])
    having = np.bincount(term)
    new = (having[term] <= max(1.0, _COMMON * len(telling))) & ~arrays.figures[term]
    count = np.bincount(of[new], minlength=len(telling))
    told = shape[telling] + np.minimum(count, _NEW_TERMS) / _NEW_TERMS
    told[count == 0] *= _NOTHING_NEW
    oldest_first = np.argsort(np.lexsort((layout.numbers[items[telling]], layout.times[items[telling]])))
    age = oldest_first / max(1, len(telling) - 1)
    scores = np.zeros(len(items))
    scores[telling] = told / _MOST * (_OLDEST + (1 - _OLDEST) * age)
    return scores
