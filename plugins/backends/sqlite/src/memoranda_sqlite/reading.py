"""The readers: one connection for short reads in the event loop itself, and threads for everything longer."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from memoranda.loops import CallsUnderWay
from memoranda_sqlite.faults import (
    DRIVER_ERRORS,
    decoded,
    is_busy,
    is_interrupted,
    is_too_big,
    is_undecodable,
    tolerantly,
)
from memoranda_sqlite.files import Database
from memoranda_sqlite.worker import Work, Worker

Result = TypeVar("Result")

STEPS = 500
"""After how many instructions SQLite asks whether to continue; reading twenty items through an index takes 300."""

MOST_ASKED = 16
"""How often a read in the event loop may continue: two hundred rows can be read, or a hundred found and sorted, in less
than a millisecond."""

LONGEST = 64 << 10
"""The most bytes of a row that is read in the event loop."""

MOST_THREADS = 4


class DirectReader:
    """Reads in the caller's own thread, within bounds.

    It never waits: not for a lock (its timeout is 0) and not for a long statement or row, since SQLite stops after a
    bounded number of instructions and at a bounded length. It then returns None, and a thread does the work. Most reads
    are spared the way to a thread and back, which costs ten times as much as the read.
    """

    def __init__(self, database: Database) -> None:
        self._connection = database.open_reader(shared=True)
        self._connection.set_progress_handler(self._too_long, STEPS)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        self._left = 0
        self._lock = threading.Lock()  # Event loops in several threads may share a store.
        self._closed = False

    def rows(self, text: str, values: Sequence[Any], most_asked: int = MOST_ASKED) -> list[Any] | None:
        """Return all rows of a statement, or None if it takes too long, a lock is held, or another loop closed it."""
        if not self._lock.acquire(False):
            return None
        self._left = most_asked
        try:
            if self._closed:
                return None
            return self._connection.execute(text, values).fetchall()
        except DRIVER_ERRORS as error:
            if is_undecodable(error) and self._connection.text_factory is not decoded:
                self._connection.text_factory = decoded  # From the next statement on.
                return None
            if is_interrupted(error) or is_busy(error) or is_too_big(error):
                return None
            raise
        finally:
            self._lock.release()

    def _too_long(self) -> bool:
        # SQLite counts the instructions of a prepared statement over all its runs; this counts those of one run.
        self._left -= 1
        return self._left < 0

    def close(self) -> None:
        """Close the connection once no read is in progress."""
        with self._lock:
            self._closed = True
            self._connection.close()


@contextmanager
def one_snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Read everything from one state of the file: that of a transaction around it, if there is one."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


async def open_snapshot(database: Database) -> Worker:
    """Return a connection of its own that reads the file as it is now, until it is closed."""
    worker = await Worker(database.open_reader, database.explained_reading).open()
    try:
        await worker.run(_begin)
    except BaseException:
        await worker.close()
        raise
    return worker


def _begin(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")
    connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()  # The first read chooses the state.


class ReaderThreads:
    """Connections with threads; each call goes to the least busy one, and more are opened up to a limit."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._workers: list[Worker] = []
        self._opening = CallsUnderWay()
        self._openings = 0
        self._closed = False

    async def run(self, work: Work[Result]) -> Result:
        """Run a function with a connection that reads."""
        worker = min(self._workers, key=_load, default=None)
        if worker is None or (worker.waiting and len(self._workers) + self._openings < MOST_THREADS):
            worker = await self._opened()
        return await worker.run(lambda connection: tolerantly(connection, work))

    async def _opened(self) -> Worker:
        with self._opening.call():
            self._openings += 1
            try:
                worker = await Worker(self._database.open_reader, self._database.explained_reading).open()
            finally:
                self._openings -= 1
            if self._closed:
                await worker.close()  # It refuses the call.
            else:
                self._workers.append(worker)
            return worker

    async def close(self) -> None:
        """Wait for what is under way and close all connections."""
        await self._opening.ended()  # A call may be opening one just now.
        self._closed = True
        while self._workers:
            await self._workers.pop().close()


def _load(worker: Worker) -> int:
    return worker.waiting
