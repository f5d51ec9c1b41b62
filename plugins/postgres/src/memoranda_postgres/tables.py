"""The tables and their indexes, and what leads from an older schema to the present one.

An item's row is written once, so what an insert must do is kept small. Each way of reading has one index, which serves
live, hidden and archived items alike: the two facts stand at its end, where rows that are not meant are passed over
without a look at the table, and the time of expiry beside them, so that owners are listed from the index alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memoranda_postgres.dialect import PARENT, PostgresDialect
from memoranda_postgres.passages import divide_vectors
from memoranda_postgres.terms import FOLDED, TERM_KEYS, TERMS_VECTOR

_COVERING = "created_at, added, deleted, archived) INCLUDE (expires_at)"


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
        Index("memory_items_order", "(added)", "everything in the order of adding"),
        Index(
            "memory_items_by_user",
            f"(user_id, {_COVERING} WHERE user_id IS NOT NULL",
            "reading, listing and removing users",
        ),
        Index(
            "memory_items_by_session",
            f"(session_id, {_COVERING} WHERE session_id IS NOT NULL",
            "reading, listing and removing sessions",
        ),
        Index(
            "memory_items_by_user_session",
            f"(user_id, session_id, {_COVERING} WHERE user_id IS NOT NULL AND session_id IS NOT NULL",
            "reading and listing a user's sessions",
        ),
        Index(
            "memory_items_said",
            "(session_id, added, user_id) WHERE session_id IS NOT NULL",
            "a conversation in the order in which it was said",
        ),
        Index("memory_items_by_task", f"(task_id, {_COVERING} WHERE task_id IS NOT NULL", "reading a task"),
        Index("memory_items_by_agent", f"(agent_id, {_COVERING} WHERE agent_id IS NOT NULL", "reading an agent"),
        Index(
            "memory_items_by_namespace",
            f"(namespace, {_COVERING} WHERE namespace > ''",
            "reading and listing namespaces",
        ),
        Index("memory_items_expiry", "(expires_at) WHERE expires_at IS NOT NULL", "removing what has expired"),
        Index("memory_items_by_parent", f"({PARENT}) WHERE memory_type = 'branch'", "branches of a session"),
        Index("memory_items_bin", "(created_at, added) WHERE deleted = 1", "emptying the bin"),
        Index("memory_items_terms", f"USING gin ({TERMS_VECTOR})", 'search(mode="text")'),
    ]


def trigram_index(trigram: str) -> Index:
    """Return the index for substring search; ``trigram`` is the quoted schema of the extension."""
    return Index("memory_items_substring", f"USING gin (({FOLDED}) {trigram}.gin_trgm_ops)", "substring search")


def create_tables(dialect: PostgresDialect, partitions: int) -> list[str]:
    """Return the statements that make the tables, without their indexes."""
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
    folded TEXT COLLATE "C",
    {TERM_KEYS} INTEGER[] NOT NULL,
    token BIGINT NOT NULL DEFAULT 0,
    added BIGINT NOT NULL DEFAULT nextval('{dialect.numbers_literal}'),
    namespace TEXT COLLATE "C" NOT NULL DEFAULT '',
    expires_at TEXT COLLATE "C",
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
    return statements


def _grow(dialect: PostgresDialect) -> list[str]:
    """Return what brings the first schema to the second: places, lifetimes, and fewer indexes that do more.

    No row is written anew. The folded text of old rows stays where it is.
    """
    replaced = ("user", "user_live", "session", "session_live", "user_session_live", "task", "agent", "folded")
    return [
        f"ALTER TABLE {dialect.table} ADD COLUMN namespace TEXT COLLATE \"C\" NOT NULL DEFAULT ''",
        f'ALTER TABLE {dialect.table} ADD COLUMN expires_at TEXT COLLATE "C"',
        f"ALTER TABLE {dialect.table} ALTER COLUMN folded DROP NOT NULL",
        f"ALTER TABLE {dialect.meta} ADD COLUMN latest TEXT NOT NULL DEFAULT ''",
        *(f"DROP INDEX IF EXISTS {dialect.schema}.memory_items_{name}" for name in replaced),
    ]


def _keep_text_once(dialect: PostgresDialect) -> list[str]:
    """Return what brings the second schema to the third: numbers in the place of the terms.

    The numbers themselves are made from the contents by :func:`memoranda_postgres.rekeying.make_keys`.
    """
    return [
        *(f"DROP INDEX IF EXISTS {dialect.schema}.memory_items_{name}" for name in ("terms", "unindexed")),
        f"ALTER TABLE {dialect.table} ADD COLUMN {TERM_KEYS} INTEGER[] NOT NULL DEFAULT '{{}}'",
        f"ALTER TABLE {dialect.table} ALTER COLUMN {TERM_KEYS} DROP DEFAULT",
        f"ALTER TABLE {dialect.table} DROP COLUMN terms, DROP COLUMN lexemes",
    ]


MIGRATIONS: tuple[Callable[[PostgresDialect], list[str]], ...] = (_grow, _keep_text_once, divide_vectors)
"""Migration n leads from schema version n + 1 to n + 2; indexes that are missing are made after the last. A released
one is never changed."""

SCHEMA_VERSION = len(MIGRATIONS) + 1

KEYED_FROM = 3
"""The first schema whose rows have keys for their terms."""
