"""The one order in which writers lock items, so that no two of them ever wait for each other in a circle.

Whoever writes items locks them first, in the order of their ids, and only then touches anything else that belongs to
them, such as their vectors. An item's lock is its row; an item that is not there yet is locked by being inserted.

In a partitioned table the lock is the row in the table of ids, and the item is read or written by a later statement.
That one never waits, since nobody else gets past the table of ids, and it sees what the one before left behind. A
statement that waits for a row and goes on with its newer version must not read a partitioned table at all: there are
releases of PostgreSQL 18 that crash on it.
"""

from __future__ import annotations

from collections.abc import Sequence

from memoranda_postgres.connections import Connection
from memoranda_postgres.dialect import PostgresDialect
from memoranda_postgres.server import Server


async def lock_items(server: Server, connection: Connection, dialect: PostgresDialect, ids: Sequence[str]) -> list[str]:
    """Lock those of the items that are there, hidden ones too, until the end of the transaction; return their ids.

    Only these may be written. One that was purged and added anew while this waited is somebody else's.
    """
    rows = await connection.fetch(dialect.lock_by_ids("$1"), list(ids), timeout=server.time_for(len(ids)))
    return [row["id"] for row in rows]
