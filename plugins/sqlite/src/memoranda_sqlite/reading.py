"""The readers: one connection that the event loop itself may read from briefly, and threads for everything longer."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
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
"""After how many of its instructions SQLite asks whether to go on; reading twenty items through an index takes 300."""

MOST_ASKED = 16
"""How often the answer is yes in the event loop: two hundred rows may be read, or a hundred be found and put in order,
which takes less than a millisecond."""

LONGEST = 64 << 10
"""The most bytes of a row that is read in the event loop."""

SOON = 32
"""How many reads after a commit are from the connection that wrote; with the next ones another has its own pages."""

MOST_THREADS = 4


class DirectReader:
    """Reads in the caller's own thread, within bounds.

    It never waits: not for a lock (its timeout is 0) and not for a long statement or row, since SQLite breaks off after
    a bounded number of instructions and at a bounded length. Then the answer is None and a thread does the work. This
    saves most reads the way to a thread and back, which costs ten times as much as the read.

    Soon after a commit the ``writer``'s connection is read from, while it has nothing to do: that keeps the pages that
    it has read, where any other connection reads them again. It must be one to a file with a log, where readers wait
    for no writer: it has a timeout.
    """

    def __init__(self, database: Database, writer: Worker | None) -> None:
        self._connection = database.open_reader(shared=True)
        self._bound(self._connection)
        self._writer = writer
        self._changes = self._since = 0
        self._text_factory: Callable[[bytes], Any] = str
        self._left = 0
        self._lock = threading.Lock()  # Two event loops in two threads may share a store.

    def rows(self, text: str, values: Sequence[Any], most_asked: int = MOST_ASKED) -> list[Any] | None:
        """Return all rows of a statement, or None if it would take too long or something is in the way."""
        if not self._lock.acquire(False):
            return None
        self._left = most_asked
        try:
            if self._writer is not None and (lent := self._writer.lend()) is not None:
                try:
                    if self._wrote_lately(lent):
                        return self._from_writer(lent, text, values)
                finally:
                    self._writer.take_back()
            return self._connection.execute(text, values).fetchall()
        except DRIVER_ERRORS as error:
            if is_undecodable(error) and self._text_factory is not decoded:
                self._text_factory = self._connection.text_factory = decoded  # From the next statement on.
                return None
            if is_interrupted(error) or is_busy(error) or is_too_big(error):
                return None
            raise
        finally:
            self._lock.release()

    def _wrote_lately(self, connection: sqlite3.Connection) -> bool:
        changes = connection.total_changes
        if changes != self._changes:
            self._changes, self._since = changes, 0
        self._since += 1
        return self._since <= SOON

    def _from_writer(self, connection: sqlite3.Connection, text: str, values: Sequence[Any]) -> list[Any]:
        """Return all rows of a statement on the writer's connection, which has no bounds before or afterwards."""
        usual, longest = connection.text_factory, connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH)
        self._bound(connection)
        connection.text_factory = self._text_factory
        try:
            return connection.execute(text, values).fetchall()
        finally:
            connection.text_factory = usual
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)
            connection.set_progress_handler(None, 0)

    def _bound(self, connection: sqlite3.Connection) -> None:
        connection.set_progress_handler(self._too_long, STEPS)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)

    def _too_long(self) -> bool:
        # SQLite counts the instructions of a prepared statement over all its runs, so the runs are told apart here.
        self._left -= 1
        return self._left < 0

    def close(self) -> None:
        """Close the connection, once nobody reads."""
        with self._lock:
            self._connection.close()


class ReaderThreads:
    """Connections with threads; each call goes to the one with the least to do, and more are opened up to a bound."""

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
        await self._opening.ended()  # Somebody's call may be opening one just now.
        self._closed = True
        while self._workers:
            await self._workers.pop().close()


def _load(worker: Worker) -> int:
    return worker.waiting
