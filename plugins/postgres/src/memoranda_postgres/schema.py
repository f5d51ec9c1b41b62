"""How the tables come to be: numbered migrations under an advisory lock."""

from __future__ import annotations

import logging
import zlib
from dataclasses import dataclass
from typing import Any

import asyncpg

from memoranda.errors import InputError, SchemaTooNewError, StoreError
from memoranda_postgres.connections import Connection
from memoranda_postgres.dialect import PostgresDialect
from memoranda_postgres.rekeying import make_keys
from memoranda_postgres.server import UNHURRIED, Server
from memoranda_postgres.tables import (
    KEYED_FROM,
    MIGRATIONS,
    SCHEMA_VERSION,
    Index,
    create_tables,
    indexes,
    trigram_index,
)
from memoranda_ranking import terms_fingerprint

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Layout:
    """What is there: the schema's name, how the table is divided, and the extensions with the schema each lives in."""

    schema: str
    partitions: int
    trigram: str | None
    vector: str | None
    has_vectors: bool
    terms: str
    """What made the stored terms; another release's terms are found less well until they are made anew."""


async def is_there(connection: Connection, schema: str | None) -> bool:
    """Whether the tables are there, of whichever release."""
    name = schema if schema is not None else await connection.fetchval("SELECT current_schema()")
    if name is None:
        return False
    return bool(await connection.fetchval("SELECT to_regclass($1::text) IS NOT NULL", PostgresDialect(name).meta))


async def prepare(
    server: Server, schema: str | None, partitions: int | None, store: str, *, migrate: bool = True
) -> Layout:
    """Bring the tables to the present schema and return what is there; without ``migrate``, raise if they are not.

    A database that is up to date is only read, so that a replica or a user without the right to create will do. Any
    number of processes may do this at once. Raises SchemaTooNewError before anything is touched.
    """
    layout = await server.run(lambda connection: _look(connection, schema, store))
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


async def _look(connection: Connection, schema: str | None, store: str) -> Layout | None:
    """Return what is there, or None where a migration is needed."""
    name = schema if schema is not None else await connection.fetchval("SELECT current_schema()")
    if name is None:
        raise StoreError(f"{store}: no schema of the search path exists. Create one, or name it with schema=.")
    dialect = PostgresDialect(name)
    there = await connection.fetchval("SELECT to_regclass($1::text) IS NOT NULL", dialect.meta)
    if not there:
        return None
    version = await connection.fetchval(f"SELECT version FROM {dialect.meta}") or 0
    if version > SCHEMA_VERSION:
        raise SchemaTooNewError(store, version, SCHEMA_VERSION)
    if version < SCHEMA_VERSION:
        return None
    row = await connection.fetchrow(f"SELECT partitions, terms FROM {dialect.meta}")
    return Layout(
        name,
        row["partitions"],
        await extension_schema(connection, "pg_trgm"),
        await extension_schema(connection, "vector"),
        await connection.fetchval("SELECT to_regclass($1::text) IS NOT NULL", dialect.vectors),
        row["terms"],
    )


async def _migrate(server: Server, connection: Connection, schema: str | None, partitions: int, store: str) -> Layout:
    async with server.transaction(connection):
        await lock(connection)
        if schema is not None:
            await _create_schema(connection, schema)
        layout = await _look(connection, schema, store)
        if layout is not None:
            return layout
        name = schema if schema is not None else await connection.fetchval("SELECT current_schema()")
        dialect = PostgresDialect(name, partitioned=partitions > 0)
        # Nothing looks at ``latest`` any more; earlier releases do.
        await connection.execute(
            f"CREATE TABLE IF NOT EXISTS {dialect.meta} (version INTEGER NOT NULL, partitions INTEGER NOT NULL, "
            f"terms TEXT NOT NULL, vector_model TEXT, vector_dimension INTEGER, latest TEXT NOT NULL DEFAULT '')"
        )
        version = await connection.fetchval(f"SELECT version FROM {dialect.meta}") or 0
        if version:
            there = await connection.fetchval(f"SELECT partitions FROM {dialect.meta}")
            dialect = PostgresDialect(name, partitioned=there > 0)
            statements = [statement for migration in MIGRATIONS[version - 1 :] for statement in migration(dialect)]
        else:
            statements = create_tables(dialect, partitions)
            await connection.execute(
                f"INSERT INTO {dialect.meta} (version, partitions, terms) VALUES ($1, $2, $3)",
                SCHEMA_VERSION,
                partitions,
                terms_fingerprint(),
            )
        for statement in statements:
            await connection.execute(statement, timeout=UNHURRIED)
        if 0 < version < KEYED_FROM:
            await make_keys(connection, dialect)
            await connection.execute(f"UPDATE {dialect.meta} SET terms = $1", terms_fingerprint())
        await add_indexes(connection, dialect)
        await add_trigrams(connection, dialect)
        await connection.execute(f"UPDATE {dialect.meta} SET version = {SCHEMA_VERSION}")
        made = await _look(connection, name, store)
        if made is None:
            raise StoreError(f"{store}: the schema was created and cannot be seen.")
        return made


async def _create_schema(connection: Connection, schema: str) -> None:
    # IF NOT EXISTS still demands the right to create, which a user of an existing schema may lack.
    if not await connection.fetchval("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema):
        await connection.execute(f"CREATE SCHEMA {PostgresDialect(schema).schema}")


async def lock(connection: Connection) -> None:
    """Keep other processes from changing the schema until the end of the transaction.

    There is one lock for all schemas of a database: two that create the same extension would collide as well.
    """
    await connection.execute(f"SELECT pg_advisory_xact_lock({zlib.crc32(b'memoranda schema')})")


async def extension_schema(connection: Connection, extension: str) -> str | None:
    """Return the quoted schema that an extension lives in, or None where it is not created."""
    found: str | None = await connection.fetchval(
        "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace "
        "WHERE extname = $1",
        extension,
    )
    return found


async def create_extension(connection: Connection, extension: str) -> str | None:
    """Create an extension if this server has it and lets us, and return its schema. Needs a transaction."""
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
    there = await present_indexes(connection, dialect)
    for index in indexes():
        if index.name not in there:
            await connection.execute(index_statement(dialect, index), timeout=UNHURRIED)


async def add_trigrams(connection: Connection, dialect: PostgresDialect) -> None:
    """Create the index for substring search, where pg_trgm is to be had. Needs a transaction."""
    trigram = await create_extension(connection, "pg_trgm")
    if trigram is not None:
        index = trigram_index(trigram)
        await connection.execute(index_statement(dialect, index), timeout=UNHURRIED)


def index_statement(dialect: PostgresDialect, index: Index) -> str:
    """Return the text that creates an index on a table that is in use."""
    return f"CREATE INDEX IF NOT EXISTS {index.name} ON {dialect.table} {index.text}"


async def present_indexes(connection: Connection, dialect: PostgresDialect) -> set[str]:
    """Return the names of the valid indexes on the table of items."""
    rows: list[Any] = await connection.fetch(
        "SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
        "WHERE indrelid = to_regclass($1::text) AND indisvalid",
        dialect.table,
    )
    return {row["relname"] for row in rows}
