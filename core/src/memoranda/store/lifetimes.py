"""Lifetimes: when items end, and the layer where what has expired is not shown, owns no id, and is removed while others
go on.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from memoranda.errors import MemoryError
from memoranda.items import MemoryItem, MemoryMetadata, utc_text
from memoranda.store.codec import copy_item
from memoranda.store.conditions import Condition, Expiry
from memoranda.store.engine import Engine, Layer, Opened, Opening
from memoranda.store.filters import Filter
from memoranda.store.protocol import Capability
from memoranda.store.requests import Change, Query, Write, Written

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


SWEEP_AGAIN_SECONDS = 60.0
"""After how many seconds a sweep that failed is tried again."""

LOOK_SECONDS = 60.0
"""How often a persistent engine is swept without knowing that anything expires: other processes write to it, too."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


LOOK_AGAIN_SECONDS = 0.25
"""After how many seconds one asks again what expires next: another process may have stored it."""

CONFIRMED_SECONDS = 5.0
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
        if is_due and offset - self._offset > CONFIRMED_SECONDS > moment - self._jumped:
            self._jumped = min(self._jumped, moment)
            return False
        self._offset, self._jumped = offset if is_due else min(offset, self._offset), math.inf
        return is_due

    def is_to_look_again(self, clock: Callable[[], float]) -> bool:
        """Return True if it is time to look for expiring items that other processes may have stored."""
        present = clock()
        if not self.in_use or abs(present - self._looked) < LOOK_AGAIN_SECONDS:
            return False
        self._looked = present
        return True

    def swept(self, soonest: str | None) -> None:
        """Remember when the next item expires, and nothing that was noted before."""
        self.soonest = None
        self.note(soonest)


class LifetimeLayer(Layer):
    """Asks for nothing and pays for nothing until an item may expire: see :attr:`Lifetimes.in_use`.

    ``clock`` tells the present, in seconds of Unix time: the store's clock.
    """

    name = "lifetimes"
    keeps_pages = True

    def __init__(self, inner: Engine) -> None:
        super().__init__(inner)
        self.lifetimes = Lifetimes()
        self.clock: Callable[[], float] = time.time
        self._sweeping: asyncio.Task[None] | None = None
        self._look_at = math.inf

    def now(self) -> str:
        """Return the present as items carry times."""
        return self.lifetimes.now(self.clock)

    async def open(self, opening: Opening) -> Opened:
        """Open the engine inside, and remember what expires next."""
        opened = await self.inner.open(opening)
        if Capability.TTL in self.capabilities:
            # Other processes may write items that expire, so reads always check.
            self.lifetimes.in_use = Capability.PERSISTENT in self.capabilities
            self.lifetimes.swept(opened.next_expiry)
            if self.lifetimes.in_use:
                self._look_at = time.monotonic() + LOOK_SECONDS
        return opened

    async def close(self) -> None:
        """Wait for a sweep that is under way in this loop, and close the engine inside."""
        if self._sweeping is not None and self._sweeping.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([self._sweeping])
        await self.inner.close()

    def alive(self, wanted: Filter) -> Filter:
        """Return a filter without what has expired."""
        if not self.lifetimes.in_use:
            return wanted
        for each in wanted.further:
            if type(each) is Expiry:
                return wanted
        # First, since layers below tell the last condition apart.
        return replace(wanted, further=(Expiry(self.now()), *wanted.further))

    @property
    def ranks_together(self) -> bool:  # type: ignore[override]  # read-only, as in every layer
        """Whether a ranking may ask for several scopes."""
        return self.inner.ranks_together

    def narrow(self, query: Query[T]) -> Query[T]:
        """Return the query without what has expired."""
        wanted = self.alive(query.wanted)
        if query.beside:
            return query._replace(wanted=wanted, beside=tuple(map(self.alive, query.beside)))
        return query if wanted is query.wanted else query._replace(wanted=wanted)

    def read(self, query: Query[T]) -> Coroutine[Any, Any, list[T]]:
        """Return what the query asks for; of items that are named by their ids, those that have not expired."""
        if not self.lifetimes.in_use:
            return self.inner.read(query)
        if query.ids is None:
            return self.inner.read(self.narrow(query))
        return self.inner.read(query) if query.form != "items" else self._unexpired(query)

    async def _unexpired(self, query: Query[T]) -> list[T]:
        found: list[Any] = await self.inner.read(query)
        for item in found:
            if item.expires_at is not None:
                return list(filter(Expiry(self.now()).matches, found))
        return found

    def write(self, write: Write) -> Coroutine[Any, Any, Written]:
        """Carry out a write, which sees the present: an expired item holds no id, and is no end of a conversation."""
        if write.change is not None:
            return self._changed(write, write.change)
        if not self.lifetimes.in_use:
            return self.inner.write(write)
        if not write.now:
            write = write.but(now=self.now())
        if write.expected is not None:
            expected = replace(write.expected, conversation=self.alive(write.expected.conversation))
            write = write.but(expected=expected)
        if time.monotonic() >= self._look_at:
            # Another process may have stored what it did not live to sweep.
            self._look_at = time.monotonic() + LOOK_SECONDS
            self.lifetimes.note(write.now)
        return self.inner.write(write)

    async def _changed(self, write: Write, change: Change) -> Written:
        if change.action == "touch":
            if change.ttl is not None:
                self.lifetimes.note(end_of_life(change.now, change.ttl))
            return await self.inner.write(write)
        if not self.lifetimes.in_use or change.action == "mark":
            return await self.inner.write(write)
        if change.action == "sweep":
            return Written(await self.sweep(change.wanted))
        if change.action == "purge":
            await self.sweep(self.expired(metadata=change.wanted.metadata))
        return await self.inner.write(write.but(change=replace(change, wanted=self.alive(change.wanted))))

    # Sweeping

    def expired(self, *further: Condition, metadata: MemoryMetadata | None = None) -> Filter:
        """Return the filter of what has expired, archived or not."""
        return Filter(metadata=metadata, archived=None, further=(Expiry(self.now(), expired=True), *further))

    async def sweep(self, wanted: Filter) -> int:
        """Remove expired items for good, and return how many: those that match, hidden ones too."""
        before, self.lifetimes.soonest = self.lifetimes.soonest, None  # What is noted meanwhile counts.
        try:
            swept = await self.inner.write(Write(change=Change("sweep", wanted)))
        except BaseException:
            self.lifetimes.note(before)
            raise
        self.lifetimes.note(swept.next_expiry)
        return swept.changed

    def sweep_when_due(self) -> None:
        """Remove what has expired while others go on, if it is time to, and that is not under way."""
        if not self.lifetimes.in_use or not self.lifetimes.is_to_sweep(self.clock):
            return
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep_all())

    async def _sweep_all(self) -> None:
        try:
            await self.sweep(self.expired())
        except MemoryError as error:
            # No caller waits for it, and expired items are not shown; a later call tries again.
            logger.debug("Expired items were not removed: %s.", type(error).__name__)
            self.lifetimes.swept(end_of_life(self.now(), SWEEP_AGAIN_SECONDS))
