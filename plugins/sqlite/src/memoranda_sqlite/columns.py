"""The table since version 3: the ten columns, and beside them what searches look for, as columns that we write.

The time of creation stands there once more, as a number, which takes a quarter of the room of its text in each index.
Whoever writes the ten columns alone, as other programs may, still finds his rows in their scopes and in their order:
triggers read the JSON and the time then.
"""

from __future__ import annotations

import sqlite3

from memoranda_sqlite.layouts import ARCHIVED, DELETED, PARENT, SEED_COLUMNS, SHOWN, TABLE, Layout, from_json, writing
from memoranda_sqlite.times import OLDEST

__all__ = ["ARCHIVED", "DELETED", "FURTHER_COLUMNS", "SEED_COLUMNS", "SHOWN", "TABLE", "write_times"]

_CREATE_TABLE = """
CREATE TABLE {name} (
    id TEXT PRIMARY KEY NOT NULL,
    content TEXT NOT NULL,
    memory_type TEXT NOT NULL,
    status TEXT NOT NULL,
    metadata TEXT NOT NULL,
    extra_json TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    deleted INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 1,
    created_us INTEGER,
    user_id TEXT,
    session_id TEXT,
    task_id TEXT,
    agent_id TEXT,
    namespace TEXT,
    archived_by TEXT,
    expires_at TEXT,
    state INTEGER NOT NULL DEFAULT 0
)
"""

# Whatever the scope, what is shown lies in the order of time behind it, and so does what is archived or deleted; of
# equal time in the order of the rows' numbers, which is the order of adding. by_added has nothing but these numbers.
_INDEXES = {
    "by_time": "(state, created_us)",
    "by_user": "(user_id, state, created_us)",
    "by_session": "(session_id, state, created_us)",
    "by_added": "(session_id, state) WHERE session_id IS NOT NULL",
    "by_task": "(task_id, state, created_us) WHERE task_id IS NOT NULL",
    "by_agent": "(agent_id, state, created_us) WHERE agent_id IS NOT NULL",
    "by_namespace": "(namespace, state, created_us) WHERE namespace IS NOT NULL",
    "by_user_namespace": "(user_id, namespace, state, created_us) WHERE namespace IS NOT NULL",
    "by_expiry": "(expires_at) WHERE expires_at IS NOT NULL",
    "by_parent": f"({PARENT}) WHERE memory_type = 'branch'",
}


def _microseconds(row: str) -> str:
    """Return the expression of the microseconds since 1970, from the text of a row's time, in any form of ISO-8601.

    SQLite's own dates have milliseconds, so that the fraction of the second is read apart from the rest. The pattern
    keeps it from texts that it takes for times and nobody else does, such as 'now'.
    """
    time = f"{row}created_at"
    whole = (
        f"CASE WHEN substr({time}, 20, 1) = '.' "
        f"THEN substr({time}, 1, 19) || ltrim(substr({time}, 21), '0123456789') ELSE {time} END"
    )
    fraction = (
        f"CASE WHEN substr({time}, 20, 1) = '.' "
        f"THEN CAST(round(CAST('0' || substr({time}, 20, 7) AS REAL) * 1000000) AS INTEGER) ELSE 0 END"
    )
    return (
        f"ifnull(CASE WHEN {time} GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' "
        f"THEN CAST(strftime('%s', {whole}) AS INTEGER) * 1000000 + {fraction} END, {OLDEST})"
    )


def _read(row: str) -> dict[str, str]:
    return {"created_us": _microseconds(row), **from_json(row)}


FURTHER_COLUMNS = tuple(_read(""))
"""What is written beside the ten: the time of creation in microseconds, the ids of the scope, the key of the namespace
(NULL is the root), two fields of the item, and what ``deleted`` and ``archived_by`` come to, which leads every index
after the scope."""


def _triggers() -> dict[str, str]:
    write = writing(_read("new."))
    changed = (
        f"old.metadata IS NOT new.metadata OR old.extra_json IS NOT new.extra_json "
        f"OR (new.deleted <> 0) IS NOT (new.state = {DELETED}) "
        f"OR (old.created_at IS NOT new.created_at AND old.created_us IS new.created_us)"
    )
    of = "metadata, extra_json, deleted, created_at"
    return {
        "inserted": f"AFTER INSERT ON {TABLE} WHEN new.created_us IS NULL BEGIN {write}; END",
        "updated": f"AFTER UPDATE OF {of} ON {TABLE} WHEN {changed} BEGIN {write}; END",
    }


def write_times(connection: sqlite3.Connection, path: str) -> None:
    """Lead from version 2 to 3: take the rows over into a table whose indexes have the times as numbers."""
    Layout(3, _CREATE_TABLE, _read(""), _INDEXES, _triggers()).rebuild(connection)
