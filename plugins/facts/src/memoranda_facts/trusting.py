"""How much a source is trusted, from the least to the most."""

from __future__ import annotations

from collections.abc import Iterable

from memoranda.errors import InputError
from memoranda.items import MemoryItem

LEVELS = ("external", "tool", "agent", "user", "operator")
"""Every level of trust, the lowest first."""

_RANKS = {level: rank for rank, level in enumerate(LEVELS)}
_BY_TYPE = {"system": "operator", "human": "user", "tool": "tool"}


def rank_of(level: str) -> int:
    """Return the place of a level of trust, 0 for the lowest."""
    return _RANKS[level]


def checked_trust(level: str) -> str:
    """Return a level of trust. Raises InputError for any other text."""
    if level not in _RANKS:
        raise InputError(f"Trust is one of {', '.join(LEVELS)}.", field="trust")
    return str(level)


def trust_of(item: MemoryItem) -> str:
    """Return how much an item is trusted: as it says itself, or as its type says."""
    own = getattr(item, "trust", None)
    return str(own) if own else _BY_TYPE.get(item.memory_type, "agent")


def lowest(levels: Iterable[str]) -> str:
    """Return the lowest of some levels."""
    return min(levels, key=rank_of)
