"""A SQLite connection with a thread of its own, on which whole functions run."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Self, TypeVar

from memoranda_sqlite.faults import DRIVER_ERRORS

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Result]
Job = Callable[[], None]
"""Delivers its own result and raises nothing."""


def deliver(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    """Set the result of a future from another thread, in the event loop of the future."""
    with suppress(RuntimeError):  # The loop is closed, so no task waits any longer.
        future.get_loop().call_soon_threadsafe(settle, future, result, error)


def settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    """Complete a future unless it was cancelled."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class Request:
    """Something to be written, and the future of its caller."""

    __slots__ = ("error", "future", "result", "stored")

    def __init__(self, stored: int = 0) -> None:
        self.stored = stored
        """How many rows it adds to those that wait for the text indexes."""
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.result: Any = None
        self.error: BaseException | None = None

    def apply(self, connection: sqlite3.Connection) -> Any:
        """Write, in a transaction of its own. Raises ConflictError when it is refused."""
        raise NotImplementedError


class WorkerClosedError(Exception):
    """The connection was closed before the function could begin."""


class Worker:
    """A connection and its thread, on which whole functions run, one after the other.

    A function that has begun always finishes, even if its caller was cancelled: it can hold a transaction from start to
    end. Any event loop may call. ``waiting`` is the number of functions not finished yet. ``connection`` is the
    driver's connection, which only functions on the thread use.

    ``explained`` turns an error of the driver into memoranda's, before it leaves the thread.
    """

    connection: sqlite3.Connection

    def __init__(self, connect: Callable[[], sqlite3.Connection], explained: Callable[[Exception], Exception]) -> None:
        self._connect = connect
        self._explained = explained
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._submitting = threading.Lock()
        self.waiting = 0
        self.closed = False
        """True once the connection is closed, or about to be: no further job is accepted."""
        self.gate = threading.RLock()
        """Held while a job runs: its holder knows that the connection is in no transaction."""

    def __del__(self) -> None:
        self._jobs.put(None)  # A store that was never closed leaves no thread behind.

    async def open(self) -> Self:
        """Start the thread and connect on it. If that fails, or the caller is cancelled, nothing is left open."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def job() -> None:
            try:
                self.connection = self._connect()
            except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the caller
                deliver(future, None, self._translated(error))
            else:
                deliver(future, None, None)

        # A program that forgets to close the store must still be able to exit.
        threading.Thread(target=_work, args=(self._jobs, self.gate), name="memoranda-sqlite", daemon=True).start()
        self.submit(job)
        try:
            await future
        except BaseException:
            self._end()
            raise
        return self

    async def close(self) -> None:
        """Wait for what was submitted, close the connection and end the thread. Calling it again does nothing."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._end(future):
            await future

    def _end(self, future: asyncio.Future[None] | None = None) -> bool:
        """Close the connection and end the thread after the submitted jobs; return False if that was already done."""

        def job() -> None:
            error: BaseException | None = None
            try:
                if hasattr(self, "connection"):
                    self.connection.close()
            except sqlite3.Error as raised:
                error = self._translated(raised)
            if future is not None:
                deliver(future, None, error)

        with self._submitting:
            if self.closed:
                return False
            self.closed = True
            self._jobs.put(job)
            self._jobs.put(None)
        return True

    def _translated(self, error: BaseException) -> BaseException:
        """Return memoranda's error for one of the driver's, and any other error as it is."""
        if not isinstance(error, DRIVER_ERRORS):
            return error
        explained = self._explained(error)
        explained.__cause__ = error
        return explained

    def submit(self, job: Job) -> bool:
        """Queue a job for the thread. Return False if the worker is closed."""
        # Event loops in several threads may share a store: a job after the last one would wait forever.
        with self._submitting:
            if self.closed:
                return False
            self._jobs.put(job)
            return True

    @property
    def wanted(self) -> bool:
        """True if jobs wait for the thread; a long job that can stop early then does."""
        return not self._jobs.empty()

    async def run(self, work: Work[Result]) -> Result:
        """Run the function on the thread with the connection and return its result."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        def job() -> None:
            try:
                result = work(self.connection)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the caller
                self.waiting -= 1
                deliver(future, None, self._translated(error))
            else:
                self.waiting -= 1
                deliver(future, result, None)

        self.waiting += 1
        if not self.submit(job):
            self.waiting -= 1
            raise WorkerClosedError
        return await future


def _work(jobs: SimpleQueue[Job | None], gate: threading.RLock) -> None:
    """Run jobs until None comes. The thread has no reference to its worker, which may be collected meanwhile."""
    while (job := jobs.get()) is not None:
        with gate:
            job()
        del job  # Otherwise its rows and results would stay in memory until the next one comes.
