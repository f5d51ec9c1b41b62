"""The vectors of passages: a long item has one row for each of its passages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from memoranda_backend.ranking import held_back, passage_at

KEY = "PRIMARY KEY (item_id, part)"
PART = "part SMALLINT NOT NULL DEFAULT 0"
"""The number of the passage within its item, from 0."""

PARTS = "parts SMALLINT NOT NULL DEFAULT 1"
"""How many passages the item has."""

ItemVectors = tuple[str, int, Sequence[Sequence[float]]]
"""The id, the version and the vectors of an item."""


class Near(NamedTuple):
    """How near an item is: that of its nearest passage, damped by how many it has. ``row`` is the row as read."""

    row: Any
    similarity: float
    part: int
    parts: int

    def passage(self, content: str) -> str:
        """Return the nearest passage; the empty text where there is only one."""
        return passage_at(content, self.part, self.parts) if self.parts > 1 else ""


class Nearness(NamedTuple):
    """How near items are, by their ids, and which passage of each long item is nearest."""

    similarities: Mapping[str, float]
    divided: Mapping[str, Near]

    def part(self, item_id: str) -> tuple[int, int]:
        """Return which of how many passages of an item is nearest."""
        near = self.divided.get(item_id)
        return (0, 1) if near is None else (near.part, near.parts)


def best_of_each(compared: Iterable[tuple[str, float, int, int, Any]], damping: float) -> dict[str, Near]:
    """Return how near each item is, by its id and in this order.

    Each passage is given as the item's id, the cosine, the passage's number, the number of passages, and its row.
    """
    found: dict[str, Near] = {}
    for item_id, cosine, part, parts, row in compared:
        if math.isnan(cosine):
            cosine = 0.0  # The result for a vector of zeros.
        similarity = cosine if parts == 1 else held_back(cosine, parts, damping)
        best = found.get(item_id)
        if best is None or (similarity, -part) > (best.similarity, -best.part):
            found[item_id] = Near(row, similarity, part, parts)
    return found


def in_batches(vectors: Iterable[ItemVectors], most: int) -> Iterator[list[ItemVectors]]:
    """Yield the items in batches of about so many vectors."""
    batch: list[ItemVectors] = []
    held = 0
    for item in vectors:
        batch.append(item)
        held += len(item[2])
        if held >= most:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def numbered(vectors: Sequence[Sequence[Any]]) -> tuple[list[int], list[int], list[int]]:
    """Return, for the vectors of several items in a row: the item of each, its number, and the number of passages."""
    owners: list[int] = []
    parts: list[int] = []
    counts: list[int] = []
    for owner, passages in enumerate(vectors):
        owners += [owner] * len(passages)
        parts += range(len(passages))
        counts += [len(passages)] * len(passages)
    return owners, parts, counts
