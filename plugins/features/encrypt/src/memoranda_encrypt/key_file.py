"""The file of a key ring: its tables, wrapped keys, and a row for each that was destroyed.

It is a small SQLite file, so that several processes can use it and a killed one leaves it whole. It holds no key that
can be used without the master key, and no user's name.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from memoranda.items import now_text
from memoranda_encrypt.masters import KeyRingError

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
    """Make the file of a new ring, complete or not at all."""
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
    """Return True if a file is shorter than its header says. SQLite would read the missing end as zeros."""
    connection.execute("BEGIN")
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()  # No other process writes pages from here on.
        pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        return bool(Path(path).stat().st_size < pages * size)
    finally:
        connection.execute("ROLLBACK")


State = Literal["active", "retired", "destroyed"]

_BINARY: int = getattr(os, "O_BINARY", 0)  # Windows has files of text.
_CHANGE_COUNTER = 24
"""Where the header of an SQLite file counts its transactions."""

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_COLUMNS = "id, owner, master, wrapped, state, created_at, changed_at"


class KeyRow(NamedTuple):
    """A key as the file has it; ``wrapped`` is None once it is destroyed."""

    id: str
    owner: str
    master: str
    wrapped: bytes | None
    state: State
    created_at: str
    changed_at: str


class _Descriptors:
    """Descriptors to read files with beside SQLite.

    Closing any descriptor of a file ends all locks of the process on it, those of other rings on this file too. So they
    are closed together, when the last ring of the file is.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._in_use: Counter[tuple[int, int]] = Counter()
        self._left: dict[tuple[int, int], list[int]] = {}

    def open(self, path: str) -> int:
        with self._guard:
            descriptor = os.open(path, os.O_RDONLY | _BINARY)
            self._in_use[_file_of(descriptor)] += 1
            return descriptor

    def close(self, descriptor: int) -> None:
        with self._guard:
            file = _file_of(descriptor)
            self._left.setdefault(file, []).append(descriptor)
            self._in_use[file] -= 1
            if not self._in_use[file]:
                del self._in_use[file]
                for each in self._left.pop(file):
                    os.close(each)


