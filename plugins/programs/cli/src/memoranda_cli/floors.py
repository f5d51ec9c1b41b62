"""The baselines of a benchmark, called floors: the same work by hand, without a framework."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Sequence
from pathlib import Path

from memoranda.items import MemoryItem
from memoranda.store import copy_item, dump_item


class PythonFloor:
    """A dict and a dict of lists, which hand out copies as a store must."""

    def __init__(self) -> None:
        self._items: dict[str, MemoryItem] = {}
        self._sessions: dict[str | None, list[MemoryItem]] = {}

    def add(self, item: MemoryItem) -> None:
        """Keep a copy in both."""
        kept = copy_item(item)
        self._items[item.id] = kept
        self._sessions.setdefault(item.metadata.session_id, []).append(kept)

    def add_many(self, items: Sequence[MemoryItem]) -> None:
        """Keep copies in both."""
        for item in items:
            self.add(item)

    def get(self, item_id: str) -> object:
        """Copy one item."""
        return copy_item(self._items[item_id])

    def last(self, session: str, limit: int) -> object:
        """Copy the end of a list."""
        return [copy_item(item) for item in self._sessions[session][: -limit - 1 : -1]]

    def containing(self, text: str, limit: int) -> object:
        """Look through all until there are enough."""
        found = []
        for item in reversed(self._items.values()):
            if text in item.content.casefold():
                found.append(copy_item(item))
                if len(found) == limit:
                    break
        return found

    def close(self) -> None:
        """Do nothing: the dicts go with the object."""


class SQLiteFloor:
    """The sqlite3 of Python with one indexed table, a write-ahead log, and a sync at each commit."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="memoranda-floor-")
        self._connection = sqlite3.connect(Path(self._folder.name) / "floor.db", isolation_level=None)
        self._connection.executescript(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
            "CREATE TABLE items (id TEXT PRIMARY KEY, session TEXT, created TEXT, content TEXT, data TEXT);"
            "CREATE INDEX by_session ON items (session, created);"
        )

    def add(self, item: MemoryItem) -> None:
        """Insert a row."""
        self._connection.execute(_INSERT, _row(item))

    def add_many(self, items: Sequence[MemoryItem]) -> None:
        """Insert rows in one transaction."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(_INSERT, map(_row, items))
        self._connection.execute("COMMIT")

    def get(self, item_id: str) -> object:
        """Select a row."""
        return self._connection.execute("SELECT data FROM items WHERE id = ?", (item_id,)).fetchone()

    def last(self, session: str, limit: int) -> object:
        """Select by the index."""
        query = "SELECT data FROM items WHERE session = ? ORDER BY created DESC, rowid DESC LIMIT ?"
        return self._connection.execute(query, (session, limit)).fetchall()

    def containing(self, text: str, limit: int) -> object:
        """Select with LIKE, newest first."""
        query = "SELECT data FROM items WHERE content LIKE ? ORDER BY created DESC, rowid DESC LIMIT ?"
        return self._connection.execute(query, (f"%{text}%", limit)).fetchall()

    def close(self) -> None:
        """Remove the file."""
        self._connection.close()
        self._folder.cleanup()


_INSERT = "INSERT INTO items VALUES (?, ?, ?, ?, ?)"


def _row(item: MemoryItem) -> tuple[str, str | None, str, str, str]:
    return item.id, item.metadata.session_id, item.created_at, item.content, json.dumps(dump_item(item))


Floor = PythonFloor | SQLiteFloor

FLOORS: dict[str, type[Floor]] = {"memory": PythonFloor, "sqlite": SQLiteFloor}
"""The floor of each URL scheme that has one here."""
