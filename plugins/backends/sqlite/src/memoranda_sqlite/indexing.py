"""Filling the text indexes after the writes, a batch at a time, on the writer's thread.

At the end the log is copied into the file. Otherwise a commit does that once the log is long, while a caller waits.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from memoranda.errors import StoreUnavailableError
from memoranda_sqlite import text_index
from memoranda_sqlite.worker import Worker, deliver

logger = logging.getLogger(__name__)

FILL_AT = 20_000
"""How many rows may wait for the indexes before they are filled in the writer's pauses. Searches read waiting rows."""

MOST_WAITING = 500_000
"""How many may wait however busy the writer is: reading more takes searches too long."""

FILL_AT_REST = 100
"""How many may wait once nothing has been written for a while, or after a search."""

REST_SECONDS = 0.5
"""How many seconds without a write make a rest."""

SMALL_BATCH, LARGE_BATCH = 500, 5_000
"""How many rows are indexed in one transaction: few, so that writers wait little; many, when very many wait."""

AT_A_TIME, BREATH_SECONDS = 10, 0.0001
"""After how many rows the thread rests, and for how many seconds, while no caller waits for the end. Splitting text
into words holds the interpreter: a reader would otherwise get it only every five milliseconds."""

LONG_BREATH_SECONDS = 0.002
"""How many seconds it rests while others read. The driver releases the interpreter at each row, and a reader that then
finds it taken waits longer than the row took."""


Pace = Literal["calm", "hurried", "broken off"]


