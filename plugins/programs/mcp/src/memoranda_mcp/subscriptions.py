"""Subscriptions to resources, and how a change is noticed, whichever process made it.

Many processes may write to a store, and engines do not tell each other. So every subscribed resource is read again
every few seconds, and at once after a call to this server. A resource has changed when it reads differently.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import NamedTuple

from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated

from memoranda.errors import InputError

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 2.0
"""The time between two checks of the subscribed resources."""

MAX_SUBSCRIPTIONS = 1000
"""How many resources of one scope can be watched at the most."""

SETTLING = 10
"""How often a resource that reads differently each time is read at the most before its change is published."""


class Content(NamedTuple):
    """The text of a resource and its media type."""

    text: str
    mime_type: str


class Subscriptions:
    """The subscriptions of one scope. ``check_address`` raises for one that is not offered; ``read`` reads one."""

    def __init__(
        self, check_address: Callable[[str], object], read: Callable[[str], Awaitable[Content | None]]
    ) -> None:
        self.bus = InMemorySubscriptionBus()
        self.listener = ListenHandler(self.bus)
        self._check_address = check_address
        self._read = read
        self._wanted: Counter[str] = Counter()
        self._seen: dict[str, bytes | None] = {}
        self._watcher: asyncio.Task[None] | None = None
        self._checking = asyncio.Lock()

    @asynccontextmanager
    async def watched(self, uris: Iterable[str]) -> AsyncIterator[None]:
        uris = list(uris)
        await self.watch(uris)
        try:
            yield
        finally:
            self.unwatch(uris)

    async def watch(self, uris: Iterable[str]) -> None:
        """Watch resources from now on: all of them, or none if this raises.

        Raises InputError for an address that this scope does not offer and for more than MAX_SUBSCRIPTIONS.
        """
        uris = list(uris)
        for uri in uris:
            self._check_address(uri)
        if len(self._wanted.keys() | set(uris)) > MAX_SUBSCRIPTIONS:
            raise InputError(f"No more than {MAX_SUBSCRIPTIONS} resources can be subscribed to. Unsubscribe from some.")
        self._wanted.update(uris)
        try:
            for uri in uris:
                if uri not in self._seen:
                    # If two begin at once, the first to have read it knows the older state.
                    self._seen.setdefault(uri, await self._digest(uri))
        except BaseException:
            self.unwatch(uris)
            raise
        if self._wanted and (self._watcher is None or self._watcher.done()):
            self._watcher = asyncio.create_task(self._watch())

    def unwatch(self, uris: Iterable[str]) -> None:
        """Drop one watch of each resource. When none is watched any more, reading stops."""
        for uri in uris:
            self._wanted[uri] -= 1
            if self._wanted[uri] <= 0:
                del self._wanted[uri]
                self._seen.pop(uri, None)
        if not self._wanted and self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    async def check(self) -> None:
        """Read all watched resources, and publish each that has changed.

        A resource that cannot be read is tried again later: the engine may be away for a while.
        """
        if not self._seen:
            return
        async with self._checking:
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
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self.check()

    async def _settled(self, uri: str) -> bytes | None:
        """Return the digest of a resource once it is the last one known, or the same twice in a row.

        Reading a long conversation takes several queries. A write between two of them would look like one change now
        and like another at the next check.
        """
        last = self._seen.get(uri)
        found = await self._digest(uri)
        for _ in range(SETTLING):
            if found == last:
                break
            last, found = found, await self._digest(uri)
        return found

    async def _digest(self, uri: str) -> bytes | None:
        """Return a digest of what a resource holds, or None if there is nothing."""
        content = await self._read(uri)
        return None if content is None else hashlib.sha256(content.text.encode("utf-8", "surrogatepass")).digest()
