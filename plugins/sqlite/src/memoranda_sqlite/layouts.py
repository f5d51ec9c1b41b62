"""A layout of the table of items, and how a file comes to have it: the rows are taken over into a new table."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

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

PARENT = "CASE WHEN json_valid(extra_json) THEN json_extract(extra_json, '$.parent') END"
"""The session that a branch was forked from. Nothing asks for it, but a layout stays as it is once files have it."""


@dataclass(frozen=True)
class Layout:
    """The table of one version: its text with ``{name}``, the columns beside the ten, its indexes and triggers.

    ``read`` has the expressions of the columns beside the ten, as they come out of these.
    """

    version: int
    table: str
    read: Mapping[str, str]
    indexes: Mapping[str, str]
    triggers: Mapping[str, str]

    def rebuild(self, connection: sqlite3.Connection) -> None:
        """Take the rows over, with their numbers, into a table of this layout, within the transaction."""
        # What hangs on the table goes with it: the triggers of the text indexes, of vectors and of other programs.
        triggers = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE", (TABLE,)
        ).fetchall()
        ours = {f"{TABLE}_{name}": action for name, action in self.triggers.items()}
        new = f"{TABLE}_of_version_{self.version}"
        connection.execute(self.table.format(name=new))
        connection.execute(
            f"INSERT INTO {new} (rowid, {', '.join((*SEED_COLUMNS, *self.read))}) "
            f"SELECT rowid, {', '.join((*SEED_COLUMNS, *self.read.values()))} FROM {TABLE} NOT INDEXED ORDER BY rowid"
        )
        connection.execute(f"DROP TABLE {TABLE}")
        _rename(connection, new)
        for name, columns in self.indexes.items():
            connection.execute(f"CREATE INDEX {TABLE}_{name} ON {TABLE} {columns}")
        for name, action in ours.items():
            connection.execute(f"CREATE TRIGGER {name} {action}")
        for name, text in triggers:
            if name not in ours:
                connection.execute(text)


def from_json(row: str) -> dict[str, str]:
    """Return the expressions of what searches look for, from the JSON of a row.

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


def writing(read: Mapping[str, str]) -> str:
    """Return the statement of a trigger that writes these columns of a row where they differ."""
    assigned = ", ".join(f"{column} = {value}" for column, value in read.items())
    differs = " OR ".join(f"{column} IS NOT {value}" for column, value in read.items())
    return f"UPDATE {TABLE} SET {assigned} WHERE rowid = new.rowid AND ({differs})"


def _rename(connection: sqlite3.Connection, new: str) -> None:
    """Give the new table its name; views of other programs, which have no table at this moment, are not looked at."""
    (usual,) = connection.execute("PRAGMA legacy_alter_table").fetchone()
    connection.execute("PRAGMA legacy_alter_table = ON")
    try:
        connection.execute(f"ALTER TABLE {new} RENAME TO {TABLE}")
    finally:
        connection.execute(f"PRAGMA legacy_alter_table = {usual}")
