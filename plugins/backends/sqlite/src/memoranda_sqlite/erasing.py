"""Erasing purged content from the disk: from the pages of the file and from its log.

SQLite overwrites what is deleted, but not the copies that it left in the free space of pages when it moved rows and
keys from one page to another: only rewriting the file (VACUUM) removes them. That takes longer the larger the file is,
and writers wait meanwhile. A small file is rewritten at once, a large one on request, once for any number of purges.

All of this happens in the write-ahead log first. The log has to be copied into the file and truncated, which needs a
moment without readers of an older state. Until then a mark in the file says what is left to do; the purge sets it, so
that it survives a killed program. Every store that has the file open tries again to empty the log: after a while, when
it writes, when it closes the file and when it opens it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import sqlite3
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from memoranda.errors import MemoryError
from memoranda_sqlite.faults import is_busy
from memoranda_sqlite.schema import meta, set_meta
from memoranda_sqlite.tables import TABLE
from memoranda_sqlite.worker import Worker, deliver

logger = logging.getLogger(__name__)

MOST_WAITED_MILLISECONDS = 2_000
"""How many milliseconds a purge waits for readers."""

FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.1, 30.0
"""The seconds between attempts double each time, from the first to the last."""

LOOK_SECONDS = 30.0
"""After how many seconds a program that writes checks if another one has left something to erase."""

SWEPT_SECONDS = 10.0
"""After how many seconds the items removed by a sweep are erased, with those of other sweeps meanwhile."""

SMALL_FILE_BYTES = 32 << 20
"""Up to how many bytes the purge itself rewrites the file, which takes about a second."""

WAITS = (
    "What was purged is still in the file's write-ahead log, because some program reads an older state of the file. It "
    "goes when that has ended and a store has the file open."
)
_DEFERRED = "Items that have expired were removed, and go off the disk shortly."
_COPIES = "Copies of what was purged may be in the free room of the file's pages"

_UNWRITTEN = "They go when a store opens the file to write."

_MARK = "erasing"
_BOTH, _LOG, _ROOM = "pages ", "log ", "room "
"""The first word of the mark: do both, empty the log, or only rewrite the file."""

# Rewriting a file may renumber the rows of tables without an integer primary key, which may matter to their owners.
_OTHERS_TABLES = (
    f"SELECT name FROM sqlite_master WHERE type = 'table' AND name <> '{TABLE}' AND name NOT GLOB 'memoranda_*' "
    f"AND name NOT GLOB 'sqlite_*' ORDER BY name"
)


@dataclass(frozen=True, slots=True)
class Pending:
    """The reason why purged content is still on the disk, as a sentence; empty if it is not.

    ``passes`` is True if another attempt may succeed, once the obstacle has gone by itself.
    """

    reason: str = ""
    passes: bool = False


class Demand(Enum):
    """When a file is rewritten."""

    IF_SMALL = auto()
    """If it is small."""
    OURS = auto()
    """However long it takes, unless others have tables in it."""
    ANY = auto()
    """However long it takes, even if the rows of other programs' tables may be renumbered."""


def mark(connection: sqlite3.Connection) -> None:
    """Mark the file, within the transaction of a purge, as having something to erase."""
    # Each mark is unique: no program takes another's mark for its own.
    set_meta(connection, _MARK, _BOTH + secrets.token_hex(8))


