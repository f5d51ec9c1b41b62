"""What an engine that ``reads_staying`` does with a query that it cannot answer at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from memoranda.items import MemoryItem
from memoranda.store.backend import AS_ADDED, ONLY_STAYING, Query


async def staying_apart(
    read: Callable[[Query[MemoryItem]], Awaitable[list[MemoryItem]]], query: Query[MemoryItem]
) -> list[MemoryItem]:
    """Answer a query with ``staying`` by two without: the page, and if it is full, what stays of the older items."""
    found = await read(query._replace(staying=False))
    if len(found) < query.page.limit:
        return found
    staying = await read(query.also(ONLY_STAYING)._replace(page=AS_ADDED, staying=False))
    known = {item.id for item in found}
    return [*found, *(item for item in staying if item.id not in known)]
