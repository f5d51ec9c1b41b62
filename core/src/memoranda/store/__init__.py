"""What users of a store need. Authors of backends find the rest in :mod:`memoranda.store.backend`."""

from __future__ import annotations

from memoranda.plugins.observers import Observer
from memoranda.store.base import ScopedStore, Store
from memoranda.store.codec import copy_item, dump_item, load_item
from memoranda.store.filters import EVERYTHING, Moment, Order
from memoranda.store.four_methods import BaseStore
from memoranda.store.in_memory import InMemoryStore
from memoranda.store.owners import Owner, OwnerField, namespace_key, namespace_of
from memoranda.store.protocol import (
    Access,
    Capability,
    Erasing,
    Examinable,
    Finding,
    MemoryStore,
    Progress,
    Reindexable,
    SearchMode,
)
from memoranda.store.ranked import RankedItem, Ranker, Recalled, Reranker, Verdict
from memoranda.store.snapshots import one_state

__all__ = [
    "EVERYTHING", "Access", "BaseStore", "Capability", "Erasing", "Examinable", "Finding", "InMemoryStore",
    "MemoryStore", "Moment", "Observer", "Order", "Owner", "OwnerField", "Progress", "RankedItem", "Ranker",
    "Recalled", "Reindexable", "Reranker", "ScopedStore", "SearchMode", "Store", "Verdict", "copy_item", "dump_item",
    "load_item", "namespace_key", "namespace_of", "one_state",
]  # fmt: skip
