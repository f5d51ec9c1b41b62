"""What of a space is shown to others, and how far it is trusted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from memoranda.items import MemoryItem
from memoranda.store import copy_item
from memoranda.store.backend import AtLeast, Filter, Value
from memoranda.store.ranked import RankedItem
from memoranda.store.records import RECORD_MAKERS
from memoranda.trust import Trust, trust_of

T = TypeVar("T")

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


def seen(found: T) -> T:
    """Return an item of a space, or one with its score, as others see it; what changes for that is a copy."""
    item = found.item if isinstance(found, RankedItem) else found
    if not isinstance(item, MemoryItem) or trust_of(item) <= MOST_TRUST:
        return found
    lowered: Any = copy_item(item)
    lowered.__dict__["trust"] = str(MOST_TRUST)
    return replace(found, item=lowered) if isinstance(found, RankedItem) else lowered


def seen_all(found: Iterable[T]) -> list[T]:
    """Return what a read of a space gave as others see it."""
    return [seen(each) for each in found]
