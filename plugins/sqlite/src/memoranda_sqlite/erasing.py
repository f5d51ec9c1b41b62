"""Getting purged content off the disk: out of the pages of the file and out of its log.

SQLite overwrites what is deleted, but not the copies that it left in the free room of pages when it moved rows and keys
from one page to another: only a file that is written anew is free of them. And all of this happens in the write-ahead
log at first. The file and the log are rid of it once the log has been brought into the file and cut off, and for that
nobody may read an older state. Until then a mark in the file says that something waits; it is set with the purge, and
so outlives a killed program. Whoever has the file open tries again: after a while, when it writes, when it closes the
file and when it opens it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sqlite3
import time
from contextlib import suppress
from typing import Any

from memoranda.errors import MemoryError
from memoranda_sqlite.faults import is_busy
from memoranda_sqlite.schema import TABLE, meta, set_meta
from memoranda_sqlite.worker import Worker, deliver

logger = logging.getLogger(__name__)

PATIENCE = 2_000
"""How many milliseconds a purge waits for those who read."""

FIRST_RETRY, LAST_RETRY = 0.1, 30.0
"""How many seconds are between attempts: few at first, twice as many each time."""

LOOK = 30.0
"""After how many seconds a program that writes looks whether another one has left something to erase."""

WAITS = (
    "What was purged is still in the file's write-ahead log, because some program reads an older state of the file. It "
    "goes when that has ended and a store has the file open."
)

_MARK = "erasing"
_PAGES, _LOG = "pages ", "log "
"""What the mark begins with: the pages are still to be written anew, or only the log is in the way."""

# Writing a file anew may number the rows of a table that has no key of its own anew, and that is not ours to do.
_OTHERS_TABLES = (
    f"SELECT 1 FROM sqlite_master WHERE type = 'table' AND name <> '{TABLE}' AND name NOT GLOB 'memoranda_*' "
    f"AND name NOT GLOB 'sqlite_*' LIMIT 1"
)


def mark(connection: sqlite3.Connection) -> None:
    """Note within the transaction of a purge that something is to be erased."""
    # No two marks are alike: nobody takes another's for the one whose content is gone.
    set_meta(connection, _MARK, _PAGES + secrets.token_hex(8))


def waits(connection: sqlite3.Connection) -> bool:
    """Whether something that was purged is not off the disk yet."""
    return meta(connection, _MARK) is not None


def erase(connection: sqlite3.Connection, patience: int = 0) -> str:
    """Write the pages anew, bring the log into the file and cut it off; return what is in the way, or nothing.

    ``patience`` is how many milliseconds to wait for others.
    """
    found = meta(connection, _MARK)
    if found is None:
        return ""
    (usual,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute(f"PRAGMA busy_timeout = {min(usual, patience)}")
    try:
        if not str(found).startswith(_LOG):
            found = _written_anew(connection, found)
        ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if not busy:
            connection.execute("DELETE FROM memoranda_meta WHERE key = ? AND value IS ?", (_MARK, found))
        return WAITS if waits(connection) else ""
    except sqlite3.DatabaseError as error:
        # What was purged is gone for every reader: a file that cannot be written anew is no reason to fail.
        return WAITS if is_busy(error) else f"What was purged is not off the disk yet: SQLite says {str(error)!r}."
    finally:
        connection.execute(f"PRAGMA busy_timeout = {usual}")


def _written_anew(connection: sqlite3.Connection, found: Any) -> str:
    """Write the pages anew, which is done once for a purge, and return the mark as it is then."""
    if connection.execute(_OTHERS_TABLES).fetchone():
        # As a script it runs to its end; as a statement the driver would stop after the first page.
        connection.executescript("PRAGMA incremental_vacuum")
    else:
        connection.execute("VACUUM")
    anew = _LOG + secrets.token_hex(8)
    connection.execute("UPDATE memoranda_meta SET value = ? WHERE key = ? AND value IS ?", (anew, _MARK, found))
    return anew


class Eraser:
    """Sees to it that what was purged goes off the disk, for as long as the store is open."""

    def __init__(self, worker: Worker, *, in_memory: bool) -> None:
        self._worker = worker
        self._in_memory = in_memory
        self._pause = FIRST_RETRY
        self._timer: tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle] | None = None
        self._look_again = 0.0
        self._stopped = False
        self.pending = ""
        """Why something that was purged is not off the disk yet; empty if all is, as far as this program knows."""

    async def start(self) -> None:
        """Erase what another program, or an earlier one, could not."""
        await self.attempt()

    async def attempt(self, patience: int = 0) -> str:
        """Try to erase now, and return what is in the way, or nothing."""
        if self._in_memory:
            return ""
        self._look_again = time.monotonic() + LOOK
        self._note(await self._worker.run(lambda connection: erase(connection, patience)))
        return self.pending

    def written(self) -> None:
        """Something was written; called in an event loop."""
        if self.pending:
            self._wait()
        elif not self._in_memory and time.monotonic() >= self._look_again:
            self._look_again = time.monotonic() + LOOK
            self._try_later(0.0)

    async def close(self) -> None:
        """Try a last time, when the store's own readers are closed."""
        self._stopped = True
        if self._timer is not None:
            with suppress(RuntimeError):  # Its loop is closed.
                self._timer[0].call_soon_threadsafe(self._timer[1].cancel)
        if self.pending and not self._worker.closed:
            with suppress(MemoryError):  # Closing goes on.
                await self.attempt(PATIENCE)
            if self.pending:
                logger.warning("%s", self.pending)

    def _note(self, pending: str) -> None:
        self.pending = pending
        if pending:
            self._wait()
        else:
            self._pause = FIRST_RETRY

    def _wait(self) -> None:
        if not self._stopped and (self._timer is None or self._timer[0].is_closed()):
            self._try_later(self._pause)
            self._pause = min(2 * self._pause, LAST_RETRY)

    def _try_later(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._timer = (loop, loop.call_later(seconds, self._submit, loop))

    def _submit(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the writer's thread try; the answer comes back to this loop."""
        self._timer = None
        if self._stopped or self._worker.closed:
            return
        answer: asyncio.Future[str] = loop.create_future()
        answer.add_done_callback(self._answered)

        def job() -> None:
            try:
                pending = erase(self._worker.connection)
            except Exception as error:  # noqa: BLE001 - nobody waits for it; the next attempt may go better
                pending = f"What was purged could not be erased ({type(error).__name__})."
            deliver(answer, pending, None)

        self._worker.submit(job)

    def _answered(self, answer: asyncio.Future[str]) -> None:
        if not answer.cancelled():
            self._note(answer.result())
