"""The tables and their indexes.

* An item's row is written once, so an insert does little: the client supplies columns that the server would take long
  to compute, and the table repeats nothing that can be derived.
* Each way of reading has one index for live, hidden and archived items alike. The two flags are its last columns, so
  the server skips other rows without reading the table. ``expires_at`` is included, so that counting items and listing
  owners reads the index alone.
* Indexes hold the time as eight bytes instead of a text of thirty-two, and ``hidden`` as one byte instead of four.
  Values that most items lack are empty instead of NULL, which would cost eight bytes in every entry.
"""

from __future__ import annotations

from dataclasses import dataclass

from memoranda_postgres.dialect import EVERY_ITEM, MOMENT, PostgresDialect
from memoranda_postgres.terms import FOLDED, TERM_KEYS

_STATE = "hidden, archived) INCLUDE (expires_at)"
_IN_ORDER = f"{MOMENT}, added, {_STATE}"


@dataclass(frozen=True, slots=True)
class Index:
    """An index: its definition after ``ON table``, and what it serves."""

    name: str
    text: str
    serves: str


def indexes() -> list[Index]:
    """Return the indexes that every store has."""
    return [
        Index("memory_items_time", f"({MOMENT}, added)", "reading without a scope, and export"),
        Index("memory_items_order", "(added)", "everything in the order of adding"),
        # Each of the next two holds user and session. For a filter on both the server takes the session's index, unless
        # its statistics say that many users share sessions.
        Index(
            "memory_items_by_user",
            f"(user_id, {MOMENT}, added, session_id, {_STATE} WHERE user_id IS NOT NULL",
            "reading, listing and removing users, and listing their sessions",
        ),
        Index(
            "memory_items_by_session",
            f"(session_id, {MOMENT}, added, user_id, {_STATE} WHERE session_id IS NOT NULL",
            "reading, listing and removing sessions, of one user as well",
        ),
        Index(
            "memory_items_said",
            f"(session_id, added, user_id) WHERE session_id IS NOT NULL AND {EVERY_ITEM}",
            "a conversation in the order in which it was said",
        ),
        Index("memory_items_by_task", f"(task_id, {_IN_ORDER} WHERE task_id IS NOT NULL", "reading a task"),
        Index("memory_items_by_agent", f"(agent_id, {_IN_ORDER} WHERE agent_id IS NOT NULL", "reading an agent"),
        Index(
            "memory_items_by_namespace",
            f"(namespace, {_IN_ORDER} WHERE namespace > ''",
            "reading and listing namespaces",
        ),
        Index("memory_items_expiry", "(expires_at) WHERE expires_at > ''", "removing what has expired"),
        Index("memory_items_bin", f"({MOMENT}, added) WHERE hidden", "emptying the bin"),
        # Every search reads the pending list, and its pages are never given back. A shorter list makes inserts slower;
        # a text has five times as many trigrams as words.
        Index(
            "memory_items_terms",
            f"USING gin ({TERM_KEYS}) WITH (gin_pending_list_limit = 512)",
            'search(mode="text")',
        ),
    ]


def trigram_index(trigram: str) -> Index:
    """Return the index for substring search; ``trigram`` is the quoted schema of the extension."""
    return Index(
        "memory_items_substring",
        f"USING gin (({FOLDED}) {trigram}.gin_trgm_ops) WITH (gin_pending_list_limit = 1024)",
        "substring search",
    )


def create_tables(dialect: PostgresDialect, partitions: int) -> list[str]:
    """Return the statements that create the tables, without their indexes."""
    owner = 'owner TEXT COLLATE "C" NOT NULL,\n    PRIMARY KEY (owner, id)' if partitions else "PRIMARY KEY (id)"
    statements = [
        f"CREATE SEQUENCE {dialect.numbers}",
        # Columns of fixed width come first, which saves padding.
        f"""CREATE TABLE {dialect.table} (
    added BIGINT NOT NULL DEFAULT nextval('{dialect.numbers_literal}'),
    token BIGINT NOT NULL DEFAULT 0,
    {MOMENT} TIMESTAMP NOT NULL,
    deleted INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 1,
    archived BOOLEAN NOT NULL DEFAULT false,
    hidden BOOLEAN NOT NULL GENERATED ALWAYS AS (deleted <> 0) STORED,
    id TEXT COLLATE "C" NOT NULL,
    content TEXT NOT NULL,
    memory_type TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    metadata JSONB NOT NULL,
    extra_json TEXT NOT NULL,
    created_at TEXT COLLATE "C" NOT NULL,
    updated_at TEXT COLLATE "C",
    user_id TEXT COLLATE "C",
    session_id TEXT COLLATE "C",
    task_id TEXT COLLATE "C",
    agent_id TEXT COLLATE "C",
    exact_metadata TEXT,
    folded TEXT COLLATE "C",
    {TERM_KEYS} INTEGER[] NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL DEFAULT '',
    expires_at TEXT COLLATE "C" NOT NULL DEFAULT '',
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
