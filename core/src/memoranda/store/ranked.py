"""Ranked search: what it returns, and the contracts of rankers and rerankers, which come as plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal, NamedTuple, Protocol

from memoranda.errors import InputError, MemoryError, PluginError
from memoranda.items import MemoryItem

OWN_RANKER = "text"
"""The ranker of memoranda-backend. Any other replaces it."""


@dataclass(slots=True)  # Hundreds are made for one prompt, and a frozen one takes four times as long to make.
class RankedItem:
    """An item, how well it answers the query, and why.

    ``parts`` says what the score is made of (``text``, ``speaker``, ``semantic``, …), ``terms`` which of its words were
    found, ``passage`` which part of a long content, and ``meaning`` the share of meaning in the ranking; words have the
    rest. Scores run from 0 to 1.

    Two fields are the same for all results of a ranking: ``evidence`` says from 0 to 1 how much the scope supports the
    query (None: the ranking does not tell), and of an empty one, which asks for what is worth knowing anyway, how much
    of that there is; ``missing`` has its words, folded, that nothing in the scope has.
    """

    item: MemoryItem
    score: float
    parts: Mapping[str, float] = field(default_factory=dict)
    terms: tuple[str, ...] = ()
    passage: str = ""
    meaning: float = 0.0
    evidence: float | None = None
    missing: tuple[str, ...] = ()


Verdict = Literal["known", "near", "unknown"]
"""What a store knows about a question: something that answers it, only something close to it, or nothing."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """What ``recall(query, verdict=True)`` returns: the memories, best first, and how far they go.

    ``verdict`` is ``"known"`` if the memories support all that the question asks for, ``"near"`` if they are about
    something close to it, and ``"unknown"`` if too little of what is stored has to do with it. ``unsupported`` are the
    words of the question, as written there, that nothing supports: a prompt can say that no memory has them.
    The length is that of ``memories``, and so is iteration.
    """

    memories: tuple[RankedItem, ...]
    verdict: Verdict
    unsupported: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.memories)

    def __iter__(self) -> Iterator[RankedItem]:
        return iter(self.memories)


class Entry(NamedTuple):
    """An item in its place: by time, then by the order of adding; ``added`` is unique, so items never compare.

    ``terms`` is the ranker's own: it may keep the words of the item there. They live as long as the entry.
    """

    created_at: str
    added: int
    item: MemoryItem
    terms: list[str]


Matching = Callable[[MemoryItem], bool]


class ScopeIndex(Protocol):
    """What a ranker knows of one scope, which a store may keep from one search to the next."""

    def rank(
        self, query: str, entries: Sequence[Entry], *, belongs: Matching, wanted: Matching | None, limit: int
    ) -> list[RankedItem]:
        """Return the best items of a scope for a query, best first, and nothing that has no relation to it.

        ``entries`` come oldest first; those for which ``belongs`` is False are no part of the scope and must not
        change any score. Of the scope, only ``wanted`` items are returned; None wants all. Several threads may call
        it. An item that was changed since the last call comes in a new entry; the same object is unchanged.
        """
        ...


@dataclass(frozen=True, slots=True)
class ScopeToRank:
    """One of several scopes that are ranked for one query: its index, and what :meth:`ScopeIndex.rank` is given."""

    index: ScopeIndex
    entries: Sequence[Entry]
    belongs: Matching
    wanted: Matching | None

    def ranked(self, query: str, limit: int) -> list[RankedItem]:
        """Return the best items of this scope."""
        return self.index.rank(query, self.entries, belongs=self.belongs, wanted=self.wanted, limit=limit)


class Ranker(Protocol):
    """Ranks the text of items, for stores that have no index of their own. Plugins offer one by a RankerSpec.

    It may have four methods more:

    * ``newest_first(query, ranked)`` returns the results in the order of a search with ``current=True``.
    * ``by_time(query, now)`` returns None unless the query names a time, and otherwise a function that is given the
      best results and returns them in an order in which those of that time have their places. ``now`` is ISO-8601 text.
    * ``judge(query, ranked)`` is given the best results, whatever their scores, and returns the verdict on them and the
      words of the query that nothing supports: see :class:`Recalled`.
    * ``rank_together(query, scopes, limit)`` is given several :class:`ScopeToRank` and returns what :func:`best_of_all`
      makes of their rankings, in less time.
    """

    def index(self) -> ScopeIndex:
        """Return a new index, for one scope."""
        ...


def installed_ranker() -> Ranker:
    """Return a ranker of the installed plugins. Third-party rankers take precedence.

    Raises PluginNotFoundError, saying what to install, if there is none, and InputError if several others are
    installed: the store has to be given one then.
    """
    from memoranda.plugins import RankerSpec, default_registry  # Looked for on use: most programs never rank.

    registry = default_registry()
    names = [spec.name for spec in registry.specs(RankerSpec)]
    others = [name for name in names if name != OWN_RANKER]
    if len(others) > 1:
        raise InputError(
            f"Several rankers are installed: {', '.join(others)}. Set store.ranker to one.", field="ranker"
        )
    ranker: Ranker = registry.make(registry.find(RankerSpec, (others or [OWN_RANKER])[0]))
    return ranker


def rank_items(
    index: ScopeIndex, query: str, items: Sequence[MemoryItem], wanted: Matching | None, limit: int
) -> list[RankedItem]:
    """Rank a whole scope, given newest first."""
    entries = [Entry(item.created_at, number, item, []) for number, item in enumerate(reversed(items))]
    return index.rank(query, entries, belongs=lambda item: True, wanted=wanted, limit=limit)


def best_of_all(rankings: Sequence[Sequence[RankedItem]], limit: int) -> list[RankedItem]:
    """Return the best results of several scopes for one query; of equal scores, the first scope's first.

    What all of them support is what any of them supports, and only a word that none of them has is missing.
    """
    found = [ranked for ranked in rankings if ranked]
    best = sorted(chain.from_iterable(found), key=lambda each: each.score, reverse=True)[:limit]
    if len(found) <= 1:
        return best
    evidence, missing = supported_by_any([(ranked[0].evidence, ranked[0].missing) for ranked in found])
    return [replace(each, evidence=evidence, missing=missing) for each in best]


def supported_by_any(
    supported: Sequence[tuple[float | None, tuple[str, ...]]],
) -> tuple[float | None, tuple[str, ...]]:
    """Return the evidence of several scopes together, and the missing words, from those of each."""
    evidence = max((each for each, _ in supported if each is not None), default=None)
    (_, first), *others = supported
    return evidence, tuple(word for word in first if all(word in missing for _, missing in others))


RELEVANT = 0.2
"""What the best memory must score to be recalled, if the ranker does not judge and the caller sets no floor."""

BESIDE_THE_BEST = 0.4
"""What the others must score, as a part of the best one's score."""

