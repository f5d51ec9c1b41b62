"""Share memory between agents and people: spaces, and grants that say who may read, write and manage them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda.store.owners import space_of
    from memoranda_spaces.grants import Grants, Reader
    from memoranda_spaces.records import Event, Grant, Grantee, agent, group, user

__all__ = ["Event", "Grant", "Grantee", "Grants", "Reader", "agent", "group", "space_of", "user"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "memoranda.store.owners": ["space_of"],
        "grants": ["Grants", "Reader"],
        "records": ["Event", "Grant", "Grantee", "agent", "group", "user"],
    },
)
