"""Making the keys of all items while their table is being migrated."""

from __future__ import annotations

from typing import Any

from memoranda_postgres.connections import Connection
from memoranda_postgres.dialect import PostgresDialect
from memoranda_postgres.rows import owner_of
from memoranda_postgres.server import UNHURRIED
from memoranda_postgres.terms import TERM_KEYS, keys_text

_PAGE = 500


async def make_keys(connection: Connection, dialect: PostgresDialect) -> None:
    """Make the term keys of every item from its content. Needs a transaction in which nobody else writes."""
    made: list[tuple[str, str, str]] = []
    text = f"SELECT id, user_id, content FROM {dialect.table}"
    async for row in connection.cursor(text, prefetch=_PAGE, timeout=UNHURRIED):
        made.append((row["id"], owner_of(row["user_id"]), keys_text(row["content"], row["user_id"])))
        if len(made) == _PAGE:
            await _keep(connection, dialect, made)
            made.clear()
    await _keep(connection, dialect, made)


async def _keep(connection: Connection, dialect: PostgresDialect, made: list[tuple[str, str, str]]) -> None:
    columns: list[list[Any]] = [list(column) for column in zip(*made, strict=True)] or [[], [], []]
    same = "stored.id = made.id AND stored.owner = made.owner" if dialect.partitioned else "stored.id = made.id"
    await connection.execute(
        f"UPDATE {dialect.table} AS stored SET {TERM_KEYS} = made.keys::integer[] "
        f"FROM unnest($1::text[], $2::text[], $3::text[]) AS made (id, owner, keys) WHERE {same}",
        *columns,
        timeout=UNHURRIED,
    )
