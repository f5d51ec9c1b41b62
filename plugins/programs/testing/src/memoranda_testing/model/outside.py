"""A second process that opens the same data whenever it is asked, and reads everything."""

from __future__ import annotations

import asyncio
import inspect
import os
import warnings
from collections.abc import Awaitable, Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Self

from memoranda.items import MemoryItem
from memoranda.store import Capability, Store
from memoranda_testing.case import Clock


class Outside:
    """A process that shares nothing with this one but the data that a store keeps elsewhere.

    It is forked, since only this process knows how to open the store; caches of this one are not seen there. Fork it
    before the store is opened.
    """

    def __init__(self, connection: Connection, pid: int) -> None:
        self._connection = connection
        self._pid = pid

    @classmethod
    async def begin(cls, open_store: Callable[[], Store | Awaitable[Store]]) -> Self:
        """Start the process; it opens the store when it is asked."""
        ours, theirs = Pipe()
        return cls(ours, await asyncio.to_thread(_forked, open_store, ours, theirs))  # Where no event loop runs.

    async def look(self, now: float | None = None, patience: float = 30.0) -> list[MemoryItem]:
        """Return every item that the other process finds, by a clock that shows this time; deleted ones come too."""
        self._connection.send(now)
        if not await asyncio.to_thread(self._connection.poll, patience):
            raise TimeoutError
        found = self._connection.recv()
        if isinstance(found, Exception):
            raise found
        return list(found)

    async def end(self) -> None:
        """End the process."""
        self._connection.close()
        await asyncio.to_thread(os.waitpid, self._pid, 0)


def _forked(open_store: Callable[[], Any], ours: Connection, theirs: Connection) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Threads do not come along, and none is needed.
        pid = os.fork()
    if pid:
        theirs.close()
        return pid
    try:
        ours.close()
        while True:
            now = theirs.recv()
            try:
                theirs.send(asyncio.run(_everything(open_store, now)))
            except Exception as error:  # noqa: BLE001  # whatever a store raises is an answer
                theirs.send(RuntimeError(f"{type(error).__name__}: {error}"))
    except BaseException:  # noqa: BLE001  # The pipe was closed. Nothing of the forked process may go on here.
        os._exit(0)


async def _everything(open_store: Callable[[], Any], now: float | None) -> list[MemoryItem]:
    opened = open_store()
    store: Store = await opened if inspect.isawaitable(opened) else opened
    if now is not None:
        store.clock = Clock(now)
    await store.init()
    try:
        deleted = Capability.DELETE in store.capabilities
        return [item async for item in store.scan(order="added", include_deleted=deleted)]
    finally:
        await store.close()
