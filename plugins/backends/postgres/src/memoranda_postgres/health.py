"""The checks of ``memoranda doctor`` on a PostgreSQL store."""

from __future__ import annotations

from typing import Any

from memoranda.items import SCOPE_FIELDS
from memoranda.store import Finding
from memoranda_backend.ranking import WHITESPACE, terms_fingerprint
from memoranda_backend.sql.candidates import WHOLE_SCOPE
from memoranda_postgres.connections import Connection
from memoranda_postgres.dialect import MOMENT, PostgresStatements
from memoranda_postgres.pooler import pooler_finding
from memoranda_postgres.retrieval import named_model
from memoranda_postgres.schema import (
    add_indexes,
    add_trigrams,
    create_extension,
    extension_schema,
    lock_schema,
    present_indexes,
    schema_version,
)
from memoranda_postgres.server import Server
from memoranda_postgres.tables import indexes, trigram_index
from memoranda_postgres.text_search import TermIndex
from memoranda_postgres.vectors import Vectors


async def examine(
    server: Server,
    statements: PostgresStatements,
    embeddings: Any,
    vectors: Vectors | None,
    index: TermIndex,
    *,
    repair: bool,
) -> list[Finding]:
    """Return the findings; with ``repair``, first create missing extensions and indexes."""
    if repair:
        await server.run(lambda connection: _repair(server, statements, connection))
    backlog = await index.backlog() if await index.exists() else None
    return await server.run(lambda connection: _findings(statements, embeddings, vectors, connection, server, backlog))


async def _repair(server: Server, statements: PostgresStatements, connection: Connection) -> None:
    async with server.transaction(connection):
        await lock_schema(connection)
        await add_trigrams(connection, statements.dialect)
        await create_extension(connection, "vector")
        await add_indexes(connection, statements.dialect)


async def _findings(
    statements: PostgresStatements,
    embeddings: Any,
    vectors: Vectors | None,
    connection: Connection,
    server: Server,
    backlog: int | None,
) -> list[Finding]:
    dialect = statements.dialect
    meta = await connection.fetchrow(f"SELECT * FROM {dialect.meta}")
    present = await present_indexes(connection, dialect)
    return [
        await _server_finding(connection, server),
        pooler_finding(await server.look_for_pooler(connection), server.statement_cache_size),
        Finding("schema", True, f"version {schema_version()}, {_layout(meta['partitions'])}"),
        *(_index_finding(index.name, index.serves, present) for index in indexes()),
        await _trigram_finding(connection, present),
        _terms_finding(meta["terms"], backlog),
        await _vector_finding(statements, embeddings, vectors, connection, meta),
        await _rows_finding(connection, dialect.table),
    ]


async def _server_finding(connection: Connection, server: Server) -> Finding:
    version = await connection.fetchval("SHOW server_version")
    read_only = await connection.fetchval("SHOW transaction_read_only") == "on"
    detail = f"{server.where}, release {version}" + (", read-only" if read_only else "")
    return Finding(
        "server", not read_only, detail, "Writes fail here; connect to the primary for them." if read_only else ""
    )


def _layout(partitions: int) -> str:
    return f"{partitions} partitions by user" if partitions else "one table"


def _index_finding(name: str, serves: str, present: set[str]) -> Finding:
    if name in present:
        return Finding(f"index {name}", True, f"serves {serves}")
    return Finding(
        f"index {name}",
        False,
        f"missing or invalid; without it, {serves} reads the whole table",
        "Run 'memoranda doctor --repair'.",
    )


async def _trigram_finding(connection: Connection, present: set[str]) -> Finding:
    schema = await extension_schema(connection, "pg_trgm")
    if schema is not None and trigram_index(schema).name in present:
        return Finding("pg_trgm", True, "substring search goes through a trigram index")
    lost = "substring search is right, but reads every item of its scope"
    available = await connection.fetchval("SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pg_trgm')")
    if schema is not None or available:
        return Finding("pg_trgm", False, f"its index is missing; {lost}", "Run 'memoranda doctor --repair'.")
    # A server without it is not at fault.
    return Finding("pg_trgm", True, f"not on this server (PostgreSQL's contrib package brings it); {lost}")


