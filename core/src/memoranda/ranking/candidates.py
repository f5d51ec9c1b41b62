"""Which items of a scope a ranking looks at: one policy, so that a history is ranked alike wherever it is kept.

A small scope is ranked as a whole. Of a larger one these are ranked, each with the turns around it:

* the items with the rarest terms of the query, by the sum of the rarities, and the newest among equals;
* the newest of every day or month that the query names;
* for a term that no content has: the newest of a speaker of that name, and those that have the beginning of the term;
* where meaning counts, the nearest by their vectors.

An engine answers these questions in its own way, and takes the numbers from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest
from math import log
from typing import Any, TypeVar

from memoranda.ranking.letters import letter_groups
from memoranda.ranking.passages import Weights

WHOLE_SCOPE = 1_000
"""A scope of up to this many items is ranked as a whole."""

MOST_HITS = 300
"""How many items with terms of the query are ranked with their neighbours, where not more are asked for."""

NEWEST_FOUND = 100
"""How many are taken of each day, month, speaker or beginning of a word: the newest."""

NEAREST = 200
"""How many of the most similar items are ranked beside those that share a word."""

MOST_COUNTED = 200_000
"""Beyond this many items, how many more there are makes no difference to a ranking."""

_SHORTEST_BEGINNING = 4
_BEGINNING = 0.7

KeyT = TypeVar("KeyT")


def turns_around(weights: Weights) -> int:
    """Return how many turns on each side of a hit are ranked with it.

    Those in reach count for the hit, and those in reach of these for how long they are.
    """
    return max(1, 2 * weights.reach)


def rarity(size: int, frequency: int) -> float:
    """Return how much a term tells that is in so many of the items of a scope."""
    return log(1 + (size + 0.5) / (frequency + 0.5))


def best_hits(
    having: Iterable[tuple[Sequence[KeyT], int]], size: int, most: int, newest: Callable[[KeyT], Any]
) -> list[KeyT]:
    """Return the items with the greatest sum of rarities; of equal ones, those that are ``newest``.

    For each term, ``having`` gives the items that have it, and in how many it is.
    """
    hits: dict[KeyT, float] = {}
    for keys, frequency in having:
        told = rarity(size, frequency)
        for key in keys:
            hits[key] = hits.get(key, 0.0) + told
    return nlargest(most, hits, key=lambda key: (hits[key], newest(key)))


def beginning(term: str) -> str | None:
    """Return the letters by which other forms of a term are looked for where none has it, if it is long enough."""
    if len(term) < _SHORTEST_BEGINNING or not letter_groups(term):
        return None
    return term[: max(_SHORTEST_BEGINNING, round(_BEGINNING * len(term)))]