DEPTH = 15
"""How many memories are recalled if the caller does not say."""


def judged(ranker: Ranker, query: str, ranked: Sequence[RankedItem]) -> tuple[Verdict, tuple[str, ...]]:
    """Return the ranker's verdict on the best results, and the words of the query that nothing supports."""
    judge = getattr(ranker, "judge", None)
    if judge is None:
        return ("known" if best_score(ranked) >= RELEVANT else "unknown"), ()
    verdict, unsupported = judge(query, ranked)
    return verdict, tuple(unsupported)


def best_score(ranked: Sequence[RankedItem]) -> float:
    """Return the score of the best result; 0 if there is none."""
    return max((found.score for found in ranked), default=0.0)


def above_floor(ranked: Sequence[RankedItem], min_score: float | None, verdict: Verdict) -> list[RankedItem]:
    """Return the results that are recalled.

    With a ``min_score``, those are all that score as much. Without one they are none if nothing is known, or else those
    that come near the best.
    """
    if min_score is None and verdict == "unknown":
        return []
    least = BESIDE_THE_BEST * best_score(ranked) if min_score is None else min_score
    return [found for found in ranked if found.score >= least]


class Reranker(Protocol):
    """Puts the head of a ranking into a better order, usually with a model that reads query and item together."""

    async def rerank(self, query: str, ranked: Sequence[RankedItem]) -> Sequence[RankedItem]:
        """Return the given results in a new order; none may be added, and those left out fall behind the others."""
        ...


TIMED = 200
"""How many of the best results are given to what puts those of a named time among the first."""

RERANKED = 50
"""How many of the best results a reranker is given."""

JUDGED = DEPTH
"""How many of the best results the verdict is passed on, whatever the limit."""


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
