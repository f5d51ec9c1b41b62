"""The writer: one connection on one thread, where calls that arrive together share one commit.

A caller puts a request in the queue and wakes the thread; where several tasks write, the thread is woken at the end of
the event loop's iteration. The thread takes all requests, runs them in one transaction and sets each
caller's own result. If one is refused, the transaction is rolled back and each request runs by itself, so that no call
fails for another's item. The request of a cancelled caller is finished without it: no transaction is left open.

Event loops of several threads fill the queue and the one thread empties it. A group is one transaction of statements
and functions of any kind, in the order of their arrival.

A large batch is stored while its rows are made: the thread inserts one slice, and the event loop makes the next one.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from itertools import groupby
from typing import Any, TypeVar

from memoranda.errors import IdConflictError, MemoryError, StoreClosedError
from memoranda.store.calls import WATCHING, reported, step
from memoranda_backend.sql import Statement
from memoranda_sqlite.erasing import Eraser
from memoranda_sqlite.faults import is_busy
from memoranda_sqlite.indexing import FILL_AT_REST, Indexer
from memoranda_sqlite.row_stream import NoMoreRowsError, StreamRequest
from memoranda_sqlite.statements import STATEMENTS, Upsert
from memoranda_sqlite.tables import ID, BoundRow
from memoranda_sqlite.transactions import ROWS_PER_STATEMENT, Transactions, keep_vectors, parts, room_for, store_rows
from memoranda_sqlite.worker import Request, Worker, settle

Result = TypeVar("Result")


class FunctionRequest(Request):
    """A function that writes."""

    __slots__ = ("_work",)

    def __init__(self, work: Callable[[sqlite3.Connection], Any], stored: int) -> None:
        super().__init__(stored)
        self._work = work

    def apply(self, connection: sqlite3.Connection) -> Any:
        """Call the function."""
        return self._work(connection)


class UpsertRequest(Request):
    """Rows to be stored by one statement, all or none."""

    __slots__ = ("now", "rows", "upsert", "vectors")

    def __init__(self, upsert: Upsert, rows: Sequence[BoundRow], vectors: Sequence[Sequence[Any]], now: str) -> None:
        super().__init__(len(rows))
        self.upsert = upsert
        self.rows = rows
        self.vectors = vectors
        self.now = now

    def apply(self, connection: sqlite3.Connection) -> None:
        """Store the rows. Raises IdConflictError for the first one that is refused."""
        store_rows(connection, self.upsert, self.rows, self.now)
        keep_vectors(connection, self.vectors)


class _RefusedError(Exception):
    """One of the requests of a group was refused; each is tried again by itself."""


class Writer:
    """Queues requests for the worker that writes, and notifies the indexer and the eraser.

    ``check_file`` raises if the file is no longer the one that was opened: SQLite would write to a deleted file.
    """

    def __init__(
        self,
        worker: Worker,
        explained: Callable[[Exception], Exception],
        indexer: Indexer,
        eraser: Eraser,
        check_file: Callable[[], None],
    ) -> None:
        self._worker = worker
        self._check_file = check_file
        self._explained = explained
        self._indexer = indexer
        self._eraser = eraser
        self._queue: deque[Request] = deque()
        self._scheduled = False
        self._waking: set[asyncio.AbstractEventLoop] = set()
        self._several = False
        """True if the last group had several requests: then others may follow in the same iteration of the loop."""

    @property
    def waiting(self) -> int:
        """How many requests no transaction has taken yet."""
        return len(self._queue)

    def upsert(
        self, upsert: Upsert, rows: Sequence[BoundRow], vectors: Sequence[Sequence[Any]] = (), now: str = ""
    ) -> Awaitable[bool | None]:
        """Store rows with their vectors, all or none. The caller awaits the result.

        Where ``now`` is given, items that have expired by then hold no id; the result is True if such were removed.
        Raises IdConflictError for the first row that is refused.
        """
        stored = self._queued(UpsertRequest(upsert, rows, vectors, now))
        begin = WATCHING.get()
        return stored if begin is None else reported(begin, "statement", stored)

    @step("statement")
    async def stream(self, upsert: Upsert, slices: AsyncGenerator[list[BoundRow], None], count: int, now: str) -> bool:
        """Store ``count`` rows while the next ones are made, all or none.

        Return False, with nothing stored, if one was refused, or the event loop was too busy to make rows in time: no
        other program can write meanwhile.
        """
        request = StreamRequest(upsert, count, now)
        stored = self._queued(request)
        try:
            async with aclosing(slices):
                async for rows in slices:
                    await request.take(rows)
                    if stored.done():
                        break
        except BaseException:
            stored.cancel()
            raise
        finally:
            request.end()
        try:
            await stored
        except (IdConflictError, NoMoreRowsError):
            return False
        return True

    @step("statement")
    async def call(self, work: Callable[[sqlite3.Connection], Result], stored: int = 0) -> Result:
        """Run a function in a transaction; if it raises, nothing it did is kept. It may be run twice.

        ``stored`` is how many rows it stores, which then wait for the text indexes.
        """
        result: Result = await self._queued(FunctionRequest(work, stored))
        return result

    def _queued(self, request: Request) -> asyncio.Future[Any]:
        if self._worker.closed:
            raise StoreClosedError("The SQLite store")
        self._queue.append(request)
        if not self._several:
            self.flush()
            return request.future
        # At the end of the iteration: a thread that is woken earlier competes for the interpreter while the other tasks
        # of the iteration still add to the group.
        loop = request.future.get_loop()
        if not self._scheduled and loop not in self._waking:
            self._waking.add(loop)
            loop.call_soon(self._wake, loop)
        return request.future

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        self._waking.discard(loop)
        self.flush()

    def flush(self) -> None:
        """Have the thread write what waits. If the store is closed, the requests fail with StoreClosedError."""
        if self._queue and not self._scheduled:
            self._scheduled = True
            if not self._worker.submit(self._drain):
                requests = self._dequeued()
                for request in requests:
                    request.error = StoreClosedError("The SQLite store")
                self._deliver(requests)

    def _dequeued(self) -> list[Request]:
        """Empty the queue and return its requests without the cancelled ones."""
        requests: list[Request] = []
        while True:
            try:
                request = self._queue.popleft()
            except IndexError:  # A check beforehand could be outdated: another thread may take the last one.
                return requests
            if not request.future.cancelled():
                requests.append(request)

    def _drain(self) -> None:
        """Write everything that waits and deliver the results. Runs on the worker's thread."""
        self._scheduled = False  # Before the queue is emptied: a later request schedules another run.
        requests = self._dequeued()
        if not requests:
            return
        self._several = len(requests) > 1
        try:
            self._write(self._worker.connection, requests)
            self._check_file()  # Not earlier: a file that is gone by now must fail too.
        except Exception as error:  # noqa: BLE001 - it belongs to the callers
            for request in requests:
                request.error = error if isinstance(error, MemoryError) else self._explained(error)
        self._indexer.written(sum([request.stored for request in requests if request.error is None]))
        self._deliver(requests)

    def _deliver(self, requests: Sequence[Request]) -> None:
        """Set the results, with one call per event loop rather than one per request."""
        waiting: dict[asyncio.AbstractEventLoop, list[Request]] = {}
        for request in requests:
            waiting.setdefault(request.future.get_loop(), []).append(request)
        for loop, theirs in waiting.items():
            with suppress(RuntimeError):  # The loop is closed, so no task waits any longer.
                loop.call_soon_threadsafe(self._settle, theirs)

    def _settle(self, requests: Sequence[Request]) -> None:
        """Set the results of one event loop's requests; runs in that loop."""
        for request in requests:
            settle(request.future, request.result, request.error)
        if self._indexer.waiting >= FILL_AT_REST:
            self._indexer.wait_for_rest()
        if time.monotonic() >= self._eraser.look_at:
            self._eraser.written()

    def _write(self, connection: sqlite3.Connection, requests: Sequence[Request]) -> None:
        rows = sum([request.stored for request in requests])
        if rows <= ROWS_PER_STATEMENT[-1]:
            self._write_all(connection, requests)
        else:
            with room_for(connection, rows):
                self._write_all(connection, requests)

    def _write_all(self, connection: sqlite3.Connection, requests: Sequence[Request]) -> None:
        if len(requests) > 1:
            try:
                _write_together(connection, requests)
                return
            except Exception as error:
                _roll_back(connection)
                if is_busy(error):
                    raise  # Another program holds the file; waiting as long again for each request would not help.
        for request in requests:
            try:
                self._write_one(connection, request)
            except Exception as error:  # noqa: BLE001 - it belongs to the caller
                _roll_back(connection)
                request.error = error if isinstance(error, MemoryError) else self._explained(error)

    def _write_one(self, connection: sqlite3.Connection, request: Request) -> None:
        """Write a request, after removing expired items if these are in its way."""
        try:
            _run_transaction(connection, request)
        except IdConflictError:
            if not isinstance(request, UpsertRequest) or not request.now:
                raise
            _roll_back(connection)
            connection.execute("BEGIN IMMEDIATE")
            sweeping = Transactions(STATEMENTS, {}, indexed=self._indexer.available)
            if not sweeping.remove_expired(connection, [row[ID] for row in request.rows], request.now):
                raise
            request.apply(connection)
            connection.execute("COMMIT")
            request.result = True


