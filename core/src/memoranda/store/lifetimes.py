"""When items end: the present as items carry it, and the time of the next sweep."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from memoranda.items import MemoryItem, utc_text
from memoranda.store.codec import copy_item

END_OF_TIME = "9999-12-31T23:59:59.999999+00:00"

LOOK_AGAIN = 0.25
"""After how many seconds one asks again what expires next: another process may have stored it."""

CONFIRMED = 5.0
"""A clock that jumps ahead by more seconds than these must stay there as long before anything is removed by it."""


class Lifetimes:
    """The present by a store's clock, and what is known of the items that will expire.

    The clock alone decides what is over, as it is now. ``in_use`` is whether any item may expire at all; a store that
    knows of none need not ask for the time.
    """

    def __init__(self) -> None:
        self.in_use = False
        self.soonest: str | None = None
        """When the next item expires, as far as is known; None if none does."""
        self._offset = math.inf  # of the clock to the monotonic one, as it was trusted last
        self._jumped = math.inf  # when the clock was first seen far ahead of that
        self._looked = -math.inf

    def now(self, clock: Callable[[], float]) -> str:
        """Return the present as items carry times."""
        present = clock()
        if self._offset == math.inf:
            self._offset = present - time.monotonic()
        return datetime.fromtimestamp(present, UTC).isoformat(timespec="microseconds")

    def note(self, ends: str | None) -> None:
        """Remember that something expires at this time."""
        if ends is not None:
            self.in_use = True
            if self.soonest is None or ends < self.soonest:
                self.soonest = ends

    def is_due(self, clock: Callable[[], float]) -> bool:
        """Return True if something may have expired that was not swept yet."""
        return self.soonest is not None and self.soonest <= self.now(clock)

    def is_to_sweep(self, clock: Callable[[], float]) -> bool:
        """Return True if something is due and the clock did not just jump ahead: one wrong reading removes nothing."""
        is_due, moment = self.is_due(clock), time.monotonic()
        offset = clock() - moment
        if is_due and offset - self._offset > CONFIRMED > moment - self._jumped:
            self._jumped = min(self._jumped, moment)
            return False
        self._offset, self._jumped = offset if is_due else min(offset, self._offset), math.inf
        return is_due

    def is_to_look_again(self, clock: Callable[[], float]) -> bool:
        """Return True if it is time to look for expiring items that other processes may have stored."""
        present = clock()
        if not self.in_use or abs(present - self._looked) < LOOK_AGAIN:
            return False
        self._looked = present
        return True

    def swept(self, soonest: str | None) -> None:
        """Remember when the next item expires, and nothing that was noted before."""
        self.soonest = None
        self.note(soonest)


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
