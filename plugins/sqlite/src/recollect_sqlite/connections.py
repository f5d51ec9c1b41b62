"""All the connections of one open store: a writer, a reader for the event loop, and threads that read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from recollect.errors import StoreClosedError
from recollect_sqlite import forking
from recollect_sqlite.files import Database
from recollect_sqlite.reading import DirectReader, ReaderThreads
from recollect_sqlite.worker import Work, Worker
from recollect_sqlite.writing import Writer

Result = TypeVar("Result")


class Connections:
    """What an open store has; made by :meth:`open`.

    A database in memory has one connection for everything, since nobody else could see it.
    """

    def __init__(
        self,
        database: Database,
        worker: Worker,
        written: Callable[[int], None],
        threads: ReaderThreads | None,
        direct: DirectReader | None,
    ) -> None:
        self.database = database
        self.worker = worker
        self.writer = Writer(worker, database.explained, written)
        self._threads = threads
        self._direct = direct
        self.forked = False
        forking.watch(self)

    @classmethod
    async def open(cls, database: Database, written: Callable[[int], None]) -> Connections:
        """Open everything, or nothing if one of them fails."""
        worker = Worker(database.open_writer)
        await worker
        if database.in_memory:
            return cls(database, worker, written, None, None)
        try:
            direct = DirectReader(database)
        except BaseException:
            await worker.close()
            raise
        return cls(database, worker, written, ReaderThreads(database), direct)

    def rows_at_once(self, text: str, values: Sequence[Any]) -> list[Any] | None:
        """Return the rows of a statement without leaving the event loop's thread, or None if it must go to a thread."""
        if self._direct is None:
            return None
        try:
            return self._direct.rows(text, values)
        except sqlite3.Error as error:
            raise self.database.explained(error) from error

    async def read(self, work: Work[Result]) -> Result:
        """Run a function that reads on a thread."""
        try:
            if self._threads is None:
                return await self.worker.run(work)
            return await self._threads.run(work)
        except sqlite3.Error as error:
            raise self.database.explained(error) from error
        except ValueError as error:
            raise StoreClosedError(f"The store of {self.database.path!r}") from error

    async def rows(self, text: str, values: Sequence[Any]) -> list[Any]:
        """Return the rows of a statement that runs on a thread."""
        return await self.read(lambda connection: connection.execute(text, values).fetchall())

    async def close(self) -> None:
        """Wait for what is under way and close everything; the writer last, which brings the log into the file."""
        forking.forget(self)
        if self._direct is not None:
            self._direct.close()
        if self._threads is not None:
            await self._threads.close()
        await self.worker.close()

    def abandon(self) -> object:
        """Give up every connection in a forked child."""
        kept = (self.worker, self.writer, self._threads, self._direct)
        self.forked = True
        self._direct = self._threads = None
        del self.worker, self.writer
        return kept