def _terms_finding(made_by: str, backlog: int | None) -> Finding:
    """Return what is to say about the index of terms; ``backlog`` is how many items it lacks, None without an index."""
    if backlog is None:
        return Finding("terms", True, f"no index; it is created for a database of more than {WHOLE_SCOPE:,} items")
    if made_by == terms_fingerprint():
        waiting = f"{backlog:,} items wait for the index, and ranked searches read them one by one"
        return Finding("terms", True, f"made by this release; {waiting}" if backlog else "made by this release")
    return Finding(
        "terms", False, "made by another release; search(mode='text') may miss words", "Run 'memoranda reindex'."
    )


async def _vector_finding(
    statements: PostgresStatements, embeddings: Any, vectors: Vectors | None, connection: Connection, meta: Any
) -> Finding:
    if await extension_schema(connection, "vector") is None:
        available = await connection.fetchval(
            "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')"
        )
        if available:
            detail = "on this server, not in use; the first write with an embedder turns on semantic and hybrid search"
            remedy = "Run 'memoranda reindex' with the same embedder, as a user who may run CREATE EXTENSION vector."
        else:
            detail = "not on this server; there is no semantic or hybrid search"
            remedy = "Install pgvector and have an administrator run CREATE EXTENSION vector."
        return Finding("pgvector", embeddings is None, detail, remedy if embeddings is not None else "")
    if meta["vector_model"] is None:
        return Finding("pgvector", True, "installed; no vectors are stored, since no embedder was ever given")
    model = named_model(meta["vector_model"], meta["vector_dimension"])
    if vectors is not None and (meta["vector_model"], meta["vector_dimension"]) != (vectors.model, vectors.dimension):
        return Finding(
            "pgvector",
            False,
            f"holds vectors of {model}, and the store was opened with {named_model(vectors.model, vectors.dimension)}",
            "Open it with the model of the vectors, or run 'memoranda reindex'.",
        )
    missing = await connection.fetchval(
        f"SELECT count(*) FROM {statements.dialect.table} LEFT JOIN {statements.dialect.vectors} "
        f"ON item_id = id AND item_version = version WHERE deleted = 0 AND item_id IS NULL "
        f"AND btrim(content, $1) <> ''",
        WHITESPACE,
    )
    if missing:
        detail = f"vectors of {model}; {missing} items have none and are not found by meaning"
        return Finding("pgvector", False, detail, "Run 'memoranda reindex' with the same embedder.")
    return Finding("pgvector", True, f"vectors of {model} for every item that has text")


async def _rows_finding(connection: Connection, table: str) -> Finding:
    """Count the rows whose columns contradict their JSON, as after a change by hand."""
    ids = " OR ".join(f"{name} IS DISTINCT FROM metadata ->> '{name}'" for name in SCOPE_FIELDS)
    wrong = await connection.fetchval(
        f"SELECT count(*) FROM {table} WHERE (metadata <> '{{}}' AND ({ids})) OR exact_metadata::jsonb <> metadata "
        f"OR (namespace = '') IS DISTINCT FROM (metadata -> 'namespace' IS NULL) "
        f"OR {MOMENT} > '-infinity' AND to_char({MOMENT}, $1) <> created_at",
        'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"',
    )
    if not wrong:
        return Finding("rows", True, "the columns of every item agree with each other")
    return Finding(
        "rows",
        False,
        f"{wrong} items were changed by hand: their columns contradict their metadata or their times",
        "Set the columns of the ids and of the namespace to what metadata says, exact_metadata to NULL, and moment to "
        "created_at::timestamp.",
    )
