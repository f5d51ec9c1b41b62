"""What a store promises, and what every backend builds on.

The contract is :class:`BaseStore`; what a filter means is :class:`Filter`; how an item is written and read is in
:mod:`memoranda.store.codec`.
"""

from __future__ import annotations

from memoranda.store.base import BaseStore, ScopedStore
from memoranda.store.capabilities import BASE_CAPABILITIES, Access, Capability, SearchMode
from memoranda.store.checks import MAX_KEY_BYTES, check_item, check_metadata, storable
from memoranda.store.codec import (
    bare_item,
    bare_metadata,
    build_item,
    copy_item,
    dump_item,
    further_values,
    load_item,
    make_item,
    make_metadata,
)
from memoranda.store.conditions import (
    Archived,
    Below,
    Condition,
    Contains,
    Created,
    Expiry,
    ExtraEquals,
    FieldEquals,
    InBranch,
    InScope,
    Past,
    fold,
    json_equal,
    metadata_conditions,
)
from memoranda.store.fields import ItemFields, fields_of
from memoranda.store.filters import (
    Filter,
    Moment,
    check_clearing,
    check_filter,
    check_limit,
    extra_matches,
    merge_scope,
    metadata_matches,
    names_nothing,
)
from memoranda.store.forked import as_one_session
from memoranda.store.health import Erasing, Examinable, Finding, Progress, Reindexable
from memoranda.store.in_memory import InMemoryStore
from memoranda.store.lifetimes import Lifetimes, end_of_life, with_lifetime
from memoranda.store.namespaces import is_below, key_bounds, namespace_key, namespace_of
from memoranda.store.observers import Observer, Observers
from memoranda.store.owners import Listing, Owner, OwnerField
from memoranda.store.pages import EVERYTHING, Order, Page, in_order
from memoranda.store.protocol import MemoryStore
from memoranda.store.scoped import scope_metadata
from memoranda.store.succession import check_expected, check_owner, successor
from memoranda.store.unreadable import left_out, readable
from memoranda.store.values import ITEM_FIELDS, OPERATORS, Value, moment_text, value_conditions
from memoranda.store.writes import Expected, Write, kept

__all__ = [
    "BASE_CAPABILITIES", "EVERYTHING", "ITEM_FIELDS", "MAX_KEY_BYTES", "OPERATORS", "Access", "Archived", "BaseStore",
    "Below", "Capability", "Condition", "Contains", "Created", "Erasing", "Examinable", "Expected", "Expiry",
    "ExtraEquals", "FieldEquals", "Filter", "Finding", "InBranch", "InMemoryStore", "InScope",
    "ItemFields", "Lifetimes", "Listing", "MemoryStore", "Moment", "Observer", "Observers", "Order", "Owner",
    "OwnerField", "Page", "Past", "Progress", "Reindexable", "ScopedStore", "SearchMode", "Value", "Write",
    "as_one_session", "bare_item", "bare_metadata", "build_item", "check_clearing", "check_expected", "check_filter",
    "check_item", "check_limit", "check_metadata", "check_owner", "copy_item", "dump_item", "end_of_life",
    "extra_matches", "fields_of", "fold", "further_values", "in_order", "is_below", "json_equal", "kept", "key_bounds",
    "left_out", "load_item", "make_item", "make_metadata", "merge_scope", "metadata_conditions", "metadata_matches",
    "moment_text", "names_nothing", "namespace_key", "namespace_of", "readable", "scope_metadata", "storable",
    "successor", "value_conditions", "with_lifetime",
]  # fmt: skip
