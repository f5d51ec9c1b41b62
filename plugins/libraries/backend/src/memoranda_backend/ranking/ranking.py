"""Ranks the items of a scope: by their words, by words and meaning, or for a query without words by what they tell.

The last is for what is worth knowing whatever is asked. How much a statement tells by its shape is found out once
(:mod:`memoranda_backend.text.telling`). Beside the others of its scope, one that says something new tells more: what
people say of their work or to pass the time keeps coming back in the same words, and what they say of their lives does
not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from memoranda.store.ranked import supported_by_any
from memoranda_backend.ranking.passages import Passage, Scored, Weights, joined
from memoranda_backend.ranking.queries import asked
from memoranda_backend.ranking.scope_arrays import Added, Floats, Ints, ScopeArrays, Wanted
from memoranda_backend.ranking.scores import RankedScope, Scores, chosen_of, descending
from memoranda_backend.ranking.scoring import WordScores
from memoranda_backend.ranking.side_by_side import SideBySide
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
    :mod:`memoranda_backend.ranking.ranking`.
    """
    if not len(arrays):
        return []
    if not query:
        return most_telling(arrays, wanted, limit)
    # What frequencies are known of was stemmed without knowing the scope.
    usual = arrays.language if frequencies is None else None
    words = WordScores(SideBySide([arrays]), asked(query, usual), weights, total, frequencies)
    return [found for _, found in Scores(words, [RankedScope(arrays, near, wanted, unrelated)]).best(limit)]


def rank_together(scopes: Sequence[RankedScope], query: str, weights: Weights, limit: int) -> list[tuple[int, Scored]]:
    """Return the best of several scopes, each with the number of its scope; of equal scores, the first scope's first.

    Each scope is ranked by itself, as :func:`rank` does: what lies in one changes no score in another. Those of one
    language are ranked in one pass. See :func:`memoranda.store.ranked.best_of_all` for what is true of all.
    """
    found: list[tuple[int, Scored]] = []
    supported: dict[int, tuple[float | None, tuple[str, ...]]] = {}
    passes: dict[str | None, list[int]] = {}
    for number, scope in enumerate(scopes):
        if len(scope.arrays) and query:
            passes.setdefault(asked(query, scope.arrays.language).language, []).append(number)
        elif telling := rank(scope.arrays, query, weights, wanted=scope.wanted, limit=limit):
            supported[number] = telling[0].evidence, ()
            found += [(number, each) for each in telling]
    for numbers in passes.values():
        some = [scopes[number] for number in numbers]
        beside = SideBySide([scope.arrays for scope in some])
        words = WordScores(beside, asked(query, some[0].arrays.language), weights)
        scoring = Scores(words, some)
        found += [(numbers[of], each) for of, each in scoring.best(limit)]
        supported.update((numbers[of], each) for of, each in scoring.supported.items())
    best = sorted(found, key=lambda each: (-each[1].score, each[0]))[:limit]
    if len(supported) <= 1:
        return best
    evidence, missing = supported_by_any([supported[number] for number in sorted(supported)])
    return [(number, each._replace(evidence=evidence or 0.0, missing=missing)) for number, each in best]


def nearest_first(arrays: ScopeArrays, near: Floats, wanted: Wanted | None = None) -> Iterator[int]:
    """Return the wanted items of a layout by their similarity, the newest of equal ones first."""
    layout = arrays.layout
    found = descending(near, np.flatnonzero(arrays.embedded), layout.times, layout.numbers)
    return chosen_of(found, wanted)
