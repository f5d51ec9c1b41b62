"""The table since version 2: the ten columns, and beside them what searches look for, as columns that we write.

An index on a plain column costs an insert nothing but the entry. Version 1 had generated columns, which SQLite computed
from the JSON for every index of every row. Whoever writes the ten columns alone, as other programs may, still finds his
rows in their scopes: triggers read the JSON then.
"""

from __future__ import annotations

import sqlite3

from memoranda.items import SCOPE_FIELDS

TABLE = "memory_items"

SEED_COLUMNS = (
    "id",
    "content",
    "memory_type",
    "status",
    "metadata",
    "extra_json",
    "created_at",
    "updated_at",
    "deleted",
    "version",
)

SHOWN, ARCHIVED, DELETED = 0, 1, 2
"""The values of the column ``state``: what searches show, what a summary stands for, and what was deleted."""

FURTHER_COLUMNS = (*SCOPE_FIELDS, "namespace", "archived_by", "expires_at", "state")
"""What is written beside the ten: the ids of the scope, the key of the namespace (NULL is the root), two fields of the
item, and what ``deleted`` and ``archived_by`` come to, which leads every index after the scope."""

PARENT = "CASE WHEN json_valid(extra_json) THEN json_extract(extra_json, '$.parent') END"
"""The session that a branch was forked from: rows of this type alone have it, and an index of their own."""

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
    "by_time": "(state, created_at)",
    "by_user": "(user_id, state, created_at)",
    "by_session": "(session_id, state, created_at)",
    "by_added": "(session_id, state) WHERE session_id IS NOT NULL",
    "by_task": "(task_id, state, created_at) WHERE task_id IS NOT NULL",
    "by_agent": "(agent_id, state, created_at) WHERE agent_id IS NOT NULL",
    "by_namespace": "(namespace, state, created_at) WHERE namespace IS NOT NULL",
    "by_user_namespace": "(user_id, namespace, state, created_at) WHERE namespace IS NOT NULL",
    "by_expiry": "(expires_at) WHERE expires_at IS NOT NULL",
    "by_parent": f"({PARENT}) WHERE memory_type = 'branch'",
}


def _from_json(row: str) -> dict[str, str]:
    """Return the expressions of the further columns, from the JSON of a row.

    json_valid() guards them all: one unreadable row must not make whole statements fail.
    """
    metadata, further = f"{row}metadata", f"{row}extra_json"
    read = {
        field: f"CASE WHEN json_valid({metadata}) THEN json_extract({metadata}, '$.{field}') END"
        for field in SCOPE_FIELDS
    }
    read["namespace"] = (
        f"CASE WHEN json_valid({metadata}) THEN (SELECT group_concat(replace(replace(value, '~', '~0'), '/', '~1') "
        f"|| '/', '') FROM json_each({metadata}, '$.namespace')) END"
    )
    for field in ("archived_by", "expires_at"):
        read[field] = (
            f"CASE WHEN {further} <> '{{}}' AND json_valid({further}) THEN json_extract({further}, '$.{field}') END"
        )
    read["state"] = (
        f"CASE WHEN {row}deleted THEN {DELETED} WHEN {read['archived_by']} IS NOT NULL THEN {ARCHIVED} ELSE {SHOWN} END"
    )
    return read


def _triggers() -> dict[str, str]:
    read = _from_json("new.")
    assigned = ", ".join(f"{column} = {read[column]}" for column in FURTHER_COLUMNS)
    differs = " OR ".join(f"{column} IS NOT {read[column]}" for column in FURTHER_COLUMNS)
    write = f"UPDATE {TABLE} SET {assigned} WHERE rowid = new.rowid AND ({differs})"
    unset = " AND ".join(f"new.{column} IS NULL" for column in FURTHER_COLUMNS if column != "state")
    changed = (
        f"old.metadata IS NOT new.metadata OR old.extra_json IS NOT new.extra_json "
        f"OR (new.deleted <> 0) IS NOT (new.state = {DELETED})"
    )
    return {
        "inserted": f"AFTER INSERT ON {TABLE} WHEN {unset} BEGIN {write}; END",
        "updated": f"AFTER UPDATE OF metadata, extra_json, deleted ON {TABLE} WHEN {changed} BEGIN {write}; END",
    }


def write_columns(connection: sqlite3.Connection, path: str) -> None:
    """Lead from version 1 to 2: take the rows over, with their numbers, into a table with the columns as its own."""
    # What hangs on the table goes with it: the triggers of the text indexes, of vectors and of other programs.
    triggers = connection.execute(
        "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE", (TABLE,)
    ).fetchall()
    new = f"{TABLE}_of_version_2"
    connection.execute(_CREATE_TABLE.format(name=new))
    read = _from_json("")
    connection.execute(
        f"INSERT INTO {new} (rowid, {', '.join((*SEED_COLUMNS, *FURTHER_COLUMNS))}) "
        f"SELECT rowid, {', '.join((*SEED_COLUMNS, *(read[column] for column in FURTHER_COLUMNS)))} "
        f"FROM {TABLE} NOT INDEXED ORDER BY rowid"
    )
    connection.execute(f"DROP TABLE {TABLE}")
    _rename(connection, new)
    for name, columns in _INDEXES.items():
        connection.execute(f"CREATE INDEX {TABLE}_{name} ON {TABLE} {columns}")
    for name, action in _triggers().items():
        connection.execute(f"CREATE TRIGGER {TABLE}_{name} {action}")
    for (text,) in triggers:
        connection.execute(text)


def _rename(connection: sqlite3.Connection, new: str) -> None:
    """Give the new table its name; views of other programs, which have no table at this moment, are not looked at."""
    (usual,) = connection.execute("PRAGMA legacy_alter_table").fetchone()
    connection.execute("PRAGMA legacy_alter_table = ON")
    try:
        connection.execute(f"ALTER TABLE {new} RENAME TO {TABLE}")
    finally:
        connection.execute(f"PRAGMA legacy_alter_table = {usual}")
