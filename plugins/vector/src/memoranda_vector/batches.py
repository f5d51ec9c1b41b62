"""What a table needs to know of a batch, worked out beforehand: in a thread, while others change the table.

What the batch is stored with in the end is a few assignments of whole columns, so that nobody waits for long.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoranda.items import MemoryItem
from memoranda_ranking import fold_words, has_text, speaker_of
from memoranda_vector.choosing import microseconds
from memoranda_vector.copies import collector_paused, scope_of
from memoranda_vector.facets import Rows

Matrix = NDArray[np.float32]
Flags = NDArray[np.bool_]
Times = NDArray[np.int64]

NEVER = np.iinfo(np.int64).max
"""The end of an item that does not expire."""

CONVERSATION = 3
"""How much of a scope neighbouring turns have in common: user, session and task."""

_LABEL = 100


class Embedded(NamedTuple):
    """The vectors of some items, of length one or zero: of each the first, and by its place those of further passages.

    Only a long item has several passages.
    """

    first: Matrix
    further: Mapping[int, Matrix] = {}

    def part(self, places: Sequence[int]) -> Embedded:
        """Return the vectors of the items at these places."""
        numbered = enumerate(places) if self.further else ()
        further = {number: self.further[place] for number, place in numbered if place in self.further}
        return Embedded(self.first[places], further)


class Batch(NamedTuple):
    """Items that become a table's own, their vectors, and both as columns.

    ``which`` says which of ``values``, the combinations of what items are found by, each item has, and ``alike``
    whether what was held under its id has the same.
    """

    items: Sequence[MemoryItem]
    vectors: Embedded
    values: Sequence[tuple[Hashable | None, ...]]
    which: Rows
    alike: Flags
    times: Times
    updated: Times
    ends: Times
    archived: Flags
    zero: Flags
    blank: Flags

    def part(self, places: Sequence[int]) -> Batch:
        """Return what stands at these places, which are all different."""
        if len(places) == len(self.items):
            return self  # In its order: only an id that is there twice would change that.
        kept = np.array(places, dtype=np.intp)
        used, which = np.unique(self.which[kept], return_inverse=True)
        return Batch(
            [self.items[place] for place in places],
            self.vectors.part(places),
            [self.values[number] for number in used.tolist()],
            which.astype(np.int32),
            self.alike[kept],
            self.times[kept],
            self.updated[kept],
            self.ends[kept],
            self.archived[kept],
            self.zero[kept],
            self.blank[kept],
        )


def batch_of(items: Sequence[MemoryItem], vectors: Embedded, held: Sequence[MemoryItem | None]) -> Batch:
    """Return a batch of items with their vectors, and of what is held under their ids, if anything."""
    with collector_paused(len(items)):
        # Items of one batch mostly share their scope, so that each combination of values is looked up once.
        keys: dict[tuple[Any, ...], int] = {}
        which = np.array([keys.setdefault(facet_key(item), len(keys)) for item in items], dtype=np.int32)
        numbers = [None if item is None else keys.get(facet_key(item)) for item in held]
        times = _moments([item.created_at for item in items])
        changed = any(item.updated_at != item.created_at for item in items)
        ends = np.full(len(items), NEVER, dtype=np.int64)
        for place, item in enumerate(items):
            if item.expires_at is not None:
                ends[place] = microseconds(item.expires_at)
        return Batch(
            items,
            vectors,
            [facet_values(key) for key in keys],
            which,
            _flags([number == own for number, own in zip(numbers, which.tolist(), strict=True)]),
            times,
            _moments([item.updated_at for item in items]) if changed else times,
            ends,
            _flags([item.archived_by is not None for item in items]),
            _all_zero(vectors),
            _flags([not has_text(item.content) for item in items]),
        )


def facet_key(item: MemoryItem) -> tuple[Any, ...]:
    """Return what an item is found by, in short: see :func:`facet_values`."""
    speaker = speaker_of(item.name, "", item.content) if item.name or ":" in item.content[:_LABEL] else ""
    return scope_of(item.metadata.__dict__), item.memory_type, item.status, speaker


def facet_values(key: tuple[Any, ...]) -> tuple[Hashable | None, ...]:
    """Return what items of this key are found by, in the order of the facets."""
    scope, memory_type, status, speaker = key
    return *scope[:-1], scope[-1] or None, scope[:CONVERSATION], memory_type, status, _first_word(speaker)


def _first_word(name: str) -> str | None:
    return next(iter(fold_words(name)), None) if name else None


def _all_zero(vectors: Embedded) -> Flags:
    zero: Flags = vectors.first[:, 0] == 0  # Mostly the first number tells.
    zero[zero] = ~vectors.first[zero].any(axis=1)
    zero[list(vectors.further)] = False
    return zero


def _flags(values: Sequence[bool]) -> Flags:
    return np.array(values, dtype=np.bool_)


def _moments(texts: Sequence[str]) -> Times:
    """Return times in microseconds. Items carry them as UTC text, whose zone numpy does not read."""
    return np.array([text[:26] for text in texts], dtype="datetime64[us]").astype(np.int64)