class Indexer:
    """Counts the rows that wait for the indexes and has them filled.

    Batches alternate with other writes, and stop early for them: a program that writes without a pause writes at full
    speed, until very many rows wait. After an error, which is logged, the rows still wait, and searches read them. An
    ``idle`` indexer does nothing: the file must not be written.
    """

    def __init__(self, worker: Worker, explained: Callable[[Exception], Exception], *, idle: bool = False) -> None:
        self._worker = worker
        self._explained = explained
        self.waiting = 0
        """About how many rows wait for the indexes; another process may have stored more."""
        self._written = 0
        self._left = 0
        self._seen = self._reads_seen = 0
        self._running = self._broken_off = False
        self._idle = idle
        self._stopped = idle
        self._timer_loop: asyncio.AbstractEventLoop | None = None
        self._ends: list[asyncio.Future[None]] = []
        self._held_off = 0
        self._lock = threading.Lock()
        self._terms_seen = False
        self.available = False
        self.reads = 0
        """The number of reads; every reader counts its own."""

    async def start(self) -> None:
        """Find out if there are indexes, and how many rows wait for them."""
        self.available = await self._worker.run(text_index.available)
        if self._idle and self.available:  # A store that may write has rebuilt them by now.
            self.available = await self._worker.run(text_index.trusted)
        if self.available:
            self.waiting = await self._worker.run(text_index.pending)
            self.written(0)

    async def has_present_terms(self) -> bool:
        """Return True if a ranked search may use the indexes, after emptying those with terms of another version.

        It is asked before each, since most programs never rank: knowing how terms are made takes a while to import.
        """
        if self.available and not self._terms_seen:
            self._terms_seen = await self._worker.run(text_index.has_present_terms)
            if not self._terms_seen and not self._idle:
                with suppress(StoreUnavailableError):  # A full disk or a locked file can still be read.
                    await self._worker.run(text_index.renew)
                    self.waiting = await self._worker.run(text_index.pending)
                    self._terms_seen = True
        return self.available and self._terms_seen

    def written(self, rows: int) -> None:
        """Take note of stored rows."""
        self.waiting += rows
        self._written += rows
        if self.waiting - self._left >= FILL_AT or self.waiting >= MOST_WAITING:
            self._run()

    def searched(self) -> None:
        """Take note of a search, which others may follow."""
        if self.waiting >= FILL_AT_REST:
            self._run()

    @contextmanager
    def held_off(self) -> Iterator[None]:
        """Pause filling while a search reads a whole scope, unless someone waits for it; callable from any thread."""
        with self._lock:
            self._held_off += 1
        try:
            yield
        finally:
            with self._lock:
                self._held_off -= 1

    def wait_for_rest(self) -> None:
        """Fill the indexes when nothing has been written for a while; called in an event loop after a write."""
        if self.waiting >= FILL_AT_REST and (self._timer_loop is None or self._timer_loop.is_closed()):
            self._timer_loop = asyncio.get_running_loop()
            self._timer_loop.call_later(REST_SECONDS, self._rest, self._written)

    def _rest(self, written: int) -> None:
        self._timer_loop = None
        if self._written == written:
            self._run()
        else:
            self.wait_for_rest()

    async def finish(self) -> None:
        """Fill the indexes until nothing waits; where nothing may be written, searches read what waits."""
        if not self.available or self._idle:
            return
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ends.append(end)
        self._run()
        await end

    def stop(self) -> None:
        """Begin no further batch."""
        self._stopped = True

    def _run(self) -> None:
        if self.available and not self._running and not self._stopped:
            self._running = True
            if not self._worker.submit(self._batch):
                self._finished(None)

    def _batch(self) -> None:
        """Fill one batch and ask for the next; runs on the writer's thread."""
        error: Exception | None = None
        done = 0
        others_write = self._broken_off and self._written != self._seen
        if (others_write or self._held_off) and not self._ends:
            self._give_way()
            return
        self._seen = self._written
        try:
            size = LARGE_BATCH if self.waiting >= FILL_AT // 2 else SMALL_BATCH
            done = 0 if self._stopped else _filled(self._worker.connection, size, self._pace, self._breath)
            self.waiting = max(self.waiting - done, 0)
        except Exception as raised:  # noqa: BLE001 - no caller waits for a batch; those of finish() get the error
            error = self._explained(raised)
            logger.info("The text indexes could not be filled now: %s", error)
        self._broken_off = self._pace() == "broken off"
        if done and not self._stopped and self._worker.submit(self._batch):
            return  # The next one comes after the writes that arrived meanwhile.
        self._finished(error)
        if error is None and not self._stopped and not self._worker.wanted:
            _copy_log_into_file(self._worker.connection)

    def _give_way(self) -> None:
        """Leave the rest for a pause, or until many more rows have come."""
        self._left = self.waiting
        self._running = self._broken_off = False
        if self._ends:
            self._run()

    def _pace(self) -> Pace:
        if self._ends:
            return "hurried"
        others_work = self._worker.wanted or self._held_off
        return "broken off" if others_work and self.waiting < MOST_WAITING else "calm"

    def _breath(self) -> float:
        """Return the seconds to rest: longer if anything was read since the last call."""
        before, self._reads_seen = self._reads_seen, self.reads
        return BREATH_SECONDS if self.reads == before else LONG_BREATH_SECONDS

    def _finished(self, error: Exception | None) -> None:
        self._running = self._broken_off = False
        self._left = 0
        ends, self._ends = self._ends, []
        for end in ends:
            deliver(end, None, error)


def _copy_log_into_file(connection: sqlite3.Connection) -> None:
    """Let the next writers start the log from its beginning: a disk takes longer for a growing file."""
    with suppress(sqlite3.Error):  # The next commits do it in any case.
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def _filled(connection: sqlite3.Connection, size: int, pace: Callable[[], Pace], breath: Callable[[], float]) -> int:
    """Fill one batch in one transaction and return how many rows it had."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        done = 0
        while done < size:
            if pace() == "hurried":
                done += text_index.fill(connection, size - done)
                break
            some = text_index.fill(connection, AT_A_TIME)
            done += some
            if not some or pace() == "broken off":
                break
            rest = breath()
            if rest > BREATH_SECONDS:
                size = min(size, SMALL_BATCH)  # Writers of other processes wait for the end.
            time.sleep(rest)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return done
