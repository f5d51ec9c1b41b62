"""The layer of lifetimes: what has expired is not shown, owns no id, and is removed while others go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from memoranda.errors import IdConflictError, MemoryError, VersionConflictError
from memoranda.items import MemoryMetadata
from memoranda.loops import CallsUnderWay
from memoranda.store.conditions import Condition, Expiry
from memoranda.store.engine import Engine, Layer
from memoranda.store.filters import Filter
from memoranda.store.lifetimes import Lifetimes, end_of_life
from memoranda.store.protocol import Capability
from memoranda.store.query import Query
from memoranda.store.values import Value
from memoranda.store.writes import Change, Write, Written

SWEEP_AGAIN = 60.0
"""After how many seconds a sweep that failed is tried again."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


class LifetimeLayer(Layer):
    """Asks for nothing and pays for nothing until an item may expire: see :attr:`Lifetimes.in_use`.

    ``calls`` counts writes of several steps, which closing waits for. ``clock`` tells the present, in seconds of Unix
    time. ``soonest`` asks the engine when its next item expires.
    """

    def __init__(
        self, inner: Engine, calls: CallsUnderWay, clock: Callable[[], float], soonest: Callable[[], Any]
    ) -> None:
        super().__init__(inner)
        self.lifetimes = Lifetimes()
        self._clock = clock
        self._soonest = soonest
        self._calls = calls
        self._sweeping: asyncio.Task[None] | None = None

    def now(self) -> str:
        """Return the present as items carry times."""
        return self.lifetimes.now(self._clock)

    async def opened(self) -> None:
        """Look what expires next in an engine that was just opened."""
        # Of what others keep there, one cannot know whether it will expire.
        self.lifetimes.in_use = Capability.PERSISTENT in self.capabilities
        self.lifetimes.swept(await self._soonest())

    async def ended(self) -> None:
        """Wait for a sweep that is under way in this loop."""
        if self._sweeping is not None and self._sweeping.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([self._sweeping])

    def alive(self, wanted: Filter) -> Filter:
        """Return a filter without what has expired."""
        if not self.lifetimes.in_use or any(type(each) is Expiry for each in wanted.further):
            return wanted
        # First, since layers below tell the last condition apart.
        return replace(wanted, further=(Expiry(self.now()), *wanted.further))

    def narrow(self, query: Query[T]) -> Query[T]:
        """Return the query without what has expired."""
        wanted = self.alive(query.wanted)
        return query if wanted is query.wanted else query._replace(wanted=wanted)

    async def read(self, query: Query[T]) -> list[T]:
        """Return what the query asks for; of items that are named by their ids, those that have not expired."""
        if query.ids is None:
            return await self.inner.read(self.narrow(query))
        found: list[Any] = await self.inner.read(query)
        if query.form != "items":
            return found
        for item in found:
            if item.expires_at is not None:
                return list(filter(Expiry(self.now()).matches, found))
        return found

    async def write(self, write: Write) -> Written:
        """Carry out a write, after removing expired items that still hold its ids.

        Another process may have stored an item that expires without this one's knowing, so a conflict is tried again.
        """
        if write.change is not None:
            return await self._changed(write, write.change)
        if not self.lifetimes.in_use:
            return await self.inner.write(write)
        expected = write.expected
        if expected is not None:
            write = write.but(expected=replace(expected, conversation=self.alive(expected.conversation)))
        ids = write.ids
        with self._calls.call():
            await self._make_room(ids)
            try:
                return await self.inner.write(write)
            except (IdConflictError, VersionConflictError):
                await self._sweep_ids(ids)
                return await self.inner.write(write)

    async def _changed(self, write: Write, change: Change) -> Written:
        if change.action == "touch":
            if change.ttl is not None:
                self.lifetimes.note(end_of_life(change.now, change.ttl))
            return await self.inner.write(write)
        if not self.lifetimes.in_use:
            return await self.inner.write(write)
        if change.action == "purge":
            await self.sweep(self.expired(metadata=change.wanted.metadata))
        elif change.action == "delete" and change.ids is not None:
            await self._make_room(change.ids)
        elif change.action == "sweep":
            return Written(await self.sweep(change.wanted))
        return await self.inner.write(write.but(change=replace(change, wanted=self.alive(change.wanted))))

    # Sweeping

    def expired(self, *further: Condition, metadata: MemoryMetadata | None = None) -> Filter:
        """Return the filter of what has expired, archived or not."""
        return Filter(metadata=metadata, archived=None, further=(Expiry(self.now(), expired=True), *further))

    async def sweep(self, wanted: Filter) -> int:
        """Remove expired items for good: those that match, hidden ones too."""
        return (await self.inner.write(Write(change=Change("sweep", wanted)))).changed

    def sweep_when_due(self) -> None:
        """Remove what has expired while others go on, if it is time to, and that is not under way."""
        if not self.lifetimes.in_use or not self.lifetimes.is_to_sweep(self._clock):
            return
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep_all())

    async def _make_room(self, ids: Sequence[str]) -> None:
        """Remove the items of these ids that have expired, if any may have: their ids are free."""
        if Capability.PERSISTENT in self.capabilities and self.lifetimes.is_to_look_again(self._clock):
            self.lifetimes.note(await self._soonest())
        if self.lifetimes.is_due(self._clock):
            await self._sweep_ids(ids)

    async def _sweep_ids(self, ids: Sequence[str]) -> None:
        await self.sweep(self.expired(Value("id", False, "$in", list(ids))))

    async def _sweep_all(self) -> None:
        try:
            await self.sweep(self.expired())
            self.lifetimes.swept(await self._soonest())
        except MemoryError as error:
            # No caller waits for it, and expired items are not shown; a later call tries again.
            logger.debug("Expired items were not removed: %s.", type(error).__name__)
            self.lifetimes.swept(end_of_life(self.now(), SWEEP_AGAIN))
