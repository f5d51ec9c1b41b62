"""Joining rankings whose scores do not compare, such as those of several stores."""

from __future__ import annotations

from collections.abc import Sequence

from memoranda.ranking.passages import Scored

RANK_OFFSET = 10
"""The ``k`` of reciprocal rank fusion. The usual 60 levels the first places, which hold most of what is looked for."""


def fuse(*rankings: Sequence[Scored], k: float = RANK_OFFSET) -> list[Scored]:
    """Return one ranking from several by the sum of 1 / (k + rank), best first.

    Of equal score, the one that comes first in the earlier ranking stands first. Parts are named after the number of
    the ranking, from ``ranking 1``; the terms are those found by any.
    """
    parts: dict[str, dict[str, float]] = {}
    terms: dict[str, dict[str, None]] = {}
    for number, ranking in enumerate(rankings, start=1):
        for rank, scored in enumerate(ranking, start=1):
            parts.setdefault(scored.key, {})[f"ranking {number}"] = 1 / (k + rank)
            terms.setdefault(scored.key, {}).update(dict.fromkeys(scored.terms))
    fused = [Scored(key, sum(found.values()), found, tuple(terms[key])) for key, found in parts.items()]
    return sorted(fused, key=lambda scored: -scored.score)
