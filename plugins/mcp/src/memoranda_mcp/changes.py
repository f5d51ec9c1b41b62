"""Subscriptions to resources: who wants to know of which, and finding out that one has changed, by whomever.

A store may be written by many processes, and engines do not tell each other. So what is subscribed to is looked at
again every few seconds, and at once after a call of this server; what looks different has changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated

from memoranda.errors import MemoryError
from memoranda.items import MemoryMetadata
from memoranda_mcp import addresses
from memoranda_mcp.graph import Graph

if TYPE_CHECKING:
    from memoranda.store import ScopedStore

logger = logging.getLogger(__name__)

INTERVAL = 2.0
"""The seconds between two looks at what is subscribed to."""

MAX_SUBSCRIPTIONS = 1000


class Changes:
    """The subscriptions of one desk."""

    def __init__(self, store: ScopedStore, graph_store: ScopedStore, interval: float = INTERVAL) -> None:
        self.bus = InMemorySubscriptionBus()
        self._store = store
        self._graph_store = graph_store
        self._interval = interval
        self._wanted: Counter[str] = Counter()
        self._seen: dict[str, Any] = {}
        self._watcher: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()

    @asynccontextmanager
    async def watched(self, uris: Iterable[str]) -> AsyncIterator[None]:
        """Watch these resources for the block."""
        added = [uri for uri in uris if await self.watch(uri)]
        try:
            yield
        finally:
            for uri in added:
                self.unwatch(uri)

    async def watch(self, uri: str) -> bool:
        """Watch a resource from now on, and return whether there is one to watch."""
        if len(self._wanted) >= MAX_SUBSCRIPTIONS and uri not in self._wanted:
            return False
        if uri not in self._seen:
            self._seen[uri] = await self._look_of(uri)
        self._wanted[uri] += 1
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.create_task(self._watch())
        return True

    def unwatch(self, uri: str) -> None:
        """Watch a resource once less; with nothing left to watch, nothing is read any more."""
        self._wanted[uri] -= 1
        if self._wanted[uri] <= 0:
            del self._wanted[uri]
            self._seen.pop(uri, None)
        if not self._wanted and self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    async def look(self) -> None:
        """Look at all that is watched, and tell of each resource that has changed."""
        if not self._wanted:
            return
        async with self._looking:
            for uri in list(self._wanted):
                found = await self._look_of(uri)
                if uri in self._wanted and found != self._seen.get(uri):
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
            try:
                await self.look()
            except MemoryError as error:
                # The engine may be away for a while; whoever asks for something is told so.
                logger.warning("Subscriptions could not be looked at: %s.", type(error).__name__)

    async def _look_of(self, uri: str) -> Any:
        """Return what a resource looks like, as little of it as tells one state from another."""
        place = addresses.parsed(uri)
        if place is None:
            return None
        kind, name = place
        if kind == "items":
            item = await self._store.get(name)
            return None if item is None else (item.version, item.expires_at)
        if kind == "knowledge-graph":
            return await Graph(self._graph_store).look()
        metadata = MemoryMetadata(session_id=name) if kind == "conversations" else None
        newest = await self._store.search(metadata=metadata, limit=1, order="updated")
        return (
            await self._store.count(metadata=metadata),
            [(item.id, item.version) for item in newest],
        )
