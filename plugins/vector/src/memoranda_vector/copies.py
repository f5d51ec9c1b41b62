"""Copies of items that a store keeps to itself."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter

from memoranda.items import BUILTIN_TYPES, SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.store import copy_item
from memoranda.store.backend import bare_item, fields_of, make_metadata

_FLAT = frozenset(cls for cls in (MemoryItem, *BUILTIN_TYPES.values()) if not fields_of(cls).nested)
"""Types without fields that could hold something changeable."""

_MANY = 1_000

scope_of = itemgetter(*SCOPE_FIELDS, "namespace")
"""Return the scope in the fields of metadata, as a tuple: the ids and the namespace."""


def kept_copies(items: Sequence[MemoryItem], owned: bool = False) -> list[MemoryItem]:
    """Return copies of items that were checked, for a store that never hands them out; those it owns are no copies.

    Those of one scope share their metadata, which nobody can change any more: that halves their cost.
    """
    with collector_paused(len(items)):
        return list(_copies(items, owned))


def kept_copy(item: MemoryItem, alike: MemoryMetadata | None) -> MemoryItem:
    """Return such a copy of one item, which shares the metadata of one that is kept, if that is the same."""
    held = item.metadata.__dict__
    if type(item) not in _FLAT or held["extra"] or item.__pydantic_extra__ or alike is None or alike.__dict__ != held:
        return copy_item(item)
    fields = item.__dict__.copy()
    fields["metadata"] = alike
    return bare_item(type(item), fields, {})


@contextmanager
def collector_paused(objects: int) -> Iterator[None]:
    """Hold Python's cycle collector back while many objects are made that all stay.

    It would go through them again and again, find nothing, and take a quarter of the time. Nothing may be awaited here.
    """
    pause = objects >= _MANY and gc.isenabled()
    if pause:
        gc.disable()
    try:
        yield
    finally:
        if pause:
            gc.enable()


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
