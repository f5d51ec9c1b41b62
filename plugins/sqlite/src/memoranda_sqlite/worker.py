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
Job = Callable[[], Callable[[], object] | None]
"""Delivers its own result and raises nothing. What it returns is called when the connection is free again."""


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


class Worker:
    """A connection and the thread that has it, on which whole functions run, one after the other.

    A function that has begun is always finished, even if whoever waits for it was cancelled: it can hold a transaction
    from beginning to end. Any event loop may call. ``waiting`` is the number of functions not finished yet,
    ``connection`` the driver's connection, which only functions on the thread use, and whom it is lent to.

    ``explained`` makes memoranda's error of one of the driver's; none leaves the thread without it.
    """

    connection: sqlite3.Connection

    def __init__(self, connect: Callable[[], sqlite3.Connection], explained: Callable[[Exception], Exception]) -> None:
        self._connect = connect
        self._explained = explained
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._submitting = threading.Lock()
        self.waiting = 0
        self.closed = False
        """Whether the connection was closed, or is about to be: nothing more is taken on."""
        self.gate = threading.RLock()
        """Held while a job runs: whoever holds it knows that the connection is in no transaction."""

    def __del__(self) -> None:
        self._jobs.put(None)  # A store that nobody closed leaves no thread behind.

    async def open(self) -> Self:
        """Start the thread and connect on it. If that fails, or the caller is cancelled, nothing is left open."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def job() -> None:
            try:
                self.connection = self._connect()
            except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the caller
                deliver(future, None, self._told(error))
            else:
                deliver(future, None, None)

        # A program that forgets to close the store must still come to its end.
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
        """Close the connection and end the thread behind what was submitted; return whether this was still to do."""

        def job() -> None:
            error: BaseException | None = None
            try:
                if hasattr(self, "connection"):
                    self.connection.close()
            except sqlite3.Error as raised:
                error = self._told(raised)
            if future is not None:
                deliver(future, None, error)

        with self._submitting:
            if self.closed:
                return False
            self.closed = True
            self._jobs.put(job)
            self._jobs.put(None)
        return True

    def _told(self, error: BaseException) -> BaseException:
        """Return what the caller is told: memoranda's error in the place of the driver's."""
        if not isinstance(error, DRIVER_ERRORS):
            return error
        told = self._explained(error)
        told.__cause__ = error
        return told

    def submit(self, job: Job) -> bool:
        """Run a job on the thread, later, and return whether it will: not once this is closed."""
        # Two event loops in two threads may share a store: what comes after the end would wait for ever.
        with self._submitting:
            if self.closed:
                return False
            self._jobs.put(job)
            return True

    def lend(self) -> sqlite3.Connection | None:
        """Return the connection, for use on another thread until :meth:`take_back`; None if it is in use or closed.

        It must have been made for several threads.
        """
        if not self.gate.acquire(False):
            return None
        if self.closed:
            self.gate.release()
            return None
        return self.connection

    def take_back(self) -> None:
        """Go on with the connection that was lent, in no transaction."""
        self.gate.release()

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for the thread; a long job that can be broken off does so then."""
        return not self._jobs.empty()

    async def run(self, work: Work[Result]) -> Result:
        """Run the function on the thread with the connection and return its result."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        def job() -> None:
            try:
                result = work(self.connection)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the caller
                self.waiting -= 1
                deliver(future, None, self._told(error))
            else:
                self.waiting -= 1
                deliver(future, result, None)

        self.waiting += 1
        if not self.submit(job):
            self.waiting -= 1
            raise WorkerClosedError
        return await future


def _work(jobs: SimpleQueue[Job | None], gate: threading.RLock) -> None:
    """Run jobs until there is None. The thread has no hold on its worker, which may be forgotten meanwhile."""
    while (job := jobs.get()) is not None:
        with gate:
            deliver_now = job()
        if deliver_now is not None:
            deliver_now()
        del job, deliver_now  # Or its rows and results would be kept until the next one comes.
