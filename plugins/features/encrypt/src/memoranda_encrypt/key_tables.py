"""The tables of a key ring, and how its file is made and looked at before it is used."""

from __future__ import annotations

import os
import secrets
import sqlite3
from pathlib import Path

FORMAT = "1"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS keys (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, master TEXT NOT NULL, wrapped BLOB,
    state TEXT NOT NULL, created_at TEXT NOT NULL, changed_at TEXT NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS one_active_key ON keys (owner) WHERE state = 'active';
CREATE INDEX IF NOT EXISTS keys_of_owner ON keys (owner);
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


def make_file(path: str) -> None:
    """Make the file of a new ring, whole or not at all: what has the name of a ring has its tables."""
    temporary = f"{path}.{secrets.token_hex(8)}.new"
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        connection = connected(temporary)
        try:
            make_tables(connection)
        finally:
            connection.close()
        try:
            os.link(temporary, path)
        except FileExistsError:
            return  # Another process was first.
        except OSError:  # There are no hard links here.
            Path(temporary).rename(path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def connected(path: str) -> sqlite3.Connection:
    """Return a connection to the file of a ring."""
    connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
    try:
        # What is destroyed is overwritten; a write-ahead log would keep it.
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA journal_mode = DELETE")
    except BaseException:
        connection.close()
        raise
    return connection


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of a new ring."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA.split(";"):
        connection.execute(statement)
    connection.execute("INSERT OR IGNORE INTO settings VALUES ('format', ?)", (FORMAT,))
    connection.execute("COMMIT")


def is_cut_off(connection: sqlite3.Connection, path: str) -> bool:
    """Return True if a file is shorter than it says. SQLite itself reads a last page that is cut off as zeros."""
    connection.execute("BEGIN")
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()  # No other process writes pages from here on.
        pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        return bool(Path(path).stat().st_size < pages * size)
    finally:
        connection.execute("ROLLBACK")
