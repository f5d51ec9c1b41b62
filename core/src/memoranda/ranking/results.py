"""What a ranked search returns, and how a reranker may put it into a better order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from memoranda.errors import MemoryError, PluginError
from memoranda.items import MemoryItem

if TYPE_CHECKING:
    from memoranda.ranking.passages import Scored


@dataclass(frozen=True, slots=True)
class RankedItem:
    """An item, how well it answers the query, and why.

    ``parts`` says what the score is made of (``text``, ``speaker``, ``semantic``, …) and ``terms`` which words of the
    query were found; ``passage`` is the part of a long content that was found, and empty where the whole was. Scores
    compare within one result list only.
    """

    item: MemoryItem
    score: float
    parts: Mapping[str, float] = field(default_factory=dict)
    terms: tuple[str, ...] = ()
    passage: str = ""

    @classmethod
    def of(cls, item: MemoryItem, scored: Scored) -> RankedItem:
        """Return an item with what a ranking says of it."""
        return cls(item, scored.score, scored.parts, scored.terms, scored.passage)


class Reranker(Protocol):
    """Puts the head of a ranking into a better order, usually with a model that reads query and item together."""

    async def rerank(self, query: str, ranked: Sequence[RankedItem]) -> Sequence[RankedItem]:
        """Return the given results in a new order; none may be added, and those left out fall behind the others."""
        ...


RERANKED = 50
"""How many of the best results a reranker is given."""


async def reranked(reranker: Reranker, query: str, ranked: list[RankedItem]) -> list[RankedItem]:
    """Return the results with their head in the reranker's order; what it did not return keeps its old order.

    Only scores and reasons are taken from a reranker, never items. Raises PluginError when it fails.
    """
    head = {found.item.id: found for found in ranked[:RERANKED]}
    ordered = []
    try:
        for found in await reranker.rerank(query, list(head.values())):
            given = head.pop(found.item.id, None)
            if given is not None:
                ordered.append(replace(found, item=given.item))
    except MemoryError:
        raise
    except Exception as error:
        raise PluginError(f"The reranker {type(reranker).__name__} failed with {type(error).__name__}.") from error
    return [*ordered, *head.values(), *ranked[RERANKED:]]
