"""What authors of backends build on, beside :mod:`memoranda.store`.

The contract is :class:`memoranda.store.Store`. Here are what an engine answers (:class:`Engine`,
:class:`Query`, :class:`Write`), what a filter means (:class:`Filter` and its conditions), how an item is copied,
written and read, and the rules of ownership and versions.
"""

from __future__ import annotations

from memoranda.store.base import of_owner
from memoranda.store.branch_layer import as_one_session
from memoranda.store.calls import step
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
    OfUsers,
    Past,
    fold,
    json_equal,
)
from memoranda.store.engine import Engine, Layer, Opened, Opening, rank_scope
from memoranda.store.entry_index import differing
from memoranda.store.fields import fields_of
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
from memoranda.store.four_methods import one_thread_at_a_time
from memoranda.store.lifetimes import end_of_life, with_lifetime
from memoranda.store.observers import Observers
from memoranda.store.owners import Listing, is_below, key_bounds
from memoranda.store.protocol import BASE_CAPABILITIES
from memoranda.store.ranked import Entry, ScopeIndex
from memoranda.store.requests import (
    AS_ADDED,
    EVERY_ITEM,
    Action,
    Change,
    Expected,
    Query,
    Ranking,
    Write,
    Written,
    best_of,
    check_expected,
    check_owner,
    items_of_ids,
    items_where,
    keep_trust,
    next_versions,
    payloads_where,
    place_of,
    successor,
)
from memoranda.store.values import ITEM_FIELDS, OPERATORS, Value, moment_text, value_conditions
from memoranda.store.window import ONLY_STAYING

__all__ = [
    "AS_ADDED", "BASE_CAPABILITIES", "EVERY_ITEM", "ITEM_FIELDS", "MAX_KEY_BYTES", "ONLY_STAYING", "OPERATORS",
    "Action", "Archived", "AtLeast", "Below", "Change", "Condition", "Contains", "Created", "Engine", "Entry",
    "Expected", "Expiry", "ExtraEquals", "FieldEquals", "Filter", "InBranch", "InScope", "Layer", "Listing",
    "Observers", "OfUsers", "Opened", "Opening", "Page", "Past", "Query", "Ranking", "ScopeIndex", "Value", "Write",
    "Written", "as_one_session", "bare_item", "bare_metadata", "best_of", "check_clearing", "check_expected",
    "check_filter", "check_item", "check_metadata", "check_owner", "differing", "end_of_life", "extra_matches",
    "fields_of", "fold", "further_values", "in_order", "is_below", "items_of_ids", "items_where", "json_equal",
    "keep_trust", "key_bounds", "left_out", "make_item", "make_metadata", "merge_scope", "metadata_matches",
    "moment_text", "names_nothing", "next_versions", "of_owner", "one_thread_at_a_time", "payloads_where", "place_of",
    "rank_scope", "readable", "step", "storable", "successor", "value_conditions", "with_lifetime",
]  # fmt: skip
