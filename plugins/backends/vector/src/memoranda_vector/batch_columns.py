"""Items as a table stores them: private copies, and the columns of a batch.

Columns are worked out beforehand, in a thread, while others change the table. Storing the batch is then a few
assignments of whole columns and does not block the event loop for long.
"""

from __future__ import annotations

import gc
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoranda.items import BUILTIN_TYPES, SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.store import copy_item
from memoranda.store.backend import bare_item, fields_of, make_metadata
from memoranda_backend.ranking import fold_words, has_text, speaker_of
from memoranda_vector.column_index import Rows

Matrix = NDArray[np.float32]
Flags = NDArray[np.bool_]
Times = NDArray[np.int64]

NEVER = np.iinfo(np.int64).max
"""The end of an item that never expires."""

CONVERSATION = 3
"""How many fields of a scope the turns of a conversation share: user, session and task."""

_LABEL = 100
"""Within how many letters a content names its speaker."""

_FLAT = frozenset(cls for cls in (MemoryItem, *BUILTIN_TYPES.values()) if not fields_of(cls).nested)
"""Types without fields that could hold something mutable."""

_MANY = 1_000
"""From this many objects on, pausing the cycle collector pays."""

_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)

scope_of = itemgetter(*SCOPE_FIELDS, "namespace")
"""Return the scope from the fields of metadata, as a tuple of the ids and the namespace."""


class ItemVectors(NamedTuple):
    """The vectors of some items, each of length one or zero.

    ``first`` has one row for each item. ``further`` holds the vectors of its other passages, by the item's position;
    only long items have several passages.
    """

    first: Matrix
    further: Mapping[int, Matrix] = {}

    def part(self, places: Sequence[int]) -> ItemVectors:
        """Return the vectors of the items at these positions."""
        numbered = enumerate(places) if self.further else ()
        further = {number: self.further[place] for number, place in numbered if place in self.further}
        return ItemVectors(self.first[places], further)


class BatchColumns(NamedTuple):
    """Items that become a table's own, with their vectors and their columns.

    ``values`` are the different combinations of indexed values, and ``which`` is the number of each item's. ``alike``
    is True where the stored item of the same id has the same combination.
    """

    items: Sequence[MemoryItem]
    vectors: ItemVectors
    values: Sequence[tuple[Hashable | None, ...]]
    which: Rows
    alike: Flags
    times: Times
    updated: Times
    ends: Times
    archived: Flags
    zero: Flags
    blank: Flags

    def part(self, places: Sequence[int]) -> BatchColumns:
        """Return the columns of the items at these positions, which are all different."""
        if len(places) == len(self.items):
            return self  # In its own order: only an id that comes twice would change that.
        kept = np.array(places, dtype=np.intp)
        used, which = np.unique(self.which[kept], return_inverse=True)
        return BatchColumns(
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


def columns_of(items: Sequence[MemoryItem], vectors: ItemVectors, held: Sequence[MemoryItem | None]) -> BatchColumns:
    """Return the columns of items with these vectors; ``held`` is what is stored under their ids, if anything."""
    with collector_paused(len(items)):
        # Items of one batch mostly share their scope, so each combination of values is looked up once.
        keys: dict[tuple[Any, ...], int] = {}
        which = np.array([keys.setdefault(index_key(item), len(keys)) for item in items], dtype=np.int32)
        numbers = [None if item is None else keys.get(index_key(item)) for item in held]
        times = _moments([item.created_at for item in items])
        changed = any(item.updated_at != item.created_at for item in items)
        ends = np.full(len(items), NEVER, dtype=np.int64)
        for place, item in enumerate(items):
            if item.expires_at is not None:
                ends[place] = microseconds(item.expires_at)
        return BatchColumns(
            items,
            vectors,
            [index_values(key) for key in keys],
            which,
            _flags([number == own for number, own in zip(numbers, which.tolist(), strict=True)]),
            times,
            _moments([item.updated_at for item in items]) if changed else times,
            ends,
            _flags([item.archived_by is not None for item in items]),
            _all_zero(vectors),
            _flags([not has_text(item.content) for item in items]),
        )


def index_key(item: MemoryItem) -> tuple[Any, ...]:
    """Return a key of the values that an item is indexed by; see :func:`index_values`."""
    speaker = speaker_of(item.name, "", item.content) if item.name or ":" in item.content[:_LABEL] else ""
    return scope_of(item.metadata.__dict__), item.memory_type, item.status, speaker


def index_values(key: tuple[Any, ...]) -> tuple[Hashable | None, ...]:
    """Return the values that items of this key are indexed by, in the order of a table's indexes."""
    scope, memory_type, status, speaker = key
    return *scope[:-1], scope[-1] or None, scope[:CONVERSATION], memory_type, status, _first_word(speaker)


def microseconds(text: str) -> int:
    """Return a time, in the form that items carry, as columns hold it."""
    return (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND


def private_copies(items: Sequence[MemoryItem], owned: bool = False) -> list[MemoryItem]:
    """Return copies of validated items for the store alone; items that it owns already are not copied.

    Items of one scope share their metadata, which no caller can change: that halves the cost.
    """
    with collector_paused(len(items)):
        return list(_copies(items, owned))


def private_copy(item: MemoryItem, alike: MemoryMetadata | None) -> MemoryItem:
    """Return a copy of one item for the store alone; it shares ``alike``, the metadata of a stored item, if equal."""
    held = item.metadata.__dict__
    if type(item) not in _FLAT or held["extra"] or item.__pydantic_extra__ or alike is None or alike.__dict__ != held:
        return copy_item(item)
    fields = item.__dict__.copy()
    fields["metadata"] = alike
    return bare_item(type(item), fields, {})


@contextmanager
def collector_paused(objects: int) -> Iterator[None]:
    """Pause Python's cycle collector while many long-lived objects are made.

    It would traverse them repeatedly, find nothing, and take a quarter of the time. Nothing may be awaited inside.
    """
    pause = objects >= _MANY and gc.isenabled()
    if pause:
        gc.disable()
    try:
        yield
    finally:
        if pause:
            gc.enable()


def _first_word(name: str) -> str | None:
    return next(iter(fold_words(name)), None) if name else None


def _all_zero(vectors: ItemVectors) -> Flags:
    zero: Flags = vectors.first[:, 0] == 0  # The first value mostly decides.
    zero[zero] = ~vectors.first[zero].any(axis=1)
    zero[list(vectors.further)] = False
    return zero


def _flags(values: Sequence[bool]) -> Flags:
    return np.array(values, dtype=np.bool_)


def _moments(texts: Sequence[str]) -> Times:
    """Return times in microseconds. numpy cannot read the zone of the UTC text that items carry."""
    return np.array([text[:26] for text in texts], dtype="datetime64[us]").astype(np.int64)


def _copies(items: Sequence[MemoryItem], owned: bool) -> Iterator[MemoryItem]:
    shared: dict[tuple[object, ...], MemoryMetadata] = {}
    for item in items:
        metadata = item.metadata.__dict__
        if type(item) not in _FLAT or metadata["extra"] or item.__pydantic_extra__:
            yield item if owned else copy_item(item)
            continue
        scope = scope_of(metadata)
        common = shared.get(scope)
        if common is None:
            common = shared[scope] = make_metadata(metadata | {"extra": {}})
        fields = item.__dict__ if owned else item.__dict__.copy()
        fields["metadata"] = common
        yield item if owned else bare_item(type(item), fields, {})
