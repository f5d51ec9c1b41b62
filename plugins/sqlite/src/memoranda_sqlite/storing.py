"""Storing rows and their vectors, on the connection that writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from memoranda.errors import IdConflictError
from memoranda_sqlite.rows import ID, Values
from memoranda_sqlite.statements import Upsert

KEEP_VECTOR = (
    "INSERT OR REPLACE INTO memoranda_vectors (item, item_version, vector) SELECT rowid, version, ? FROM memory_items "
    "WHERE id = ? AND EXISTS (SELECT 1 FROM memoranda_meta WHERE key = 'vector_model' AND value = ?)"
)
"""Keeps the vector of the item of an id, unless another program has gone over to another model meanwhile."""

_DROP_VECTOR = "DELETE FROM memoranda_vectors WHERE item = (SELECT rowid FROM memory_items WHERE id = ?)"


def keep_vectors(connection: sqlite3.Connection, vectors: Sequence[Sequence[Any]]) -> None:
    """Keep vectors, given as the values of ``KEEP_VECTOR``; a file without an embedder has no table for them.

    None in the place of a vector takes away what the item had.
    """
    if vectors:
        connection.executemany(_DROP_VECTOR, [(item_id,) for vector, item_id, _ in vectors if vector is None])
        connection.executemany(KEEP_VECTOR, [values for values in vectors if values[0] is not None])


AT_ONCE = (256, 32)
"""How many rows one statement stores; what is left is stored by one more. The interpreter is let go and taken again at
each statement, which costs most while others are busy. A few sizes are enough, so that the statements stay prepared."""

_MANY = 5_000
_MOST_ROOM = 256 << 10
"""From how many rows on a transaction may keep more pages in memory than usual, and how many KiB of them."""


def store_rows(connection: sqlite3.Connection, upsert: Upsert, rows: Sequence[Values]) -> None:
    """Store rows in their order, in a transaction. Raises IdConflictError for the first that is refused."""
    for part in parts(rows):
        if len(part) > 1:
            # Which one is refused is found by storing them again, one by one, in the place of the first attempt.
            with suppress(sqlite3.IntegrityError):
                connection.execute(*upsert.of(part))
                continue
        for row in part:
            if connection.execute(*upsert.of([row])).rowcount != 1:
                raise IdConflictError(row[ID])


@contextmanager
def room_for(connection: sqlite3.Connection, rows: int) -> Iterator[None]:
    """Keep more in memory while many rows are stored: each changes some six pages, anywhere in the indexes.

    SQLite copies each page that a statement changes within a transaction, into a file once they are a few. And when
    very many rows are stored, pages that do not fit are written to the log before the end, and read again for the next
    row that changes them.
    """
    (usual,) = connection.execute("PRAGMA cache_size").fetchone()
    connection.execute("PRAGMA temp_store = MEMORY")
    if rows >= _MANY:
        connection.execute(f"PRAGMA cache_size = -{_MOST_ROOM}")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA cache_size = {usual}")
        connection.execute("PRAGMA temp_store = DEFAULT")


def parts(rows: Sequence[Values]) -> Iterator[Sequence[Values]]:
    """Yield the rows in parts, each of which one statement stores."""
    start = 0
    for size in AT_ONCE:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size
    if start < len(rows):
        yield rows[start:]
