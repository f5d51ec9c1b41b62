"""What authors of backends build on, beside :mod:`memoranda.store`.

The contract is :class:`memoranda.store.BaseStore`. Here are what a filter means (:class:`Filter` and its conditions),
how an item is copied, written and read, the rules of ownership and versions, and what a batch writes (:class:`Write`).
"""

from __future__ import annotations

from memoranda.store.branches import as_one_session
from memoranda.store.checks import MAX_KEY_BYTES, check_item, check_metadata, storable
from memoranda.store.codec import bare_item, bare_metadata, further_values, left_out, make_item, make_metadata, readable
from memoranda.store.conditions import (
    Archived,
    AtLeast,
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
from memoranda.store.engine import one_thread_at_a_time
from memoranda.store.entry_index import differing
from memoranda.store.fields import ItemFields, fields_of
from memoranda.store.filters import (
    Filter,
    Page,
    check_clearing,
    check_filter,
    extra_matches,
    in_order,
    merge_scope,
    metadata_matches,
    names_nothing,
)
from memoranda.store.lifetimes import Lifetimes, end_of_life, with_lifetime
from memoranda.store.observers import Observers
from memoranda.store.owners import Listing, is_below, key_bounds
from memoranda.store.protocol import BASE_CAPABILITIES
from memoranda.store.ranked import Entry, ScopeIndex
from memoranda.store.scoped import scope_metadata
from memoranda.store.values import ITEM_FIELDS, OPERATORS, Value, moment_text, value_conditions
from memoranda.store.writes import Expected, Write, check_expected, check_owner, keep_trust, kept, successor

__all__ = [
    "BASE_CAPABILITIES", "ITEM_FIELDS", "MAX_KEY_BYTES", "OPERATORS", "Archived", "AtLeast", "Below", "Condition",
    "Contains", "Created", "Entry", "Expected", "Expiry", "ExtraEquals", "FieldEquals", "Filter", "InBranch", "InScope",
    "ItemFields", "Lifetimes", "Listing", "Observers", "Page", "Past", "ScopeIndex", "Value", "Write", "as_one_session",
    "bare_item", "bare_metadata", "check_clearing", "check_expected", "check_filter", "check_item", "check_metadata",
    "check_owner", "differing", "end_of_life", "extra_matches", "fields_of", "fold", "further_values", "in_order",
    "is_below", "json_equal", "keep_trust", "kept", "key_bounds", "left_out", "make_item", "make_metadata",
    "merge_scope", "metadata_conditions", "metadata_matches", "moment_text", "names_nothing", "one_thread_at_a_time",
    "readable", "scope_metadata", "storable", "successor", "value_conditions", "with_lifetime",
]  # fmt: skip
