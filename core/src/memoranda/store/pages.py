"""Which part of a listing is meant, and in which order: the one meaning of ``limit``, ``offset`` and ``order``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from memoranda.errors import InputError, quoted
from memoranda.items import MemoryItem
from memoranda.shapes import whole_number

EVERYTHING = 2**62
"""A limit that means all; it fits every engine's integer."""

Order = Literal["created", "added", "updated"]
"""What goes before what: by the items' own times, or by the order in which the store took them.

``"added"`` is the order of a conversation: clocks that were set back, or that differ between hosts, do not change it,
and an item that is replaced or restored keeps its place. ``"created"`` and ``"updated"`` are by ``created_at`` and
``updated_at``; items of equal time are in the order of their adding.
"""

_ORDERS = get_args(Order)


def check_order(order: Order) -> Order:
    """Return the order, or raise InputError when there is none of that name."""
    if order not in _ORDERS:
        known = ", ".join(_ORDERS)
        raise InputError(f"{quoted(order, text=True)} is no order; there are {known}.", field="order")
    return order


def in_order(items: Iterable[MemoryItem], order: Order) -> list[MemoryItem]:
    """Return items, which come in the order of their adding, in this order, oldest first."""
    if order == "added":
        return list(items)
    return sorted(items, key=lambda item: item.created_at if order == "created" else item.updated_at)


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a listing that is newest first: ``limit`` items (at least 1) after the first ``offset``."""

    limit: int = EVERYTHING
    offset: int = 0
    order: Order = "created"

    @classmethod
    def checked(cls, limit: int, offset: int, order: Order) -> Page:
        """Return the page that these name; a limit of 0 stays 0. Raises InputError for what is none."""
        limit, offset = whole_number(limit, "limit"), whole_number(offset, "offset")
        return cls(min(limit, EVERYTHING), min(offset, EVERYTHING), check_order(order))

    @property
    def end(self) -> int:
        """How many items there are up to the end of the page."""
        return min(self.offset + self.limit, EVERYTHING)

    def of(self, items: Iterable[MemoryItem]) -> list[MemoryItem]:
        """Return the page of these items, which come in the order in which they were added."""
        return in_order(items, self.order)[::-1][self.offset : self.end]
