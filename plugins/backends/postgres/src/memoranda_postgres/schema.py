"""Creating and migrating the tables: numbered migrations under an advisory lock."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import asyncpg

from memoranda.errors import InputError, SchemaTooNewError, StoreError
from memoranda_backend.ranking import terms_fingerprint
from memoranda_postgres.connections import Connection
from memoranda_postgres.dialect import PostgresDialect
from memoranda_postgres.server import UNHURRIED, Server
from memoranda_postgres.tables import (
    TRIGRAM_INDEX,
    Index,
    create_tables,
    create_terms,
    drop_terms,
    indexes,
    trigram_index,
)
from memoranda_postgres.terms import TERM_KEYS

logger = logging.getLogger(__name__)

_WAIT_FOR_WRITES = "2s"
"""How long creating the index of terms waits for writes under way, which keeps later ones waiting."""


def _terms_apart(dialect: PostgresDialect) -> list[str]:
    """Drop the terms from the rows of items; a table of their own has them where they are needed."""
    return [f"ALTER TABLE {dialect.table} DROP COLUMN {TERM_KEYS}"]


def _index_alone(dialect: PostgresDialect) -> list[str]:
    """Change nothing: an index was added."""
    return []


MIGRATIONS: tuple[Callable[[PostgresDialect], list[str]], ...] = (_terms_apart, drop_terms, _index_alone)
"""Migration n returns the statements that lead from schema version n + 1 to n + 2. Missing indexes are created after
the last one. A released migration never changes."""


def schema_version() -> int:
    """Return the schema version of this release."""
    return len(MIGRATIONS) + 1


@dataclass(frozen=True, slots=True)
class Layout:
    """The tables as they are: the schema, the number of partitions, if there are vectors and an index of trigrams."""

    schema: str
    partitions: int
    has_vectors: bool
    has_trigrams: bool


async def has_tables(connection: Connection, schema: str | None) -> bool:
    """Return True if the tables exist, of any version."""
    name = schema if schema is not None else await connection.fetchval("SELECT current_schema()")
    if name is None:
        return False
    return bool(await connection.fetchval("SELECT to_regclass($1::text) IS NOT NULL", PostgresDialect(name).meta))


async def wrapper_mark(connection: Connection, dialect: PostgresDialect) -> str | None:
    """Return the note of a wrapper, such as encryption, or None."""
    if not await connection.fetchval("SELECT to_regclass($1::text) IS NOT NULL", dialect.wrapper):
        return None
    found: str | None = await connection.fetchval(f"SELECT mark FROM {dialect.wrapper}")
    return found


async def set_wrapper_mark(server: Server, connection: Connection, dialect: PostgresDialect, text: str | None) -> None:
    """Store a wrapper's note in a table that only wrapped stores have, or remove it."""
    async with server.transaction(connection):
        await lock_schema(connection)
        await connection.execute(f"CREATE TABLE IF NOT EXISTS {dialect.wrapper} (mark TEXT NOT NULL)")
        await connection.execute(f"DELETE FROM {dialect.wrapper}")
        if text is not None:
            await connection.execute(f"INSERT INTO {dialect.wrapper} (mark) VALUES ($1)", text)


async def prepare(
    server: Server, schema: str | None, partitions: int | None, store: str, *, migrate: bool = True
) -> Layout:
    """Bring the tables to this release's schema and return their layout; without ``migrate``, raise if they are older.

    A database that is up to date is only read, so a replica or a user without the right to create will do. Any number
    of processes may do this at once. Raises SchemaTooNewError before anything is changed.
    """
    layout = await server.run(lambda connection: _present_layout(connection, schema, store))
    if layout is None and not migrate:
        raise StoreError(
            f"{store} has the tables of an earlier release. Open it once to write, which brings them up to date: "
            f"'memoranda doctor --repair' does."
        )
    if layout is None:
        layout = await server.run(lambda connection: _migrate(server, connection, schema, partitions or 0, store))
    if partitions is not None and partitions != layout.partitions:
        raise InputError(
            f"{store} has {layout.partitions} partitions and was opened with partitions={partitions}. The number is "
            f"fixed when the tables are created: leave the option out, or export into a new schema.",
            field="partitions",
        )
    return layout


async def _present_layout(connection: Connection, schema: str | None, store: str) -> Layout | None:
    """Return the layout of the tables, or None where a migration is needed."""
    name = schema if schema is not None else await connection.fetchval("SELECT current_schema()")
    if name is None:
        raise StoreError(f"{store}: no schema of the search path exists. Create one, or name it with schema=.")
    dialect = PostgresDialect(name)
    if not await has_tables(connection, name):
        return None
    version = await connection.fetchval(f"SELECT version FROM {dialect.meta}") or 0
    if version > schema_version():
        raise SchemaTooNewError(store, version, schema_version())
    if version < schema_version():
        return None
    partitions, has_vectors, has_trigrams = await connection.fetchrow(
        f"SELECT partitions, to_regclass($1::text) IS NOT NULL, to_regclass($2::text) IS NOT NULL FROM {dialect.meta}",
        dialect.vectors,
        f"{dialect.schema}.{TRIGRAM_INDEX}",
    )
    return Layout(name, partitions, has_vectors, has_trigrams)


