"""What of a space is shown to others, and how far it is trusted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from memoranda.items import MemoryItem
from memoranda.store import copy_item
from memoranda.store.backend import AtLeast, Filter, Value
from memoranda.store.ranked import RankedItem
from memoranda.store.records import RECORD_MAKERS
from memoranda.trust import Trust, trust_of

MOST_TRUST = Trust.AGENT
"""How far anything in a space is trusted at most, by whoever it was written: it is never the reader's own word."""

WRITTEN_TRUST = Trust.EXTERNAL
"""How far what a member writes into a space is trusted, until an operator approves it."""

NOT_SHARED = (*sorted(RECORD_MAKERS), "branch", "fact", "graph")
"""Types that a handle reads in its own scope alone: what is believed of a user must not come from a space."""

_SHARED_ONLY = tuple(Value("memory_type", False, "$ne", kind) for kind in NOT_SHARED)


def shared(wanted: Filter) -> Filter | None:
    """Return a filter as it is asked of spaces; None if nothing that is shared could match."""
    if any(type(each) is AtLeast and each.trust > MOST_TRUST for each in wanted.further):
        return None
    kinds = (wanted.memory_type,) if isinstance(wanted.memory_type, str) else wanted.memory_type
    if kinds is None:
        return wanted.also(*_SHARED_ONLY)
    named = tuple(kind for kind in kinds if kind not in NOT_SHARED)
    return replace(wanted, memory_type=named) if named else None


def is_shared(item: MemoryItem) -> bool:
    """Return True for an item of a space that handles of others may be shown."""
    return item.memory_type not in NOT_SHARED


def seen(item: MemoryItem) -> MemoryItem:
    """Return an item of a space as others see it; one that changes for that is a copy."""
    if trust_of(item) <= MOST_TRUST:
        return item
    lowered = copy_item(item)
    lowered.__dict__["trust"] = str(MOST_TRUST)
    return lowered


def seen_all(found: Iterable[Any]) -> list[Any]:
    """Return what a read of a space gave as others see it: items, or items with their scores."""
    return [_seen(each) for each in found]


def _seen(found: Any) -> Any:
    if isinstance(found, MemoryItem):
        return seen(found)
    if not isinstance(found, RankedItem) or trust_of(found.item) <= MOST_TRUST:
        return found
    return replace(found, item=seen(found.item))
