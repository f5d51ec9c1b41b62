"""Ranking for engines without an index: the whole scope is read, and the installed ranker ranks it."""

from __future__ import annotations

from memoranda.loops import offload, ranking_weight
from memoranda.store.engine import Engine
from memoranda.store.ranked import RankedItem, Ranker, rank_items
from memoranda.store.requests import Query, items_where


async def rank_scope(engine: Engine, query: Query[RankedItem], ranker: Ranker) -> list[RankedItem]:
    """Return what a query for ranked text asks for."""
    assert query.ranking is not None, "the query of a ranked search says what is asked"
    # Neighbours count whatever their type, so the other filters come after the ranking.
    scope = await engine.read(items_where(query.wanted.scope()))
    sought = query.wanted.sought()
    weight = ranking_weight(len(scope), (item.content for item in scope))
    chosen = sought if sought.conditions else None
    return await offload(weight, rank_items, ranker.index(), query.ranking.text, scope, chosen, query.page.limit)
