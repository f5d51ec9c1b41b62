"""The readers: one connection that the event loop itself may read from briefly, and threads for everything longer."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from typing import Any, TypeVar

from recollect_sqlite.faults import is_busy, is_interrupted
from recollect_sqlite.files import Database
from recollect_sqlite.worker import Work, Worker

Result = TypeVar("Result")

STEPS = 4_000
"""How many of SQLite's instructions a read in the event loop may take: two hundred rows, in less than a millisecond.

Reading twenty items through an index takes three hundred."""

MOST_THREADS = 4


class DirectReader:
    """Reads in the caller's own thread, within bounds.

    It never waits: not for a lock (its timeout is 0) and not for a long statement, which SQLite breaks off after
    ``STEPS`` instructions. In both cases the answer is None and a thread does the work. This saves most reads the way
    to a thread and back, which costs ten times as much as the read.
    """

    def __init__(self, database: Database) -> None:
        self._connection = database.open_reader(shared=True)
        self._connection.set_progress_handler(lambda: 1, STEPS)
        self._lock = threading.Lock()  # Two event loops in two threads may share a store.

    def rows(self, text: str, values: Sequence[Any]) -> list[Any] | None:
        """Return all rows of a statement, or None if it would take too long or something is in the way."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            return self._connection.execute(text, values).fetchall()
        except sqlite3.OperationalError as error:
            if is_interrupted(error) or is_busy(error):
                return None
            raise
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class ReaderThreads:
    """Connections with threads; each call goes to the one with the least to do, and more are opened up to a bound."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._workers: list[Worker] = []
        self._opening = 0

    async def run(self, work: Work[Result]) -> Result:
        """Run a function with a connection that reads."""
        worker = min(self._workers, key=_load, default=None)
        if worker is None or (worker.waiting and len(self._workers) + self._opening < MOST_THREADS):
            worker = await self._opened()
        return await worker.run(work)

    async def _opened(self) -> Worker:
        self._opening += 1
        try:
            worker = Worker(self._database.open_reader)
            await worker
            self._workers.append(worker)
            return worker
        finally:
            self._opening -= 1

    async def close(self) -> None:
        """Wait for what is under way and close all connections."""
        while self._workers:
            await self._workers.pop().close()


def _load(worker: Worker) -> int:
    return worker.waiting


