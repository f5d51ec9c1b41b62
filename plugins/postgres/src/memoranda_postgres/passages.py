"""The vectors of passages: one row for each, where an item is long."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from memoranda.ranking import Passage, held_back, passage_at

KEY = "PRIMARY KEY (item_id, part)"
PART = "part SMALLINT NOT NULL DEFAULT 0"
"""Which passage of its item a vector is of, from 0."""

PARTS = "parts SMALLINT NOT NULL DEFAULT 1"
"""How many passages the item has."""

Kept = tuple[str, int, Sequence[Sequence[float]]]
"""The id, the version and the vectors of an item."""


class Near(NamedTuple):
    """How near an item is: as near as its nearest passage, held back for having many. The row is as it was read."""

    row: Any
    similarity: float
    part: int
    parts: int

    def passage(self, content: str) -> str:
        """Return the nearest passage; the empty text where there is only one."""
        return passage_at(content, self.part, self.parts) if self.parts > 1 else ""


class Nearness(NamedTuple):
    """How near items are, by their ids, and of the long ones which passage is."""

    similarities: Mapping[str, float]
    divided: Mapping[str, Near]

    def passage(self, passage: Passage) -> str:
        """Return the nearest part of an item; the empty text where there is only one."""
        near = self.divided.get(passage.key)
        return "" if near is None else near.passage(passage.text)


def best_of_each(compared: Iterable[tuple[str, float, int, int, Any]], damping: float) -> dict[str, Near]:
    """Return how near each item is, by its id and in this order.

    Of each passage there are given the item's id, the cosine, which passage it is and of how many, and its row.
    """
    found: dict[str, Near] = {}
    for item_id, cosine, part, parts, row in compared:
        if math.isnan(cosine):
            cosine = 0.0  # The engine says so of a vector of zeros.
        similarity = cosine if parts == 1 else held_back(cosine, parts, damping)
        known = found.get(item_id)
        if known is None or (similarity, -part) > (known.similarity, -known.part):
            found[item_id] = Near(row, similarity, part, parts)
    return found


def in_batches(vectors: Iterable[Kept], most: int) -> Iterator[list[Kept]]:
    """Yield the items in batches of about so many vectors."""
    batch: list[Kept] = []
    held = 0
    for kept in vectors:
        batch.append(kept)
        held += len(kept[2])
        if held >= most:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def numbered(vectors: Sequence[Sequence[Any]]) -> tuple[list[int], list[int], list[int]]:
    """Return, for the vectors of several items one behind the other, whose each is, its number and of how many."""
    owners: list[int] = []
    parts: list[int] = []
    counts: list[int] = []
    for owner, passages in enumerate(vectors):
        owners += [owner] * len(passages)
        parts += range(len(passages))
        counts += [len(passages)] * len(passages)
    return owners, parts, counts
