"""Reads of very many rows, by aiosqlite: each has a connection and a thread of its own.

So an export or an examination of the whole file keeps no search waiting, and reads its rows in parts. Between two
chunks no connection is open: the file's log can be emptied, the store closed and the process forked while the caller
processes rows.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiosqlite

from memoranda_backend.sql import ITEM_COLUMNS
from memoranda_sqlite.dialect import register_functions
from memoranda_sqlite.faults import DRIVER_ERRORS, decoded, is_undecodable
from memoranda_sqlite.files import Database

ROWS_PER_FETCH = 500
"""How many rows come from the thread at a time."""

MOST_BYTES = 4 << 20
"""After how many characters of content a chunk ends, however few rows it has."""

_CONTENT = ITEM_COLUMNS.index("content")


class _ReadingConnection(sqlite3.Connection):
    """The driver's connection as the statements need it, made ready on the thread that opens it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        register_functions(self)
        self.execute("PRAGMA query_only = ON")


def chunk_of(connection: sqlite3.Connection, text: str, values: Sequence[Any]) -> tuple[list[Any], bool]:
    """Return what :meth:`LongReads.chunk` does, on the connection of the calling thread."""
    rows: list[Any] = []
    size = 0
    cursor = connection.execute(text, values)
    while part := cursor.fetchmany(ROWS_PER_FETCH):
        rows += part
        size += _length(part)
        if size > MOST_BYTES:
            return rows, False
    return rows, True


@asynccontextmanager
async def _connected(connection: aiosqlite.Connection) -> AsyncIterator[None]:
    """Open a connection, and close it whenever the caller ends or is cancelled.

    Before 0.22, aiosqlite does not close a connection whose caller is cancelled while it opens.
    """
    opening = asyncio.ensure_future(connection.__aenter__())
    try:
        await asyncio.shield(opening)
        yield
    finally:
        closing = asyncio.ensure_future(_close(connection, opening))
        cancelled = False
        while not closing.done():
            try:
                await asyncio.wait([closing])
            except asyncio.CancelledError:
                cancelled = True
        closing.result()
        if cancelled:
            raise asyncio.CancelledError


async def _close(connection: aiosqlite.Connection, opening: asyncio.Future[aiosqlite.Connection]) -> None:
    """Close a connection once it is open; one that could not be opened has nothing to close."""
    await asyncio.wait([opening])
    if not opening.cancelled() and opening.exception() is None:
        await connection.close()


def _length(rows: Sequence[Any]) -> int:
    return sum(len(row[_CONTENT]) for row in rows if isinstance(row[_CONTENT], str | bytes))


class LongReads:
    """Opens a connection for each long read of a file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open: set[aiosqlite.Connection] = set()

    @asynccontextmanager
    async def cursor(
        self, text: str, values: Sequence[Any] = (), *, tolerant: bool = True
    ) -> AsyncIterator[aiosqlite.Cursor]:
        """Run a statement whose rows are taken from the cursor, all from one state of the file.

        Without ``tolerant`` it is faster, and text that is not Unicode is an error of the driver.
        """
        connection = aiosqlite.connect(
            self._database.uri,
            iter_chunk_size=ROWS_PER_FETCH,
            uri=True,
            timeout=self._database.busy_timeout,
            isolation_level=None,
            factory=_ReadingConnection,
        )
        self._open.add(connection)
        try:
            async with _connected(connection):
                if tolerant:
                    connection.text_factory = decoded
                async with connection.execute(text, values) as cursor:
                    yield cursor
        except DRIVER_ERRORS as error:
            if not tolerant and is_undecodable(error):
                raise
            raise self._database.explained_reading(error) from error
        finally:
            self._open.discard(connection)

    async def chunk(self, text: str, values: Sequence[Any]) -> tuple[list[Any], bool]:
        """Return the first rows of a statement, as many as easily fit into memory, and True if these are all."""
        try:
            return await self._chunk(text, values, tolerant=False)
        except DRIVER_ERRORS:  # Text that is not Unicode; every other error is memoranda's.
            return await self._chunk(text, values, tolerant=True)

    async def _chunk(self, text: str, values: Sequence[Any], *, tolerant: bool) -> tuple[list[Any], bool]:
        rows: list[Any] = []
        size = 0
        async with self.cursor(text, values, tolerant=tolerant) as cursor:
            while part := list(await cursor.fetchmany(ROWS_PER_FETCH)):
                rows += part
                size += _length(part)
                if size > MOST_BYTES:
                    return rows, False
        return rows, True

    def opened(self) -> object:
        """Return whatever holds the connections that are open now."""
        return tuple(self._open)
