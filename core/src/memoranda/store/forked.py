"""Which sessions are forked ones, and how what is read of one becomes one conversation."""

from __future__ import annotations

from collections.abc import Sequence

from memoranda.items import MemoryItem
from memoranda.store.codec import copy_item

MARK = "branch-"
"""How the id of a forked session begins."""


def as_one_session(items: Sequence[MemoryItem], session_id: str | None) -> list[MemoryItem]:
    """Return items that were read as one session as items of it: those of a shared past are copies that say so."""
    if session_id is None or not session_id.startswith(MARK):
        return list(items)
    found = []
    for item in items:
        if item.metadata.session_id != session_id:
            item = copy_item(item)
            item.__dict__["metadata"] = item.metadata.model_copy(update={"session_id": session_id})
        found.append(item)
    return found
