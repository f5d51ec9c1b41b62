"""When items end: a clock that never runs backwards, and the time of the next sweep."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from memoranda.items import MemoryItem, utc_text
from memoranda.store.codec import copy_item

END_OF_TIME = "9999-12-31T23:59:59.999999+00:00"

LOOK_AGAIN = 0.25
"""After how many seconds one asks again what expires next: another process may have stored it."""


class Lifetimes:
    """The present as a store sees it, and what is known of the items that will expire.

    What has expired stays so though the clock is set back: the latest time that was ever looked at counts. ``latest``
    is for a store to keep across restarts. ``in_use`` is whether any item may expire at all; a store that knows of none
    need not ask for the time.
    """

    def __init__(self) -> None:
        self.latest = ""
        self.in_use = False
        self._soonest: str | None = None
        self._looked = -math.inf
        self._second = -1, ""

    def now(self, clock: Callable[[], float]) -> str:
        """Return the present as items carry times."""
        present = clock()
        whole = math.floor(present)
        second, text = self._second
        if whole != second:  # Every search asks, and of a second only the fraction is written anew.
            text = datetime.fromtimestamp(whole, UTC).isoformat()[:19]
            self._second = whole, text
        self.latest = max(self.latest, f"{text}.{min(round((present - whole) * 1e6), 999_999):06}+00:00")
        return self.latest

    def note(self, ends: str | None) -> None:
        """Remember that something expires at this time."""
        if ends is not None:
            self.in_use = True
            if self._soonest is None or ends < self._soonest:
                self._soonest = ends

    def is_due(self, clock: Callable[[], float]) -> bool:
        """Whether something may have expired that was not swept yet."""
        return self._soonest is not None and self._soonest <= self.now(clock)

    def is_to_look_again(self, clock: Callable[[], float]) -> bool:
        """Whether so much time has passed that others may have stored what is over by now; it is looked for then."""
        present = clock()
        if not self.in_use or abs(present - self._looked) < LOOK_AGAIN:
            return False
        self._looked = present
        return True

    def swept(self, soonest: str | None) -> None:
        """Remember what a sweep left, or what was there at the opening: when the next item expires."""
        self._soonest = None
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
