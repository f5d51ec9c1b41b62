"""All the connections of one open store: a writer, a reader for the event loop, threads that read, and long reads.

SQLite forbids carrying a connection over a fork: its locks belong to the parent, its threads are gone, and one of its
mutexes may be held forever by a thread that no longer exists. So a child abandons the connections of its parent, and
neither uses nor closes them. Even a connection that the child opens itself finds the locks in its memory that the
parent held at that moment, so a fork waits until no writer is within a transaction.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import weakref
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from memoranda.errors import StoreClosedError
from memoranda.loops import CallsUnderWay
from memoranda.store.backend import step
from memoranda_sqlite.erasing import Eraser
from memoranda_sqlite.faults import DRIVER_ERRORS, tolerantly
from memoranda_sqlite.files import Database
from memoranda_sqlite.indexing import Indexer
from memoranda_sqlite.reading import MOST_ASKED, DirectReader, ReaderThreads, open_snapshot
from memoranda_sqlite.streaming import LongReads, chunk_of
from memoranda_sqlite.worker import Work, Worker, WorkerClosedError
from memoranda_sqlite.writing import Writer

Result = TypeVar("Result")

_FORK_TIMEOUT = 1.0
"""How many seconds a fork waits for a writer, which may itself be waiting for another program's lock."""


_Snapshot = tuple["Connections", "asyncio.Task[Any] | None", Worker]
_snapshots: ContextVar[_Snapshot | None] = ContextVar("memoranda_sqlite_snapshot", default=None)


class Connections:
    """The connections of an open store; created by :meth:`open`.

    A database in memory has one connection for everything, since no other could see it.
    """

    def __init__(self, database: Database, worker: Worker) -> None:
        self.database = database
        self.worker = worker
        self.indexer = Indexer(worker, database.explained, idle=bool(database.reading))
        self.eraser = Eraser(worker, in_memory=database.in_memory, idle=bool(database.reading))
        self.writer = Writer(worker, database.explained, self.indexer, self.eraser, database.check_that_it_stays())
        self._threads: ReaderThreads | None = None
        self._direct: DirectReader | None = None
        self._long_reads = LongReads(database)
        self._chunk_reads = CallsUnderWay()
        self.forked = False
        _open_connections.add(self)

    @classmethod
    async def open(cls, database: Database) -> Connections:
        """Open everything, or nothing if one of them fails."""
        connect = database.open_only_reader if database.reading else database.open_writer
        worker = await Worker(connect, database.explained).open()
        opened = cls(database, worker)
        try:
            if not database.in_memory:
                opened._threads = ReaderThreads(database)
                opened._direct = DirectReader(database)
            await opened.indexer.start()
            await opened.eraser.start()
        except BaseException:
            await opened.close()
            raise
        return opened

    @asynccontextmanager
    async def one_state(self) -> AsyncGenerator[bool, None]:
        """Let the reads of this task see one state of the file; one in memory has no second connection for that."""
        if self.database.in_memory or self._snapshot is not None:
            yield self._snapshot is not None
            return
        with self._chunk_reads.call():
            snapshot = await open_snapshot(self.database)
            token = _snapshots.set((self, asyncio.current_task(), snapshot))
            try:
                yield True
            finally:
                _snapshots.reset(token)
                await snapshot.close()

    @property
    def _snapshot(self) -> Worker | None:
        """The connection that this task reads from, if it is to see one state."""
        held = _snapshots.get()
        # A task that this one started, such as a sweep, inherits the variable and works on the present state.
        return held[2] if held is not None and held[:2] == (self, asyncio.current_task()) else None

    def rows_at_once(self, text: str, values: Sequence[Any], most_asked: int = MOST_ASKED) -> list[Any] | None:
        """Return the rows of a statement without leaving the event loop's thread, or None if it must go to a thread."""
        if self._direct is None or self._snapshot is not None:
            return None
        self.indexer.reads += 1
        try:
            return self._direct.rows(text, values, most_asked)
        except DRIVER_ERRORS as error:
            raise self.database.explained_reading(error) from error

    @step("statement")
    async def read(self, work: Work[Result]) -> Result:
        """Run a function that reads on a thread."""
        self.indexer.reads += 1
        try:
            if (snapshot := self._snapshot) is not None:
                return await snapshot.run(lambda connection: tolerantly(connection, work))
            if self._threads is None:
                return await self.worker.run(work)
            return await self._threads.run(work)
        except WorkerClosedError as error:
            raise StoreClosedError(f"The store of {self.database.path!r}") from error

    async def rows(self, text: str, values: Sequence[Any]) -> list[Any]:
        """Return the rows of a statement that runs on a thread."""
        return await self.read(lambda connection: connection.execute(text, values).fetchall())

    async def short_rows(self, text: str, values: Sequence[Any]) -> list[Any]:
        """Return the rows of a short statement, in the event loop if possible, else from a thread."""
        rows = self.rows_at_once(text, values)
        return await self.rows(text, values) if rows is None else rows

    async def chunk(self, text: str, values: Sequence[Any]) -> tuple[list[Any], bool]:
        """Return the first rows of a statement that may have very many, and whether these are all."""
        if self.database.in_memory:
            return await self.rows(text, values), True
        if self._snapshot is not None:
            return await self.read(lambda connection: chunk_of(connection, text, values))
        with self._chunk_reads.call():
            return await self._long_reads.chunk(text, values)

    async def every_row(self, text: str) -> AsyncGenerator[Any, None]:
        """Yield all rows of a statement, from one state of the file."""
        if self.database.in_memory:
            for row in await self.rows(text, ()):
                yield row
            return
        async with self._long_reads.cursor(text) as cursor:
            async for row in cursor:
                yield row

    async def close(self) -> None:
        """Wait for what is under way and close everything; the writer last, which brings the log into the file."""
        _open_connections.discard(self)
        if self.forked:
            return
        await self._chunk_reads.ended()
        self.indexer.stop()
        if self._direct is not None:
            self._direct.close()
        if self._threads is not None:
            await self._threads.close()
        await self.eraser.close()
        self.writer.flush()
        await self.worker.close()

    def pause(self) -> bool:
        """Keep the writer out of transactions before a fork. Return False if that takes too long."""
        return not self.forked and self.worker.gate.acquire(timeout=_FORK_TIMEOUT)

    def resume(self) -> None:
        """Let the writer work again."""
        self.worker.gate.release()

    def abandon(self) -> object:
        """Give up every connection in a forked child, and return the objects that hold them."""
        readers = (self._threads, self._direct, self._long_reads.opened())
        kept = (self.worker, self.writer, self.indexer, self.eraser, readers)
        self.forked = True
        self._direct = self._threads = None
        del self.worker, self.writer, self.indexer, self.eraser
        return kept


_open_connections: weakref.WeakSet[Connections] = weakref.WeakSet()
_paused: list[Connections] = []


def _before_fork() -> None:
    _paused.extend(connections for connections in list(_open_connections) if connections.pause())


def _after_fork_in_parent() -> None:
    while _paused:
        _paused.pop().resume()


def _after_fork_in_child() -> None:
    _paused.clear()
    for connections in list(_open_connections):
        # A reference that is never released keeps the child from closing the connections, even when it exits.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connections.abandon()))
    _open_connections.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