def _file_of(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


_descriptors = _Descriptors()


class KeyFile:
    """The rows of a file; ``:memory:`` is a ring that ends with the process. Any thread may call."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._connection: sqlite3.Connection | None = None
        self._descriptor: int | None = None
        self._process = 0
        self._lock = threading.RLock()
        self.before = b""
        """The state before the last transaction of this process."""

    @property
    def exists(self) -> bool:
        """True if there is such a file, or it is open."""
        return self._connection is not None or (self.path != ":memory:" and Path(self.path).exists())

    def open(self) -> None:
        """Open the file, making it if it is not there, readable by its owner only.

        Raises KeyRingError for a file that is empty, cut off or no key ring: it is never taken for a new one.
        """
        with self._lock:
            if self._connection is None:
                with self._translated():
                    self._connect()

    def _connect(self) -> None:
        in_memory = self.path == ":memory:"
        if not in_memory and not Path(self.path).exists():
            make_file(self.path)
        if not in_memory and not Path(self.path).stat().st_size:
            raise KeyRingError(
                f"The key ring {self.path!r} is empty: its file has 0 bytes. It was cut off, or not restored as a "
                f"whole. Restore it from its backup. If it never held a key, remove the file."
            )
        connection = connected(self.path)
        try:
            if in_memory:
                make_tables(connection)
            elif is_cut_off(connection, self.path):
                raise KeyRingError(f"The key ring {self.path!r} is cut off. Restore it from its backup.")
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'settings'").fetchone():
                raise KeyRingError(
                    f"{self.path!r} is an SQLite file and no key ring. Give the path of the ring that the store was "
                    f"made with."
                )
            found = connection.execute("SELECT value FROM settings WHERE name = 'format'").fetchone()
            if found is None or found[0] != FORMAT:
                raise KeyRingError(f"The key ring {self.path!r} was written by a later release of memoranda-encrypt.")
        except BaseException:
            connection.close()
            raise
        self._connection, self._process = connection, os.getpid()
        self._descriptor = None if in_memory else _descriptors.open(self.path)

    def close(self) -> None:
        """Close the file. A ring in memory stays: nothing else has its keys."""
        with self._lock:
            if self._connection is not None and self.path != ":memory:":
                self._connection.close()
                self._connection = None
                if self._descriptor is not None:
                    _descriptors.close(self._descriptor)
                    self._descriptor = None

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
                raise KeyRingError(
                    f"The key ring {self.path!r} is damaged or cut off: {error}. Restore it from its backup."
                ) from error
            raise KeyRingError(f"The key ring {self.path!r} cannot be used: {error}.") from error
        except OSError as error:
            raise KeyRingError(f"The key ring {self.path!r} cannot be used: {error.strerror}.") from error

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._translated():
            if self._connection is not None and self._process != os.getpid() and self.path != ":memory:":
                self._connection = None  # SQLite's connections do not survive a fork.
            if self._connection is None:
                self._connect()
            assert self._connection is not None
            yield self._connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Keep other processes from writing for the block, and write all of it or nothing."""
        with self._opened() as connection:
            self._check_in_place()
            connection.execute("BEGIN IMMEDIATE")
            self.before = self.state()
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _check_in_place(self) -> None:
        """Raise KeyRingError if the file was removed or replaced: what is written now would be lost."""
        if self._descriptor is None:
            return
        try:
            found = Path(self.path).stat()
        except FileNotFoundError:
            found = None
        if found is None or (found.st_dev, found.st_ino) != _file_of(self._descriptor):
            raise KeyRingError(
                f"The key ring {self.path!r} was removed or replaced while it was open. Close the store and open it "
                f"again."
            )

    def state(self) -> bytes:
        """Return the counter in the file's header, which every change by any process increases."""
        if self.path == ":memory:":
            return b""
        descriptor = self._descriptor
        if descriptor is None or self._process != os.getpid():
            with self._opened():
                descriptor = self._descriptor
        assert descriptor is not None
        with self._lock:
            os.lseek(descriptor, _CHANGE_COUNTER, os.SEEK_SET)
            return os.read(descriptor, 4)

    def after(self) -> bytes:
        """Return the state that the last transaction of this process led to, if no other process wrote after it."""
        return (int.from_bytes(self.before) + 1).to_bytes(5)[1:] if self.before else b""

    def setting(self, name: str) -> str | None:
        with self._opened() as connection:
            found = connection.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return None if found is None else str(found[0])

    def set(self, name: str, value: str | None) -> None:
        """Keep a setting; None removes it."""
        with self.transaction() as connection:
            put_setting(connection, name, value)

    def by_id(self, key_id: str) -> KeyRow | None:
        return next(iter(self._rows("id = ?", key_id)), None)

    def active(self, owner: str) -> KeyRow | None:
        return next(iter(self._rows("owner = ? AND state = 'active'", owner)), None)

    def all(self, owner: str | None = None) -> list[KeyRow]:
        """Return all keys, or those of an owner, oldest first."""
        return self._rows("1 = 1") if owner is None else self._rows("owner = ?", owner)

    def _rows(self, where: str, *values: str) -> list[KeyRow]:
        with self._opened() as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM keys WHERE {where} ORDER BY created_at, id", values)
            return [KeyRow(*row) for row in rows]

    def add(self, row: KeyRow) -> KeyRow:
        """Store a new active key, and return the one that the owner has then: another process may have been first."""
        with self.transaction() as connection:
            connection.execute(f"INSERT OR IGNORE INTO keys ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        found = self.active(row.owner)
        return row if found is None else found

    def rewrap(self, row: KeyRow, master: str, wrapped: bytes) -> None:
        """Replace the wrapped form of a key, unless it was destroyed meanwhile."""
        with self.transaction() as connection:
            connection.execute(
                "UPDATE keys SET master = ?, wrapped = ? WHERE id = ? AND state <> 'destroyed'",
                (master, wrapped, row.id),
            )

    def destroy(self, ids: list[str]) -> int:
        with self.transaction() as connection:
            sql = (
                "UPDATE keys SET state = 'destroyed', wrapped = NULL, changed_at = ? WHERE id = ? AND wrapped NOT NULL"
            )
            return sum([connection.execute(sql, (now_text(), key_id)).rowcount for key_id in ids])


def put_setting(connection: sqlite3.Connection, name: str, value: str | None) -> None:
    """Keep a setting within a transaction; None removes it."""
    if value is None:
        connection.execute("DELETE FROM settings WHERE name = ?", (name,))
    else:
        connection.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))
