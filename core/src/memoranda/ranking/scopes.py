"""The ranking of a scope that is held in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memoranda.items import MemoryItem
from memoranda.ranking.results import RankedItem
from memoranda.turns import AT_ONCE, LETTERS_AT_ONCE


def ranking_weight(scope: Sequence[MemoryItem]) -> int:
    """Return how many items the ranking of a scope counts as for :func:`memoranda.turns.aside`: long texts are many."""
    if len(scope) <= AT_ONCE and sum(len(item.content) for item in scope) > LETTERS_AT_ONCE:
        return AT_ONCE + 1
    return len(scope)


def rank_scope(
    query: str,
    scope: Sequence[MemoryItem],
    wanted: Callable[[MemoryItem], bool],
    limit: int,
    terms_at: Callable[[int], Sequence[str]] | None = None,
) -> list[RankedItem]:
    """Rank a scope, given newest first, and return the best items that are ``wanted``.

    ``terms_at`` gives the index terms of the item at a place of the scope, where a store keeps them; making them anew
    is most of the work.
    """
    # Loaded on use: most programs never rank.
    from memoranda.ranking import Weights, gather, gathered, index_terms, rank_text
    from memoranda.ranking.listed import ListedScope

    listed = ListedScope(scope, terms_at or (lambda place: index_terms(scope[place].content)), wanted)
    candidates = gathered(gather(query, Weights(), limit, filtered=True), listed.answer)
    scored = rank_text(
        query,
        candidates.windows,
        total=candidates.total,
        frequencies=candidates.frequencies,
        wanted=lambda key: wanted(listed.items[key]),
        limit=limit,
    )
    return [RankedItem.of(listed.items[found.key], found) for found in scored]
