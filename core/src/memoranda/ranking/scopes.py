"""The ranking of a scope that is held in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from memoranda.items import MemoryItem
from memoranda.ranking.entries import Entry
from memoranda.ranking.results import RankedItem
from memoranda.turns import AT_ONCE, LETTERS_AT_ONCE

if TYPE_CHECKING:
    from memoranda.ranking.listed import ListedScope


def ranking_weight(count: int, unknown: Iterable[str]) -> int:
    """Return as how many items a ranking counts for :func:`memoranda.turns.aside`; long ``unknown`` texts are many."""
    return count if count > AT_ONCE or sum(map(len, unknown)) <= LETTERS_AT_ONCE else AT_ONCE + 1


def rank_items(
    query: str, items: Sequence[MemoryItem], wanted: Callable[[MemoryItem], bool] | None, limit: int
) -> list[RankedItem]:
    """Rank a scope, given newest first, and return the best items that are ``wanted``; None wants all."""
    row = [Entry(item.created_at, number, item, []) for number, item in enumerate(reversed(items))]
    return rank_scope(query, row, lambda _: True, wanted, limit)


def rank_scope(
    query: str,
    row: Sequence[Entry],
    belongs: Callable[[MemoryItem], bool],
    wanted: Callable[[MemoryItem], bool] | None,
    limit: int,
    listed: ListedScope | None = None,
) -> list[RankedItem]:
    """Rank those of the entries, oldest first, that belong to a scope, and return the best items that are ``wanted``.

    None wants all of the scope. ``listed`` is what a store keeps of it between two rankings.
    """
    # Loaded on use: most programs never rank.
    from memoranda.ranking import Weights, gather, gathered, rank_text
    from memoranda.ranking.listed import ListedScope

    listed = listed or ListedScope()
    with listed.lock:
        listed.look(row, belongs)
        gathering = gather(query, Weights(), limit, filtered=wanted is not None)
        candidates = gathered(gathering, partial(listed.answer, wanted=wanted or belongs))
        items = listed.items
    scored = rank_text(
        query,
        candidates.windows,
        total=candidates.total,
        frequencies=candidates.frequencies,
        wanted=None if wanted is None else lambda key: wanted(items[key]),
        limit=limit,
    )
    return [RankedItem.of(items[found.key], found) for found in scored]
