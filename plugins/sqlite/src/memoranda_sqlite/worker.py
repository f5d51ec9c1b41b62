"""A SQLite connection with a thread of its own, on which whole functions run."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self, TypeVar

import aiosqlite

from memoranda_sqlite.faults import DRIVER_ERRORS

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Result]


class _NoReply:
    """Stands where aiosqlite expects the future of a call; jobs deliver their own results.

    aiosqlite's thread dies when the event loop of a waiting call is closed, and everybody after it waits for ever.
    """

    def get_loop(self) -> _NoReply:
        return self

    def call_soon_threadsafe(self, *args: object) -> None:
        """Deliver nothing."""


_NO_REPLY = _NoReply()


def deliver(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    """Hand a result from another thread to whoever waits for the future, in whichever loop that is."""
    with suppress(RuntimeError):  # That loop is closed, so nobody waits any longer.
        future.get_loop().call_soon_threadsafe(settle, future, result, error)


def settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    """Complete a future unless it was cancelled."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class WorkerClosedError(Exception):
    """The connection was closed before the function could begin."""


class Worker(aiosqlite.Connection):
    """An aiosqlite connection that runs whole functions on its thread, one after the other.

    A function that has begun is always finished, even if whoever waits for it was cancelled: it can hold a transaction
    from beginning to end. Any event loop may call. ``waiting`` is the number of functions not finished yet,
    ``connection`` the driver's connection, which only functions on the thread use.

    ``explained`` makes memoranda's error of one of the driver's; none leaves the thread without it.
    """

    connection: sqlite3.Connection

    def __init__(self, connect: Callable[[], sqlite3.Connection], explained: Callable[[Exception], Exception]) -> None:
        super().__init__(connect, iter_chunk_size=64)
        self._explained = explained
        self.waiting = 0
        self.gate = threading.RLock()
        """Held while a job runs: whoever holds it knows that the connection is in no transaction."""
        # A program that forgets to close the store must still come to its end.
        self._thread.daemon = True

    @property
    def closed(self) -> bool:
        """Whether the connection was closed, or is about to be."""
        return self._connection is None

    async def open(self) -> Self:
        """Start the thread and connect on it. If that fails, or the caller is cancelled, nothing is left open."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def job() -> None:
            try:
                connection = self._connector()
            except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the caller
                self.stop()
                deliver(future, None, self._told(error))
                return
            try:
                future.get_loop().call_soon_threadsafe(self._connected, future, connection)
            except RuntimeError:  # That loop is closed, so nobody waits any longer.
                connection.close()
                self.stop()

        self._thread.start()
        self.submit(job)
        await future
        return self

    def _connected(self, future: asyncio.Future[None], connection: sqlite3.Connection) -> None:
        self._connection = self.connection = connection
        if future.cancelled():
            self._end()
        else:
            future.set_result(None)

    async def close(self) -> None:
        """Wait for what was submitted, close the connection and end the thread. Calling it again does nothing."""
        if self._connection is not None:
            await self._end()

    def _end(self) -> asyncio.Future[None]:
        connection, self._connection = self._conn, None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def job() -> None:
            error: BaseException | None = None
            try:
                connection.close()
            except sqlite3.Error as raised:
                error = self._told(raised)
            # Called on this thread, where there is no event loop that would have to outlive it.
            self.stop()
            deliver(future, None, error)

        self.submit(job)
        return future

    def _told(self, error: BaseException) -> BaseException:
        """Return what the caller is told: memoranda's error in the place of the driver's."""
        if not isinstance(error, DRIVER_ERRORS):
            return error
        told = self._explained(error)
        told.__cause__ = error
        return told

    def submit(self, job: Callable[[], object]) -> None:
        """Run a job on the thread, later. It delivers its own result and raises nothing."""

        def gated() -> None:
            with self.gate:
                job()

        self._tx.put_nowait((_NO_REPLY, gated))  # type: ignore[arg-type]  # all that its thread asks of a future

    async def run(self, work: Work[Result]) -> Result:
        """Run the function on the thread with the connection and return its result."""
        connection = self._connection
        if connection is None:
            raise WorkerClosedError
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.waiting += 1

        def job() -> None:
            try:
                result = work(connection)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the caller
                self.waiting -= 1
                deliver(future, None, self._told(error))
            else:
                self.waiting -= 1
                deliver(future, result, None)

        self.submit(job)
        return await future
