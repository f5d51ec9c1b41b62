"""The tables and their indexes.

* An item's row is written once, so an insert does little: the client supplies columns that the server would take long
  to compute, and the table repeats nothing that can be derived.
* Each way of reading has one index for live, hidden and archived items alike. The two flags are its last columns, so
  the server skips other rows without reading the table. ``expires_at`` is included, so that counting items and listing
  owners reads the index alone.
* Indexes hold the time as eight bytes instead of a text of thirty-two, and ``hidden`` as one byte instead of four.
  Values that most items lack are empty instead of NULL, which would cost eight bytes in every entry.
* The index of terms exists only in a database that needs one: see :mod:`memoranda_postgres.text_search`.
"""

from __future__ import annotations

from dataclasses import dataclass

from memoranda_postgres.dialect import EVERY_ITEM, MOMENT, STAYING_ITEMS, PostgresDialect
from memoranda_postgres.terms import FOLDED, TERM_KEYS

TRIGRAM_INDEX = "memory_items_substring"
TERMS_INDEX = "memory_terms_keys"

_NOTED = 100
"""How many items at most one row of those that wait for the index of terms names."""

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
        Index(
            "memory_items_staying",
            f"(session_id, added, user_id) WHERE session_id IS NOT NULL AND {STAYING_ITEMS}",
            "what every window of a conversation shows",
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
    ]


def trigram_index(trigram: str) -> Index:
    """Return the index for substring search; ``trigram`` is the quoted schema of the extension."""
    # Half of the server's time for an add goes into this index, however long the list of pending entries may get. Every
    # search reads that list, and its pages are never given back; a shorter one makes inserts slower still.
    return Index(
        TRIGRAM_INDEX,
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


def create_terms(dialect: PostgresDialect) -> list[str]:
    """Return the statements that create the index of terms and note that every item lacks its entry.

    They need a lock that keeps writes waiting.
    An entry names its item by the number in the order of adding, which no other item ever gets. Triggers note each item
    that is written from then on, and remove the entries of purged ones. The latter waits for a batch of the filler,
    which therefore never writes an entry for an item that is gone.
    """
    note, forget = f"{dialect.schema}.memory_terms_note", f"{dialect.schema}.memory_terms_forget"
    entry = f"item BIGINT PRIMARY KEY, item_version INTEGER NOT NULL, {TERM_KEYS} INTEGER[] NOT NULL"
    # Rows come and go, and every ranked search of a large scope reads them all.
    settings = "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500"
    triggers = [
        f"CREATE TRIGGER memory_terms_{event} AFTER {event} ON {dialect.table} REFERENCING {rows} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
        for event, rows, function in (
            ("INSERT", "NEW TABLE AS written", note),
            ("UPDATE", "NEW TABLE AS written", note),
            ("DELETE", "OLD TABLE AS gone", forget),
        )
    ]
    return [
        f"CREATE TABLE {dialect.terms} ({entry})",
        f"CREATE INDEX {TERMS_INDEX} ON {dialect.terms} USING gin ({TERM_KEYS}) WITH (gin_pending_list_limit = 512)",
        f"CREATE TABLE {dialect.unindexed} (items BIGINT[] NOT NULL) WITH ({settings})",
        f"""CREATE FUNCTION {note}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {_noting(dialect, "written")};
    RETURN NULL;
END $$""",
        f"""CREATE FUNCTION {forget}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared({dialect.filling_lock});
    DELETE FROM {dialect.terms} USING gone WHERE item = gone.added;
    RETURN NULL;
END $$""",
        f"""CREATE FUNCTION {dialect.fill_terms}(
    numbers BIGINT[], versions INTEGER[], made TEXT[], places TEXT[], notes TEXT[]
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock({dialect.filling_lock}) THEN
        RETURN false;
    END IF;
    -- A batch that a crash of the server undoes is filled again, so no commit waits for the disk.
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO {dialect.terms} (item, item_version, {TERM_KEYS})
        SELECT DISTINCT ON (given.number) given.number, given.made_of, given.keys::integer[]
        FROM unnest(numbers, versions, made) AS given (number, made_of, keys)
        JOIN {dialect.table} AS stored ON stored.added = given.number AND stored.version = given.made_of
        ON CONFLICT (item) DO UPDATE SET item_version = excluded.item_version, {TERM_KEYS} = excluded.{TERM_KEYS};
    DELETE FROM {dialect.unindexed} AS noted
        WHERE noted.ctid = ANY (places::tid[]) AND noted.ctid::text || ' ' || noted.xmin::text = ANY (notes);
    RETURN true;
END $$""",
        *triggers,
        _noting(dialect, dialect.table),
    ]


def _noting(dialect: PostgresDialect, written: str) -> str:
    """Return the statement that notes those of the written rows that have no entry, in batches."""
    entry = f"SELECT FROM {dialect.terms} WHERE item = added AND item_version = version"
    numbered = f"SELECT added, (row_number() OVER (ORDER BY added) - 1) / {_NOTED} AS batch FROM {written}"
    return (
        f"INSERT INTO {dialect.unindexed} (items) SELECT array_agg(added) "
        f"FROM ({numbered} WHERE NOT EXISTS ({entry})) AS lacking GROUP BY batch"
    )


def drop_terms(dialect: PostgresDialect) -> list[str]:
    """Return the statements that drop the index of terms as the second schema version had it in every database."""
    return [
        f"DROP TABLE IF EXISTS {dialect.terms}, {dialect.unindexed}",
        f"DROP FUNCTION IF EXISTS {dialect.schema}.memory_terms_forget CASCADE",
        f"DROP FUNCTION IF EXISTS {dialect.fill_terms}",
    ]