async def _migrate(server: Server, connection: Connection, schema: str | None, partitions: int, store: str) -> Layout:
    async with server.transaction(connection):
        await lock_schema(connection)
        if schema is not None:
            await _create_schema(connection, schema)
        layout = await _present_layout(connection, schema, store)
        if layout is not None:
            return layout
        name = schema if schema is not None else await connection.fetchval("SELECT current_schema()")
        dialect = PostgresDialect(name)
        await connection.execute(
            f"CREATE TABLE IF NOT EXISTS {dialect.meta} (version INTEGER NOT NULL, partitions INTEGER NOT NULL, "
            f"terms TEXT NOT NULL, vector_model TEXT, vector_dimension INTEGER)"
        )
        row = await connection.fetchrow(f"SELECT version, partitions FROM {dialect.meta}")
        if row is None:
            statements = create_tables(dialect, partitions)
            await connection.execute(
                f"INSERT INTO {dialect.meta} (version, partitions, terms) VALUES ($1, $2, $3)",
                schema_version(),
                partitions,
                terms_fingerprint(),
            )
        else:
            dialect = PostgresDialect(name, partitioned=row["partitions"] > 0)
            pending = MIGRATIONS[row["version"] - 1 :]
            statements = [statement for migration in pending for statement in migration(dialect)]
        for statement in statements:
            await connection.execute(statement, timeout=UNHURRIED)
        await add_indexes(connection, dialect)
        await add_trigrams(connection, dialect)
        await connection.execute(f"UPDATE {dialect.meta} SET version = {schema_version()}")
        created = await _present_layout(connection, name, store)
        if created is None:
            raise StoreError(f"{store}: the schema was created and cannot be seen.")
        return created


async def _create_schema(connection: Connection, schema: str) -> None:
    # IF NOT EXISTS also requires the right to create, which a user of an existing schema may lack.
    if not await connection.fetchval("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema):
        await connection.execute(f"CREATE SCHEMA {PostgresDialect(schema).schema}")


async def lock_schema(connection: Connection) -> None:
    """Keep other processes from changing the schema until the end of the transaction.

    One lock serves all schemas of a database, since two of them would also collide on creating an extension.
    """
    await connection.execute(f"SELECT pg_advisory_xact_lock({zlib.crc32(b'memoranda schema')})")


async def extension_schema(connection: Connection, extension: str) -> str | None:
    """Return the quoted schema of an extension, or None where the extension is not created."""
    found: str | None = await connection.fetchval(
        "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace "
        "WHERE extname = $1",
        extension,
    )
    return found


async def create_extension(connection: Connection, extension: str) -> str | None:
    """Create an extension if the server has it and permits it; return its schema. Needs a transaction."""
    found = await extension_schema(connection, extension)
    if found is not None:
        return found
    available = await connection.fetchval(
        "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = $1)", extension
    )
    if not available:
        return None
    await connection.execute("SAVEPOINT extension")
    try:
        await connection.execute(f"CREATE EXTENSION {extension}")
    except asyncpg.PostgresError as error:
        await connection.execute("ROLLBACK TO SAVEPOINT extension")
        logger.info("The extension %s could not be created: %s.", extension, type(error).__name__)
    await connection.execute("RELEASE SAVEPOINT extension")
    return await extension_schema(connection, extension)


async def add_indexes(connection: Connection, dialect: PostgresDialect) -> None:
    """Create the indexes that are missing. Needs a transaction."""
    present = await present_indexes(connection, dialect)
    for index in indexes():
        if index.name not in present:
            await connection.execute(_create_index(dialect, index), timeout=UNHURRIED)


async def add_terms(server: Server, connection: Connection, dialect: PostgresDialect) -> None:
    """Create the index of terms, unless it exists. Writes wait meanwhile; if one takes long, this fails instead."""
    async with server.transaction(connection):
        await lock_schema(connection)
        await connection.execute(f"SET LOCAL lock_timeout = '{_WAIT_FOR_WRITES}'")
        # Only a lock on a table lets a connection notice what others have created since its transaction began.
        await connection.execute(f"LOCK TABLE {dialect.table} IN SHARE ROW EXCLUSIVE MODE")
        if not await connection.fetchval(f"SELECT {dialect.has_terms}"):
            for statement in create_terms(dialect):
                await connection.execute(statement, timeout=UNHURRIED)


async def add_trigrams(connection: Connection, dialect: PostgresDialect) -> None:
    """Create the index for substring search, where pg_trgm is available. Needs a transaction."""
    trigram = await create_extension(connection, "pg_trgm")
    if trigram is not None:
        await connection.execute(_create_index(dialect, trigram_index(trigram)), timeout=UNHURRIED)


def _create_index(dialect: PostgresDialect, index: Index) -> str:
    return f"CREATE INDEX IF NOT EXISTS {index.name} ON {dialect.table} {index.text}"


async def present_indexes(connection: Connection, dialect: PostgresDialect) -> set[str]:
    """Return the names of the valid indexes on the table of items."""
    rows: list[Any] = await connection.fetch(
        "SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
        "WHERE indrelid = to_regclass($1::text) AND indisvalid",
        dialect.table,
    )
    return {row["relname"] for row in rows}