def _write_together(connection: sqlite3.Connection, requests: Sequence[Request]) -> None:
    now = max([request.now for request in requests if isinstance(request, UpsertRequest)], default="")
    statement = _single_statement(requests, now)
    if statement is not None:
        connection.execute(*statement)
        return
    connection.execute("BEGIN IMMEDIATE")
    for upsert, group in groupby(requests, key=_upsert):
        if upsert is None:
            for request in group:
                request.result = request.apply(connection)
            continue
        upserts = [request for request in group if isinstance(request, UpsertRequest)]
        for part in parts([row for request in upserts for row in request.rows]):
            if connection.execute(*upsert.of(part, now)).rowcount != len(part):
                raise _RefusedError
        for request in upserts:
            keep_vectors(connection, request.vectors)
    connection.execute("COMMIT")


def _single_statement(requests: Sequence[Request], now: str) -> Statement | None:
    """Return one statement for all requests, which is a transaction by itself; None if it takes several."""
    upsert = _upsert(requests[0])
    if upsert is None:
        return None
    rows: list[BoundRow] = []
    for request in requests:
        if not isinstance(request, UpsertRequest) or request.vectors or request.upsert != upsert:
            return None
        rows += request.rows
    return upsert.of(rows, now) if len(rows) <= ROWS_PER_STATEMENT[-1] else None


def _upsert(request: Request) -> Upsert | None:
    return request.upsert if isinstance(request, UpsertRequest) else None


def _run_transaction(connection: sqlite3.Connection, request: Request) -> None:
    if isinstance(request, UpsertRequest) and len(request.rows) == 1 and not request.vectors:
        # One statement is a transaction by itself.
        if connection.execute(*request.upsert.of(request.rows, request.now)).rowcount != 1:
            raise IdConflictError(request.rows[0][ID])
        return
    connection.execute("BEGIN IMMEDIATE")
    request.result = request.apply(connection)
    connection.execute("COMMIT")


def _roll_back(connection: sqlite3.Connection) -> None:
    """End the transaction, unless the error has ended it already."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")
