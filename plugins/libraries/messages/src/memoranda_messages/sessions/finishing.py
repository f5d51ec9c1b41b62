"""Writes that a cancelled caller does not leave half done, and writes that are tried again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from memoranda.errors import TurnConflictError, VersionConflictError
from memoranda.items import MemoryItem
from memoranda.store import Capability, Store

T = TypeVar("T")

ATTEMPTS = 50
_LONGEST_PAUSE = 0.05


async def finished(change: Coroutine[Any, Any, T]) -> T:
    """Return the result of a change. If the caller is cancelled meanwhile, this is raised once the change is done.

    A runner that is cancelled therefore knows that its last write has finished or failed, and never both.
    """
    task = asyncio.ensure_future(change)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # Marks it as retrieved: the caller gets the cancellation instead.
        raise cancelled
    return task.result()


async def retry_conflicts(change: Callable[[], Awaitable[T]], attempts: int = ATTEMPTS) -> T:
    """Return the result of a change that reads, decides and writes; it is called again if another process came first.

    Another process came first if the change raises VersionConflictError or TurnConflictError. After the last attempt
    the error is raised.
    """
    for attempt in range(1, attempts):
        try:
            return await change()
        except (VersionConflictError, TurnConflictError):
            await asyncio.sleep(random.random() * min(0.001 * 2**attempt, _LONGEST_PAUSE))
    return await change()


async def replaced(store: Store, gone: Sequence[str], items: Sequence[MemoryItem] = ()) -> None:
    """Remove the items of these ids, for good if the store can, and store others instead, all or none.

    Those that have the id of a stored item keep its place in the order.
    """
    purge = Capability.PURGE in store.capabilities
    await finished(store.apply(adds=items, deletes=gone, keep_created=True, purge=purge))
