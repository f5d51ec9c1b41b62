"""The tables and their indexes, and what leads from an older schema to the present one.

An item's row is written once, so what an insert must do is kept small: a column that takes the server long to make is
given with the row, and nothing is kept twice that can be had from what is there. Each way of reading has one index,
which serves live, hidden and archived items alike: the two facts stand at its end, where rows that are not meant are
passed over without a look at the table, and the time of expiry beside them, so that items are counted and owners listed
from the index alone. Indexes hold the time as eight bytes, not as the text of thirty-two, and ``deleted`` as one, not
four; what most items have not is empty there and not NULL, for which every entry would take eight bytes more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memoranda_postgres.dialect import MOMENT, SAID, PostgresDialect
from memoranda_postgres.passages import divide_vectors
from memoranda_postgres.terms import FOLDED, TERM_KEYS, TERMS_VECTOR

_STATE = "hidden, archived) INCLUDE (expires_at)"
_IN_ORDER = f"{MOMENT}, added, {_STATE}"

# How the fourth schema made moments: of the parts of the only form in which times are stored. Whatever was written by
# hand in another comes first of all; a cast would depend on the server's settings, which the value of a column must
# not. Days are added to the first of their month, as the 30th of February, which only a hand writes, would otherwise
# make statements fail.
_MADE = (
    "make_timestamp(substr(created_at, 1, 4)::integer, substr(created_at, 6, 2)::integer, 1, "
    "substr(created_at, 12, 2)::integer, substr(created_at, 15, 2)::integer, "
    "substr(created_at, 18, 9)::double precision) + make_interval(days => substr(created_at, 9, 2)::integer - 1)"
)
_FORM = r"^(?!0000)\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}\+00:00$"
_MADE_MOMENT_COLUMN = (
    f"{MOMENT} TIMESTAMP NOT NULL GENERATED ALWAYS AS (CASE WHEN created_at ~ '{_FORM}' THEN CASE WHEN "
    f"date_part('month', {_MADE}) = substr(created_at, 6, 2)::integer THEN {_MADE} ELSE '-infinity' END "
    f"ELSE '-infinity' END) STORED"
)

_HIDDEN_COLUMN = "hidden BOOLEAN NOT NULL GENERATED ALWAYS AS (deleted <> 0) STORED"

_WORDS = ("terms", "substring")


@dataclass(frozen=True, slots=True)
class Index:
    """An index, what it is for, and the text behind ``ON table``."""

    name: str
    text: str
    serves: str


def indexes() -> list[Index]:
    """Return the indexes that every store has."""
    return [
        Index("memory_items_time", f"({MOMENT}, added)", "reading without a scope, and export"),
        Index("memory_items_order", "(added)", "everything in the order of adding"),
        # Where both are named, either of the two has both. The server takes the session's, which few users share,
        # unless its statistics say that they do.
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
            f"(session_id, added, user_id) WHERE session_id IS NOT NULL AND {SAID}",
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
        # What waits to be sorted in is read by every search, and the pages that it took are never given back. The less
        # may wait, the longer it takes to sort it in: a text has five times as many trigrams as words.
        Index(
            "memory_items_terms",
            f"USING gin ({TERMS_VECTOR}) WITH (gin_pending_list_limit = 512)",
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
    """Return the statements that make the tables, without their indexes."""
    owner = 'owner TEXT COLLATE "C" NOT NULL,\n    PRIMARY KEY (owner, id)' if partitions else "PRIMARY KEY (id)"
    statements = [
        f"CREATE SEQUENCE {dialect.numbers}",
        # What has a fixed width comes first, so that nothing is filled up between columns.
        f"""CREATE TABLE {dialect.table} (
    added BIGINT NOT NULL DEFAULT nextval('{dialect.numbers_literal}'),
    token BIGINT NOT NULL DEFAULT 0,
    {MOMENT} TIMESTAMP NOT NULL,
    deleted INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 1,
    archived BOOLEAN NOT NULL DEFAULT false,
    {_HIDDEN_COLUMN},
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


def _keep_moments(dialect: PostgresDialect) -> list[str]:
    """Return what brings the third schema to the fourth: moments in the indexes, and no time twice in a row.

    ``updated_at`` stands where it is not ``created_at``. The table is written anew once, without the indexes that are
    replaced; they are made after it.
    """
    scoped = ("user", "session", "user_session", "task", "agent", "namespace")
    replaced = ("time", "said", "bin", *(f"by_{name}" for name in scoped))
    once = (
        "ALTER COLUMN updated_at DROP NOT NULL, "
        'ALTER COLUMN updated_at TYPE TEXT COLLATE "C" USING nullif(updated_at, created_at)'
    )
    return [
        *(f"DROP INDEX IF EXISTS {dialect.schema}.memory_items_{name}" for name in (*replaced, *_WORDS)),
        f"ALTER TABLE {dialect.table} ADD COLUMN {_MADE_MOMENT_COLUMN}, ADD COLUMN {_HIDDEN_COLUMN}, {once}",
    ]


def _give_moments(dialect: PostgresDialect) -> list[str]:
    """Return what brings the fifth schema to the sixth: moments are given with the row, which saves half of an insert.

    No row is written anew.
    """
    return [f"ALTER TABLE {dialect.table} ALTER COLUMN {MOMENT} DROP EXPRESSION IF EXISTS"]


def _shorten_entries(dialect: PostgresDialect) -> list[str]:
    """Return what brings the sixth schema to the seventh: the end of what does not expire is empty, and not NULL.

    The table is written anew once, without the indexes that are replaced; they are made after it.
    """
    replaced = ("expiry", *(f"by_{name}" for name in ("user", "session", "task", "agent", "namespace")))
    ends = "ALTER COLUMN expires_at"
    changes = (
        f"{ends} TYPE TEXT COLLATE \"C\" USING coalesce(expires_at, '')",
        f"{ends} SET DEFAULT ''",
        f"{ends} SET NOT NULL",
    )
    return [
        *(f"DROP INDEX IF EXISTS {dialect.schema}.memory_items_{name}" for name in (*replaced, *_WORDS)),
        f"ALTER TABLE {dialect.table} {', '.join(changes)}",
    ]


MIGRATIONS: tuple[Callable[[PostgresDialect], list[str]], ...] = (
    _grow,
    _keep_text_once,
    _keep_moments,
    divide_vectors,
    _give_moments,
    _shorten_entries,
)
"""Migration n leads from schema version n + 1 to n + 2; indexes that are missing are made after the last. A released
one is never changed."""

SCHEMA_VERSION = len(MIGRATIONS) + 1

KEYED_FROM = 3
"""The first schema whose rows have keys for their terms."""
