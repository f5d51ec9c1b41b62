"""When items expire."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from memoranda.items import MemoryMetadata
from memoranda.shapes import json_text
from memoranda.store.backend import end_of_life, metadata_matches
from memoranda_postgres.connections import Connection
from memoranda_postgres.dialect import PostgresStatements
from memoranda_postgres.rows import item_of, owner_of
from memoranda_postgres.server import Server
from memoranda_postgres.writing import Writer


class ExpiryWriter:
    """Sets when the items of one store expire."""

    def __init__(self, server: Server, statements: PostgresStatements, writer: Writer) -> None:
        self._server = server
        self._dialect = statements.dialect
        self._writer = writer

    async def touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        """Let live items expire in ``ttl`` seconds, or in their own lifetime again; return how many there were."""

        async def work(connection: Connection) -> int:
            async with self._server.transaction(connection):
                rows = await self._writer.locked(connection, sorted(set(ids)))
                changes = [change for row in rows if (change := _changed(row, ttl, now, within)) is not None]
                await self._write(connection, changes)
                return len(changes)

        return await self._server.run(work)

    async def _write(self, connection: Connection, changes: Sequence[tuple[str, str, str, str]]) -> None:
        if not changes:
            return
        owned = " AND stored.owner = given.owner" if self._dialect.partitioned else ""
        await connection.execute(
            f"UPDATE {self._dialect.table} AS stored SET extra_json = given.extra, expires_at = given.ends "
            f"FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS given (id, owner, extra, ends) "
            f"WHERE stored.id = given.id{owned}",
            *(list(column) for column in zip(*changes, strict=True)),
            timeout=self._server.time_for(len(changes)),
        )

    async def soonest(self) -> str | None:
        """Return when the next item expires."""
        rows = await self._server.fetch(f"SELECT min(expires_at) FROM {self._dialect.table} WHERE expires_at > ''", ())
        found: str | None = rows[0][0]
        return found


def _changed(row: Any, ttl: float | None, now: str, within: MemoryMetadata | None) -> tuple[str, str, str, str] | None:
    """Return the new id, owner, extra fields and expiry of a row; None if it stays as it is."""
    if row["deleted"]:
        return None
    item = item_of(row)
    if not metadata_matches(within, item.metadata) or (item.expires_at is not None and item.expires_at <= now):
        return None
    life = item.ttl if ttl is None else ttl
    if life is None:
        return None
    ends = end_of_life(now, life)
    further = json.loads(row["extra_json"])
    further.pop("ttl", None)
    further.pop("expires_at", None)
    if ends is not None:
        further |= {"ttl": life, "expires_at": ends}
    return item.id, owner_of(item.metadata.user_id), json_text(further), ends or ""
