"""The tables, their indexes, and how they come to be: numbered migrations under an advisory lock."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import asyncpg

from memoranda.errors import InputError, SchemaTooNewError, StoreError
from memoranda.ranking import terms_fingerprint
from memoranda_postgres.connections import Connection
from memoranda_postgres.dialect import PostgresDialect
from memoranda_postgres.server import UNHURRIED, Server
from memoranda_postgres.terms import TERMS_VECTOR, UNINDEXED

logger = logging.getLogger(__name__)

LIVE = "deleted = 0 AND NOT archived"
"""What almost every read asks for; the indexes for reading hold nothing else."""


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


@dataclass(frozen=True, slots=True)
class Index:
    """An index, what it is for, and the text behind ``ON table``."""

    name: str
    text: str
    serves: str


def indexes() -> list[Index]:
    """Return the indexes that every store has."""
    return [
        Index("memory_items_time", "(created_at, added)", "reading without a scope, and export"),
        Index(
            "memory_items_user",
            "(user_id, created_at, added) WHERE user_id IS NOT NULL",
            "removing and exporting a user",
        ),
        Index(
            "memory_items_user_live",
            f"(user_id, created_at, added) WHERE {LIVE} AND user_id IS NOT NULL",
            "reading a user",
        ),
        Index("memory_items_session", "(session_id) WHERE session_id IS NOT NULL", "removing and exporting a session"),
        Index(
            "memory_items_session_live",
            f"(session_id, created_at, added) WHERE {LIVE} AND session_id IS NOT NULL",
            "reading a session",
        ),
        Index(
            "memory_items_user_session_live",
            f"(user_id, session_id, created_at, added) WHERE {LIVE} AND user_id IS NOT NULL AND session_id IS NOT NULL",
            "reading a user's session",
        ),
        Index("memory_items_task", "(task_id, created_at, added) WHERE task_id IS NOT NULL", "reading a task"),
        Index("memory_items_agent", "(agent_id, created_at, added) WHERE agent_id IS NOT NULL", "reading an agent"),
        Index("memory_items_bin", "(created_at, added) WHERE deleted = 1", "emptying the bin"),
        Index("memory_items_terms", f"USING gin (({TERMS_VECTOR}))", 'search(mode="text")'),
        Index("memory_items_unindexed", f"(user_id) WHERE {UNINDEXED}", 'search(mode="text") in items of many words'),
    ]


def trigram_index(trigram: str) -> Index:
    """Return the index for substring search; ``trigram`` is the quoted schema of the extension."""
    return Index("memory_items_folded", f"USING gin (folded {trigram}.gin_trgm_ops)", "substring search")


def _create_items(dialect: PostgresDialect, partitions: int) -> list[str]:
    owner = 'owner TEXT COLLATE "C" NOT NULL,\n    PRIMARY KEY (owner, id)' if partitions else "PRIMARY KEY (id)"
    statements = [
        f"CREATE SEQUENCE {dialect.numbers}",
        f"""CREATE TABLE {dialect.table} (
    id TEXT COLLATE "C" NOT NULL,
    content TEXT NOT NULL,
    memory_type TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    metadata JSONB NOT NULL,
    extra_json TEXT NOT NULL,
    created_at TEXT COLLATE "C" NOT NULL,
    updated_at TEXT COLLATE "C" NOT NULL,
    deleted INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 1,
    user_id TEXT COLLATE "C",
    session_id TEXT COLLATE "C",
    task_id TEXT COLLATE "C",
    agent_id TEXT COLLATE "C",
    archived BOOLEAN NOT NULL DEFAULT false,
    exact_metadata TEXT,
    folded TEXT COLLATE "C" NOT NULL,
    terms TEXT COLLATE "C" NOT NULL,
    lexemes TEXT COLLATE "C",
    token BIGINT NOT NULL DEFAULT 0,
    added BIGINT NOT NULL DEFAULT nextval('{dialect.numbers_literal}'),
    {owner}
){" PARTITION BY HASH (owner)" if partitions else ""}""",
    ]
    statements += [
        f"CREATE TABLE {dialect.schema}.memory_items_{number} PARTITION OF {dialect.table} "
        f"FOR VALUES WITH (MODULUS {partitions}, REMAINDER {number})"
        for number in range(partitions)
    ]
    if partitions:
        statements.append(
            f'CREATE TABLE {dialect.ids} (id TEXT COLLATE "C" PRIMARY KEY, owner TEXT COLLATE "C" NOT NULL)'
        )
        statements.append(f"CREATE INDEX memory_ids_owner ON {dialect.ids} (owner)")
    statements += [f"CREATE INDEX {index.name} ON {dialect.table} {index.text}" for index in indexes()]
    return statements


MIGRATIONS: tuple[Callable[[PostgresDialect, int], list[str]], ...] = (_create_items,)
"""Migration n leads from schema version n to n + 1. A released one is never changed."""

SCHEMA_VERSION = len(MIGRATIONS)


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
    row = await connection.fetchrow(f"SELECT * FROM {dialect.meta}")
    version = 0 if row is None else row["version"]
    if version > SCHEMA_VERSION:
        raise SchemaTooNewError(store, version, SCHEMA_VERSION)
    if row is None or version < SCHEMA_VERSION:
        return None
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
        await connection.execute(
            f"CREATE TABLE IF NOT EXISTS {dialect.meta} (version INTEGER NOT NULL, partitions INTEGER NOT NULL, "
            f"terms TEXT NOT NULL, vector_model TEXT, vector_dimension INTEGER)"
        )
        version = await connection.fetchval(f"SELECT version FROM {dialect.meta}") or 0
        for migration in MIGRATIONS[version:]:
            for statement in migration(dialect, partitions):
                await connection.execute(statement)
        if not version:
            await connection.execute(
                f"INSERT INTO {dialect.meta} VALUES ($1, $2, $3)", SCHEMA_VERSION, partitions, terms_fingerprint()
            )
            await add_trigrams(connection, dialect)
        else:
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
