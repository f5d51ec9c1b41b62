"""The schema of the file: numbered migrations, each in a transaction with its number.

The first migration creates the tables, and adopts a table of the plain ten columns if there is one. The version is in a
table of our own rather than in ``PRAGMA user_version``: the file may belong to an application that counts its own
versions there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from memoranda.errors import CorruptStoreError, SchemaTooNewError, StoreError
from memoranda.items import utc_text
from memoranda_sqlite import journal
from memoranda_sqlite.tables import SEED_COLUMNS, TABLE, create_indexes, create_table, derive_columns, index_staying

_VERSION = "schema_version"
_WRAPPER = "wrapper"
_META = """
CREATE TABLE IF NOT EXISTS memoranda_meta (
    key TEXT PRIMARY KEY NOT NULL,
    value
) WITHOUT ROWID
"""


def stored_version(connection: sqlite3.Connection) -> int | None:
    """Return the schema version of the file, or None if it has none. Raises CorruptStoreError for an unreadable one."""
    if not _table_exists(connection, "memoranda_meta"):
        return None
    found = meta(connection, _VERSION)
    if found is not None and (not isinstance(found, int) or found < 1):
        raise CorruptStoreError(f"The file's schema version is {found!r}, which is not a version number.")
    return found


def check_version(connection: sqlite3.Connection, path: str) -> int:
    """Return the file's version, 0 for none. Raises SchemaTooNewError for a later one, StoreError if it is not ours."""
    found = stored_version(connection)
    if found is None:
        adoptable(connection, path)
        return 0
    if found > len(MIGRATIONS):
        raise SchemaTooNewError(f"The SQLite file {path!r}", found, len(MIGRATIONS))
    return found


def adoptable(connection: sqlite3.Connection, path: str) -> str | None:
    """Return the table of exactly the ten columns that is to be adopted, if there is one.

    Raises StoreError if there are several, or if our table's name is taken by a table of other columns.
    """
    tables = [
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        if not name.startswith("sqlite_")
    ]
    alike = [name for name in tables if sorted(_columns(connection, name)) == sorted(SEED_COLUMNS)]
    if TABLE in alike:
        return TABLE
    if TABLE in (name.lower() for name in tables):
        raise StoreError(
            f"The SQLite file {path!r} has a table {TABLE!r} with other columns than memoranda's. Nothing was touched; "
            f"use another file."
        )
    if len(alike) > 1:
        raise StoreError(
            f"The SQLite file {path!r} has several tables that could hold memories: {', '.join(alike)}. Nothing was "
            f"touched; rename the one to adopt to {TABLE!r}."
        )
    return alike[0] if alike else None


def prepare(connection: sqlite3.Connection, path: str) -> None:
    """Migrate the file to the version of this release; other programs may open it at the same time.

    A file that is up to date is only read. If the program is killed, the next one continues with the next migration.
    """
    while stored_version(connection) != len(MIGRATIONS):
        _migrate(connection, path)


