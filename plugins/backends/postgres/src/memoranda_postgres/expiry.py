"""When items expire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memoranda.store.backend import Change, metadata_matches, with_lifetime
from memoranda_postgres.connections import Connection
from memoranda_postgres.dialect import PostgresStatements
from memoranda_postgres.rows import item_of, owner_of, packed
from memoranda_postgres.server import Server
from memoranda_postgres.upserts import Upserts


async def touch(server: Server, statements: PostgresStatements, upserts: Upserts, change: Change) -> int:
    """Let live items expire anew, as a change says; return how many there were. Their versions stay."""
    owned = " AND stored.owner = given.owner" if statements.dialect.partitioned else ""
    text = (
        f"UPDATE {statements.dialect.table} AS stored SET extra_json = given.extra, expires_at = given.ends "
        f"FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS given (id, owner, extra, ends) "
        f"WHERE stored.id = given.id{owned}"
    )

    async def work(connection: Connection) -> int:
        async with server.transaction(connection):
            rows = await upserts.locked(connection, sorted(set(change.ids or ())))
            touched = [values for row in rows if (values := _touched(row, change)) is not None]
            if touched:
                columns = [list(column) for column in zip(*touched, strict=True)]
                await connection.execute(text, *columns, timeout=server.time_for(len(touched)))
            return len(touched)

    return await server.run(work)


def _touched(row: Any, change: Change) -> Sequence[str] | None:
    """Return the id, owner, new extra fields and new expiry of a row; None if it stays as it is."""
    item = item_of(row)
    life = item.ttl if change.ttl is None else change.ttl
    has_expired = "" < row["expires_at"] <= change.now
    if row["deleted"] or has_expired or life is None or not metadata_matches(change.wanted.metadata, item.metadata):
        return None
    new = packed(with_lifetime(item, life, change.now))
    return new.id, owner_of(new.user_id), new.extra_json, new.expires_at


async def next_expiry(server: Server, statements: PostgresStatements) -> str | None:
    """Return when the next item expires."""
    rows = await server.fetch(f"SELECT min(expires_at) FROM {statements.dialect.table} WHERE expires_at > ''", ())
    soonest: str | None = rows[0][0]
    return soonest
