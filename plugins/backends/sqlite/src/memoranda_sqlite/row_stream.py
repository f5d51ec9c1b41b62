"""A large batch on its way to the writer: rows that are stored slice by slice while the next ones are made."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from queue import Empty, SimpleQueue

from memoranda.errors import MemoryError
from memoranda_sqlite.statements import Upsert
from memoranda_sqlite.tables import BoundRow
from memoranda_sqlite.transactions import ROWS_PER_STATEMENT, store_rows
from memoranda_sqlite.worker import Request, deliver

_PATIENCE_SECONDS = 0.25
"""How long a transaction stays open for the next rows of an event loop that does something else. A fork waits longer,
since it may be what keeps the event loop."""


class NoMoreRowsError(MemoryError):
    """The rest of a batch did not come in time, or will not come."""


class StreamRequest(Request):
    """Rows to be stored slice by slice as they come, all or none. It is applied once: nothing keeps the slices."""

    __slots__ = ("_begun", "_now", "_slices", "_upsert")

    def __init__(self, upsert: Upsert, count: int, now: str) -> None:
        super().__init__(count)
        self._upsert = upsert
        self._now = now
        self._slices: SimpleQueue[tuple[Sequence[BoundRow], asyncio.Future[None]] | None] = SimpleQueue()
        self._begun = False

    async def take(self, rows: Sequence[BoundRow]) -> None:
        """Hand a slice over, and wait until the thread begins to store it, or the request has come to its end."""
        taken: asyncio.Future[None] = self.future.get_loop().create_future()
        self._slices.put((rows, taken))
        await asyncio.wait((taken, self.future), return_when=asyncio.FIRST_COMPLETED)

    def end(self) -> None:
        """Say that no slice follows. If the future was cancelled, none is stored."""
        self._slices.put(None)

    def apply(self, connection: sqlite3.Connection) -> None:
        """Store the rows. Raises IdConflictError for one that is refused, NoMoreRowsError if the rest is missing."""
        if self._begun:
            raise NoMoreRowsError
        self._begun = True
        waiting: list[BoundRow] = []
        while True:
            try:
                given = self._slices.get(timeout=_PATIENCE_SECONDS)
            except Empty:
                raise NoMoreRowsError from None
            if given is None:
                break
            rows, taken = given
            deliver(taken, None, None)
            waiting += rows
            if len(waiting) >= ROWS_PER_STATEMENT[0]:
                whole = len(waiting) - len(waiting) % ROWS_PER_STATEMENT[0]
                store_rows(connection, self._upsert, waiting[:whole], self._now)
                del waiting[:whole]
        if self.future.cancelled():
            raise NoMoreRowsError
        store_rows(connection, self._upsert, waiting, self._now)