def _migrate(connection: sqlite3.Connection, path: str) -> None:
    """Run the next migration with its number in one transaction, unless another program has done so meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = check_version(connection, path)
        if found < len(MIGRATIONS):
            MIGRATIONS[found](connection, path)
            set_meta(connection, _VERSION, found + 1)
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _create(connection: sqlite3.Connection, path: str) -> None:
    adopted = adoptable(connection, path)
    if adopted is None:
        create_table(connection)
    else:
        _adopt(connection, adopted)
    create_indexes(connection)
    journal.create(connection)
    connection.execute(_META)


def _index_staying(connection: sqlite3.Connection, path: str) -> None:
    index_staying(connection)


Migration = Callable[[sqlite3.Connection, str], None]
"""Changes the tables within a transaction, which it must not end: no ``executescript``. The path is for errors."""

MIGRATIONS: tuple[Migration, ...] = (_create, _index_staying)
"""Migration n leads from version n to n + 1; their number is the version that this release writes. A released one is
never changed: ``tests/data`` has a file of each version."""


def _adopt(connection: sqlite3.Connection, adopted: str) -> None:
    """Replace a table of the ten columns by ours, with its rows in their order and the triggers on it."""
    triggers = connection.execute(
        "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE", (adopted,)
    ).fetchall()
    new = f"{TABLE}_adopted"
    create_table(connection, new)
    _copy(connection, adopted, new)
    derive_columns(connection, new)
    connection.execute(f"DROP TABLE {_quoted(adopted)}")
    # Otherwise SQLite would check the views of other programs, which have no table at this moment.
    (usual,) = connection.execute("PRAGMA legacy_alter_table").fetchone()
    connection.execute("PRAGMA legacy_alter_table = ON")
    try:
        connection.execute(f"ALTER TABLE {new} RENAME TO {TABLE}")
    finally:
        connection.execute(f"PRAGMA legacy_alter_table = {usual}")
    if adopted == TABLE:
        for (text,) in triggers:
            connection.execute(text)


def _copy(connection: sqlite3.Connection, old: str, new: str) -> None:
    """Copy the ten columns of all rows in their order, with times in the form whose text order is time order."""
    connection.create_function("memoranda_utc", 1, _utc_or_same, deterministic=True)
    sequence = "created_at" if _without_rowid(connection, old) else "rowid"
    created = "ifnull(created_at, '')"
    updated = f"ifnull(updated_at, {created})"
    # A table that was made without constraints may hold NULLs and an id twice; the last one stands.
    connection.execute(
        f"INSERT OR REPLACE INTO {new} ({', '.join(SEED_COLUMNS)}) "
        f"SELECT id, ifnull(content, ''), ifnull(memory_type, 'item'), ifnull(status, 'accepted'), "
        f"ifnull(metadata, '{{}}'), ifnull(extra_json, '{{}}'), {_in_utc(created)}, "
        f"{_in_utc(updated)}, ifnull(deleted, 0) <> 0, "
        f"max(ifnull(version, 1), 1) FROM {_quoted(old)} WHERE id IS NOT NULL ORDER BY {sequence}"
    )


def _in_utc(time: str) -> str:
    """Return the expression of a time in UTC; text that is not Unicode cannot be passed to Python, and stays."""
    return f"CASE WHEN memoranda_is_text(CAST({time} AS BLOB)) THEN memoranda_utc({time}) ELSE {time} END"


def wrapper_mark(connection: sqlite3.Connection) -> str | None:
    """Return the note of a wrapper, such as encryption, or None."""
    found = meta(connection, _WRAPPER) if _table_exists(connection, "memoranda_meta") else None
    return None if found is None else str(found)


def set_wrapper_mark(connection: sqlite3.Connection, text: str | None) -> None:
    """Store a wrapper's note in the file, or remove it."""
    if text is None:
        connection.execute("DELETE FROM memoranda_meta WHERE key = ?", (_WRAPPER,))
    else:
        set_meta(connection, _WRAPPER, text)


def meta(connection: sqlite3.Connection, key: str) -> Any:
    """Return a value that is stored beside the schema version, or None."""
    row = connection.execute("SELECT value FROM memoranda_meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else row[0]


def set_meta(connection: sqlite3.Connection, key: str, value: Any) -> None:
    """Store a value beside the schema version."""
    connection.execute("INSERT OR REPLACE INTO memoranda_meta (key, value) VALUES (?, ?)", (key, value))


def _utc_or_same(text: Any) -> Any:
    """Return the time in UTC; an unreadable one stays as it is, and shows up as an unreadable row."""
    try:
        return utc_text(text) if isinstance(text, str) else text
    except ValueError:
        return text


def _columns(connection: sqlite3.Connection, table: str) -> Sequence[str]:
    # The pragma that lists generated columns too: our own table has more than ten.
    return [row[1] for row in connection.execute(f"PRAGMA table_xinfo({_quoted(table)})")]


def _table_exists(connection: sqlite3.Connection, table: str) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone()
    return found is not None


def _without_rowid(connection: sqlite3.Connection, table: str) -> bool:
    try:
        connection.execute(f"SELECT rowid FROM {_quoted(table)} LIMIT 0")
    except sqlite3.OperationalError:
        return True
    return False


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