def erase(connection: sqlite3.Connection, patience: int = 0, demand: Demand = Demand.IF_SMALL) -> Pending:
    """Rewrite the file if the demand says so, empty the log, and return what is left to do.

    ``patience`` is how many milliseconds to wait for others.
    """
    found = meta(connection, _MARK)
    if found is None:
        return Pending()
    (usual,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute(f"PRAGMA busy_timeout = {min(usual, patience)}")
    try:
        reason = "" if str(found).startswith(_LOG) else _reason_to_leave_it(connection, demand)
        if not str(found).startswith(_LOG) and not reason:
            connection.execute("VACUUM")
            found = _changed_mark(connection, found, _LOG)
        if not str(found).startswith(_ROOM):
            _empty_log(connection, found, _ROOM if reason else None)
        return _left(connection, reason)
    except sqlite3.DatabaseError as error:
        # Purged items are gone for every reader: a file that cannot be rewritten is no reason to fail.
        if is_busy(error):
            return Pending(WAITS, passes=True)
        return Pending(f"What was purged is not off the disk yet: SQLite says {str(error)!r}.", passes=True)
    finally:
        connection.execute(f"PRAGMA busy_timeout = {usual}")


def _reason_to_leave_it(connection: sqlite3.Connection, demand: Demand) -> str:
    """Return why the file is not rewritten now; empty if it is."""
    if demand is Demand.ANY:
        return ""
    others = [name for (name,) in connection.execute(_OTHERS_TABLES)]
    if others:
        named = ", ".join(map(repr, others[:3])) + (", …" if len(others) > 3 else "")
        return (
            f"{_COPIES}. It has tables of other programs ({named}), whose rows might be numbered anew, and so is not "
            f"written anew. If that does no harm, call 'await store.erase(others=True)'."
        )
    size = _size(connection)
    if demand is Demand.IF_SMALL and size > SMALL_FILE_BYTES:
        return (
            f"{_COPIES}. A file of {size:,} bytes is written anew only on demand, since writers wait meanwhile: run "
            f"'memoranda doctor --repair', or call 'await store.erase()'. Once is enough for many purges."
        )
    return ""


def _marked(connection: sqlite3.Connection) -> Pending:
    """Return what is left to do in a file that must not be written."""
    return Pending() if meta(connection, _MARK) is None else Pending(f"{_COPIES} or in its log. {_UNWRITTEN}")


def _size(connection: sqlite3.Connection) -> int:
    """Return the size of the file without its free pages: as many bytes are rewritten."""
    names = ("page_count", "freelist_count", "page_size")
    pages, free, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
    return int((pages - free) * size)


def _empty_log(connection: sqlite3.Connection, found: Any, then: str | None) -> None:
    """Copy the log into the file and truncate it; then change the mark to what is left, or remove it."""
    # Frees unused pages. A script runs to its end; a statement would stop after one page.
    connection.executescript("PRAGMA incremental_vacuum")
    ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    if busy:
        return
    if then is not None:
        _changed_mark(connection, found, then)
    else:
        connection.execute("DELETE FROM memoranda_meta WHERE key = ? AND value IS ?", (_MARK, found))


def _changed_mark(connection: sqlite3.Connection, found: Any, begins: str) -> str:
    """Change the mark, unless another program has replaced it, and return the new one."""
    changed = begins + secrets.token_hex(8)
    connection.execute("UPDATE memoranda_meta SET value = ? WHERE key = ? AND value IS ?", (changed, _MARK, found))
    return changed


def _left(connection: sqlite3.Connection, reason: str) -> Pending:
    found = meta(connection, _MARK)
    if found is None:
        return Pending()
    return Pending(reason) if reason and str(found).startswith(_ROOM) else Pending(WAITS, passes=True)


class Eraser:
    """Erases purged content from the disk while the store is open."""

    def __init__(self, worker: Worker, *, in_memory: bool, idle: bool = False) -> None:
        self._worker = worker
        self._idle = idle
        self._in_memory = in_memory
        self._pause = FIRST_RETRY_SECONDS
        self._timer: tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle] | None = None
        self.look_at = math.inf if in_memory else 0.0
        """When a write is next to call :meth:`written`, by the monotonic clock."""
        self._stopped = False
        self.pending = Pending()
        """What is not erased yet, as far as this program knows."""

    async def start(self) -> None:
        """Erase what another or an earlier program left."""
        await self.attempt()

    async def attempt(self, patience: int = 0, demand: Demand = Demand.IF_SMALL) -> Pending:
        """Try to erase now, and return what is left to do."""
        if self._in_memory:
            return Pending()
        if self._idle:
            return await self._worker.run(_marked)
        self.look_at = time.monotonic() + LOOK_SECONDS
        self._note(await self._worker.run(lambda connection: erase(connection, patience, demand)))
        return self.pending

    def written(self) -> None:
        """Take note of a write, if it is time to; called in an event loop."""
        if self.pending.passes:
            self._wait()
        else:
            self.look_at = time.monotonic() + LOOK_SECONDS
            self._try_later(0.0)

    def defer(self) -> None:
        """Erase later: no caller waits for this purge. Called in an event loop."""
        if not self._in_memory and not self.pending.passes:
            self.pending, self.look_at = Pending(_DEFERRED, passes=True), 0.0
            if not self._stopped and (self._timer is None or self._timer[0].is_closed()):
                self._try_later(SWEPT_SECONDS)

    async def close(self) -> None:
        """Try once more after the store's readers are closed."""
        self._stopped = True
        if self._timer is not None:
            with suppress(RuntimeError):  # Its loop is closed.
                self._timer[0].call_soon_threadsafe(self._timer[1].cancel)
        if self.pending.passes and not self._worker.closed:
            with suppress(MemoryError):  # Closing goes on.
                await self.attempt(MOST_WAITED_MILLISECONDS)
            if self.pending.passes:
                logger.warning("%s", self.pending.reason)

    def _note(self, pending: Pending) -> None:
        self.pending = pending
        if pending.passes:
            self.look_at = 0.0
            self._wait()
        else:
            self._pause = FIRST_RETRY_SECONDS

    def _wait(self) -> None:
        if not self._stopped and (self._timer is None or self._timer[0].is_closed()):
            self._try_later(self._pause)
            self._pause = min(2 * self._pause, LAST_RETRY_SECONDS)

    def _try_later(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._timer = (loop, loop.call_later(seconds, self._submit, loop))

    def _submit(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the writer's thread try, and deliver the result to this loop."""
        self._timer = None
        if self._stopped or self._worker.closed:
            return
        attempt: asyncio.Future[Pending] = loop.create_future()
        attempt.add_done_callback(self._attempted)

        def job() -> None:
            try:
                pending = erase(self._worker.connection)
            except Exception as error:  # noqa: BLE001 - no caller waits for it; the next attempt may succeed
                pending = Pending(f"What was purged could not be erased ({type(error).__name__}).", passes=True)
            deliver(attempt, pending, None)

        self._worker.submit(job)

    def _attempted(self, attempt: asyncio.Future[Pending]) -> None:
        if not attempt.cancelled():
            self._note(attempt.result())
