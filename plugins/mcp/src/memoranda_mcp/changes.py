"""Subscriptions to resources: who wants to know of which, and finding out that one has changed, by whomever.

A store may be written by many processes, and engines do not tell each other. So what is subscribed to is read again
every few seconds, and at once after a call of this server. A resource has changed when it reads differently.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated

from memoranda.errors import InputError

if TYPE_CHECKING:
    from memoranda_mcp.contents import Content

logger = logging.getLogger(__name__)

INTERVAL = 2.0
"""The seconds between two looks at what is subscribed to."""

MAX_SUBSCRIPTIONS = 1000
"""How many resources of one desk are watched at the most."""

SETTLING = 10
"""How often a resource is read at the most that looks different each time, before its change is told."""


class Changes:
    """The subscriptions of one desk: ``check`` raises for an address that it does not offer, ``read`` reads one."""

    def __init__(
        self,
        check: Callable[[str], object],
        read: Callable[[str], Awaitable[Content | None]],
        interval: float = INTERVAL,
    ) -> None:
        self.bus = InMemorySubscriptionBus()
        self.listener = ListenHandler(self.bus)
        self._check = check
        self._read = read
        self._interval = interval
        self._wanted: Counter[str] = Counter()
        self._seen: dict[str, bytes | None] = {}
        self._watcher: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()

    @asynccontextmanager
    async def watched(self, uris: Iterable[str]) -> AsyncIterator[None]:
        """Watch these resources for the block."""
        uris = list(uris)
        await self.watch(uris)
        try:
            yield
        finally:
            self.unwatch(uris)

    async def watch(self, uris: Iterable[str]) -> None:
        """Watch resources from now on: all of them, or none if this raises.

        Raises InputError for an address that this desk does not offer and for more than MAX_SUBSCRIPTIONS.
        """
        uris = list(uris)
        for uri in uris:
            self._check(uri)
        if len(self._wanted.keys() | set(uris)) > MAX_SUBSCRIPTIONS:
            raise InputError(f"No more than {MAX_SUBSCRIPTIONS} resources can be subscribed to. Unsubscribe from some.")
        self._wanted.update(uris)
        try:
            for uri in uris:
                if uri not in self._seen:
                    # Of two that begin at once, the first to have read it knows the older state.
                    self._seen.setdefault(uri, await self._digest(uri))
        except BaseException:
            self.unwatch(uris)
            raise
        if self._wanted and (self._watcher is None or self._watcher.done()):
            self._watcher = asyncio.create_task(self._watch())

    def unwatch(self, uris: Iterable[str]) -> None:
        """Watch resources once less each; with nothing left to watch, nothing is read any more."""
        for uri in uris:
            self._wanted[uri] -= 1
            if self._wanted[uri] <= 0:
                del self._wanted[uri]
                self._seen.pop(uri, None)
        if not self._wanted and self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    async def look(self) -> None:
        """Read all that is watched, and tell of each resource that has changed.

        One that cannot be read is told of later: the engine may be away for a while, and who asks for it is told so.
        """
        if not self._seen:
            return
        async with self._looking:
            for uri in list(self._seen):
                try:
                    found = await self._settled(uri)
                except Exception as error:  # noqa: BLE001 - the other resources are read, and the caller's work is done
                    logger.warning("A subscribed resource could not be read: %s.", type(error).__name__)
                    continue
                if uri in self._seen and found != self._seen[uri]:
                    self._seen[uri] = found
                    await self.bus.publish(ResourceUpdated(uri=uri))

    async def close(self) -> None:
        """Stop watching."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            await self.look()

    async def _settled(self, uri: str) -> bytes | None:
        """Return what a resource looks like, once it looks as it did last, or the same twice in a row.

        To read a long conversation takes several queries. A write between two of them would look like one change now,
        and like another one at the next look.
        """
        last = self._seen.get(uri)
        found = await self._digest(uri)
        for _ in range(SETTLING):
            if found == last:
                break
            last, found = found, await self._digest(uri)
        return found

    async def _digest(self, uri: str) -> bytes | None:
        """Return a digest of what a resource holds; None if there is nothing."""
        content = await self._read(uri)
        return None if content is None else hashlib.sha256(content.text.encode("utf-8", "surrogatepass")).digest()
