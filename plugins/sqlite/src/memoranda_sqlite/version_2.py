"""The table of version 2: what searches look for, as columns that we write, in the order of the text of their times.

An index on a plain column costs an insert nothing but the entry. Version 1 had generated columns, which SQLite computed
from the JSON for every index of every row.
"""

from __future__ import annotations

import sqlite3

from memoranda_sqlite.layouts import DELETED, PARENT, TABLE, Layout, from_json, writing

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


def write_columns(connection: sqlite3.Connection, path: str) -> None:
    """Lead from version 1 to 2: take the rows over into a table with the columns as its own."""
    Layout(2, _CREATE_TABLE, from_json(""), _INDEXES, _triggers()).rebuild(connection)


def _triggers() -> dict[str, str]:
    read = from_json("new.")
    unset = " AND ".join(f"new.{column} IS NULL" for column in read if column != "state")
    changed = (
        f"old.metadata IS NOT new.metadata OR old.extra_json IS NOT new.extra_json "
        f"OR (new.deleted <> 0) IS NOT (new.state = {DELETED})"
    )
    write = writing(read)
    return {
        "inserted": f"AFTER INSERT ON {TABLE} WHEN {unset} BEGIN {write}; END",
        "updated": f"AFTER UPDATE OF metadata, extra_json, deleted ON {TABLE} WHEN {changed} BEGIN {write}; END",
    }
