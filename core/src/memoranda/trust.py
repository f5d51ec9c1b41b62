"""How far an item is trusted: by who wrote it and what it was made from, never by what it says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from memoranda.errors import unknown_name


class Trust(StrEnum):
    """Who speaks in an item, from the least trusted to the most; ``Trust.TOOL < Trust.USER``."""

    EXTERNAL = "external"
    TOOL = "tool"
    AGENT = "agent"
    USER = "user"
    OPERATOR = "operator"

    @property
    def rank(self) -> int:
        """The place in this order, from 0."""
        return _RANKS[self]

    def __lt__(self, other: str) -> bool:
        return _RANKS[self] < _RANKS[other]

    def __le__(self, other: str) -> bool:
        return _RANKS[self] <= _RANKS[other]

    def __gt__(self, other: str) -> bool:
        return _RANKS[self] > _RANKS[other]

    def __ge__(self, other: str) -> bool:
        return _RANKS[self] >= _RANKS[other]


_RANKS: Mapping[str, int] = {trust: rank for rank, trust in enumerate(Trust)}
_KNOWN: Mapping[Any, Trust] = {str(trust): trust for trust in Trust}

TRUST_OF_TYPES = {"system": Trust.OPERATOR, "human": Trust.USER, "tool": Trust.TOOL}
"""How far the items of a type are trusted that do not say so themselves; those of other types as an agent's."""


def trusted_as(memory_type: str, given: str | None) -> Trust:
    """Return the trust of an item by its type and its ``given`` trust; an unknown trust counts as the lowest."""
    return TRUST_OF_TYPES.get(memory_type, Trust.AGENT) if given is None else _KNOWN.get(given, Trust.EXTERNAL)


def trust_of(item: Any) -> Trust:
    """Return how far an item is trusted: by its stamp, or else by its type."""
    return trusted_as(item.memory_type, item.trust)


def is_someone_elses(item: Any) -> bool:
    """Return True if a person speaks in an item who is not the user, such as a member of a space or a web page."""
    return item.memory_type == "human" and item.trust is not None and trust_of(item) < Trust.USER


def origin_of(item: Any) -> str | None:
    """Return where an item comes from: its origin, or else the tool whose result it is."""
    return item.origin or getattr(item, "tool_name", None) or None


def lowest_trust(items: Iterable[Any]) -> Trust:
    """Return the lowest trust of some items, which what is made from them gets; an agent's for no items."""
    return min(map(trust_of, items), default=Trust.AGENT)


def replacing_trust(stored: Trust, new: Trust, approval: Any, version: int) -> Trust:
    """Return the trust of a replacing item: never higher than before, unless it carries an approval of this version."""
    return new if isinstance(approval, Mapping) and approval.get("version") == version else min(stored, new)


def check_trust(trust: str, field: str) -> Trust:
    """Return the trust with this name, or raise InputError for an unknown one."""
    if not isinstance(trust, str) or trust not in _KNOWN:
        raise unknown_name(field, trust, Trust, field=field)
    return _KNOWN[trust]
