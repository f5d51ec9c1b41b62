"""When items end: how long they live, and what gives them their ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta

from memoranda.items import MemoryItem, utc_text
from memoranda.store.codec import copy_item

END_OF_TIME = "9999-12-31T23:59:59.999999+00:00"


def end_of_life(now: str, ttl: float) -> str | None:
    """Return when a life of so many seconds ends that begins now; None if it never does."""
    if math.isinf(ttl):
        return None
    try:
        return utc_text(datetime.fromisoformat(now) + timedelta(seconds=ttl))
    except (OverflowError, ValueError):
        return END_OF_TIME


def with_lifetime(item: MemoryItem, ttl: float | None, now: str) -> MemoryItem:
    """Return a copy that lives ``ttl`` seconds from now on; infinity ends its lifetime."""
    changed = copy_item(item)
    changed.__dict__["ttl"] = None if ttl is None or math.isinf(ttl) else ttl
    changed.__dict__["expires_at"] = None if ttl is None else end_of_life(now, ttl)
    return changed


class BatchLifetime:
    """Gives the items of one batch their ends, all from the same moment: ``ttl`` seconds, or else their own ttl."""

    def __init__(self, ttl: float | None, now: Callable[[], str]) -> None:
        self._ttl = ttl
        self._now = now
        self._began = ""

    def given_to(self, item: MemoryItem) -> MemoryItem:
        """Return the item with its end; one that has an end already keeps it, unless the batch has a ttl."""
        if self._ttl is None and (item.ttl is None or item.expires_at is not None):
            return item
        self._began = self._began or self._now()
        return with_lifetime(item, item.ttl if self._ttl is None else self._ttl, self._began)
