"""The file: its path and URL, inspecting it, creating it for its owner only, and opening connections."""

from __future__ import annotations

import os
import random
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, TypeVar, get_args
from urllib.parse import quote, unquote

from memoranda.errors import CorruptStoreError, InputError, MemoryError, StoreError, StoreUnavailableError
from memoranda_sqlite import schema, text_index
from memoranda_sqlite.dialect import register_functions
from memoranda_sqlite.faults import DRIVER_ERRORS, decoded, is_busy, primary_code, translated

MEMORY = ":memory:"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_IMMUTABLE = "immutable=1"
_OLDEST_SQLITE = (3, 35, 0)

_SMALLEST_PAGE = 512
"""Bytes; SQLite takes a file that is shorter for an empty database."""
_LOG_PAGES = 4_000
"""How many pages the log may have before a commit copies them into the file, which syncs both while a caller waits. An
add changes seven pages, several of them those of the last add: the later the copy, the fewer pages it writes. The first
block of SQLite's index of the log has room for this many."""

Durability = Literal["full", "normal"]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Database:
    """Where the database is and how connections to it are made."""

    path: str
    durability: Durability = "full"
    busy_timeout: float = 30.0
    reading: str = ""
    """How SQLite opens a file that must not be written; empty if it may be."""

    @property
    def in_memory(self) -> bool:
        """True if there is no file: such a database has one connection only."""
        return self.path == MEMORY

    @property
    def uri(self) -> str:
        """The URI of the file. SQLite must not recreate a missing one, empty and readable by all."""
        return f"file:{quote(os.fsencode(self.path))}?{self.reading or 'mode=rw'}"

    def for_reading(self) -> Database:
        """Return the same file, to be opened without writing to it or beside it.

        A log that is not empty has to be read too, and stays where it is. Without one, SQLite creates a log while the
        file is open if it can write there; if it cannot, no other program changes the file, and no log is needed.
        """
        if self.in_memory:
            return self
        log = _size_and_time(f"{self.path}-wal")
        if log is not None and (log[0] or _size_and_time(f"{self.path}-shm") is not None):
            return replace(self, reading="mode=ro")
        writable = os.access(self.path, os.W_OK) and os.access(Path(self.path).parent, os.W_OK)
        return replace(self, reading="mode=rw" if writable else _IMMUTABLE)

    @property
    def is_unwritable(self) -> bool:
        """True if the file or its folder cannot be written."""
        return self.reading == _IMMUTABLE

    def exists(self) -> bool:
        """Return True if there is a file with memories, in our tables or in one that can be adopted."""
        try:
            return self.in_memory or self._inspect()
        except (*DRIVER_ERRORS, OSError) as error:
            raise self.explained_reading(error) from error

    def alike(self) -> list[str]:
        """Return the files with memories in the same folder whose names are similar."""
        file = Path(self.path)
        try:
            beside = [entry.name for entry in file.parent.iterdir() if entry != file and entry.is_file()]
        except OSError:
            return []
        names = [name for name in beside if not name.endswith(("-wal", "-shm"))]
        databases = [replace(self, path=str(file.parent / name)) for name in get_close_matches(file.name, names, n=20)]
        return [each.path for each in databases if each._holds_memories()][:3]

    def _holds_memories(self) -> bool:
        with suppress(MemoryError):
            return self.exists()
        return False

    def open_writer(self) -> sqlite3.Connection:
        """Return the connection that writes, with the schema in place. Raises memoranda's errors."""
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old; memoranda needs 3.35 or later.")
        try:
            if not self.in_memory:
                self._inspect()
                self._create_private()
            return self._prepared()
        except (*DRIVER_ERRORS, OSError) as error:
            raise self.explained(error) from error

    def open_reader(self, *, shared: bool = False) -> sqlite3.Connection:
        """Return a connection that only reads.

        A ``shared`` one is for the event loop's thread: it never waits for a lock.
        """
        try:
            connection = self._connect(0.0 if shared else self.busy_timeout, shared=shared)
            connection.execute("PRAGMA query_only = ON")
            if not shared:
                # A thread reads more than any cache holds; a small one fits into the processor's cache.
                connection.execute("PRAGMA cache_size = -4096")
        except (*DRIVER_ERRORS, OSError) as error:
            raise self.explained_reading(error) from error
        return connection

    def open_only_reader(self) -> sqlite3.Connection:
        """Return the connection that replaces the writer of a file that must not be written."""
        connection = self.open_reader()
        try:
            found = schema.check_version(connection, self.path)
            if found < len(schema.MIGRATIONS):
                raise StoreError(
                    f"The SQLite file {self.path!r} has the tables of an earlier release or of another program. Open "
                    f"it once to write, which brings them up to date: 'memoranda doctor --repair' does."
                )
        except BaseException:
            connection.close()
            raise
        return connection

    def check_that_it_stays(self) -> Callable[[], None]:
        """Return a check that raises StoreUnavailableError once the file is not the present one any more."""
        opened = _identity(self.path)

        def check() -> None:
            if not self.in_memory and (opened is None or _identity(self.path) != opened):
                raise StoreUnavailableError(
                    f"The SQLite file {self.path!r} was deleted, moved or replaced while it was open. Nothing of this "
                    f"call was stored there; close the store and open it again."
                )

        return check

    def explained_reading(self, error: Exception) -> MemoryError:
        """Return memoranda's error for one that came while reading: it says nothing about what was stored."""
        return self.explained(error) if isinstance(error, OSError) else translated(error, self.path, reading=True)

    def explained(self, error: Exception) -> MemoryError:
        """Return memoranda's error for one of the driver's or the system's."""
        if isinstance(error, OSError):
            return StoreUnavailableError(
                f"The SQLite file {self.path!r} cannot be opened ({error.strerror or error}). Check that its folder "
                f"exists and that both may be read and written."
            )
        return translated(error, self.path)

    def _inspect(self) -> bool:
        """Return True if the file holds memories; refuse one that is no database, or a later release's. Writes nothing.

        Another program may be creating the file at this moment: if it changed meanwhile, it is inspected again before
        it is refused.
        """
        deadline = time.monotonic() + self.busy_timeout
        while True:
            before = self._appearance()
            try:
                return self._look()
            except (StoreError, *DRIVER_ERRORS):
                if self._appearance() == before or time.monotonic() > deadline:
                    raise
            time.sleep(random.uniform(0.001, 0.02))

    def _appearance(self) -> list[tuple[int, int] | None]:
        """Return what changes when a program writes to the file or its log."""
        return [_size_and_time(self.path), _size_and_time(f"{self.path}-wal")]

    def _look(self) -> bool:
        file = Path(self.path)
        if not file.exists() or file.stat().st_size == 0:
            return False
        if file.is_dir():
            raise StoreUnavailableError(f"{self.path!r} is a folder; a SQLite store needs the name of a file.")
        if file.stat().st_size < _SMALLEST_PAGE:
            raise self._no_database()
        # Without a write-ahead log everything is in the file itself, and SQLite need not create one.
        option = "mode=ro" if Path(self.path + "-wal").exists() else "immutable=1"
        uri = f"file:{quote(os.fsencode(self.path))}?{option}"
        connection = sqlite3.connect(uri, uri=True, timeout=self.busy_timeout, isolation_level=None)
        try:
            connection.execute("BEGIN")  # One state of the file for all that is read of it.
            found = self._patiently(lambda: schema.check_version(connection, self.path))
            return found > 0 or schema.adoptable(connection, self.path) is not None
        except sqlite3.DatabaseError as error:
            # SQLite itself looks at the first bytes: closing a file that we opened beside it would end all locks that
            # other connections of this process have on it, and another process could then remove their log.
            if primary_code(error) != sqlite3.SQLITE_NOTADB:
                raise
            raise self._no_database() from error
        finally:
            connection.close()

    def _no_database(self) -> CorruptStoreError:
        return CorruptStoreError(
            f"The file {self.path!r} is no SQLite database. It was left as it is; use another file."
        )

    def _create_private(self) -> None:
        """Create the file for its owner only; SQLite gives its log the same mode."""
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))

    def _connect(self, timeout: float, *, shared: bool = False) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path if self.in_memory else self.uri,
            uri=not self.in_memory,
            timeout=timeout,
            isolation_level=None,
            check_same_thread=not shared,
            cached_statements=256,
        )
        register_functions(connection)
        connection.execute("PRAGMA cache_size = -16384")
        return connection

    def _prepared(self) -> sqlite3.Connection:
        connection = self._connect(self.busy_timeout)
        # It reads little, and in the middle of transactions, which cannot simply be repeated.
        connection.text_factory = decoded
        try:
            # Freed pages can be given back one by one only in a file that was created with this setting.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA secure_delete = ON")
            # A large batch changes many pages; those that do not fit are written to the log twice.
            connection.execute("PRAGMA cache_size = -65536")
            if not self.in_memory:
                self._patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone())
                connection.execute(f"PRAGMA synchronous = {'FULL' if self.durability == 'full' else 'NORMAL'}")
                if self.durability == "full":  # With "normal", a power cut may lose what is only in the log.
                    connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
            self._patiently(lambda: schema.prepare(connection, self.path))
            self._patiently(lambda: text_index.create(connection))
        except BaseException:
            connection.close()
            raise
        return connection

    def _patiently(self, action: Callable[[], Result]) -> Result:
        """Retry while other programs are opening the file: SQLite does not always wait for their locks by itself."""
        deadline = time.monotonic() + self.busy_timeout
        while True:
            try:
                return action()
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() > deadline:
                    raise
            time.sleep(random.uniform(0.001, 0.02))


def _size_and_time(path: str) -> tuple[int, int] | None:
    """Return the size of a file and the time of its last change, or None if there is none of this name."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _identity(path: str) -> tuple[int, int] | None:
    """Return the identity of a file, or None if there is none of this name."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a Path costs as much again, and this is done at each commit
    except OSError:
        return None
    return found.st_dev, found.st_ino


def path_of(url: str) -> str:
    """Return the file that a ``sqlite:`` URL names: relative after three slashes, absolute after four."""
    name = unquote(url.partition(":")[2].partition("#")[0])
    if name.startswith("//"):
        authority, slash, name = name[2:].partition("/")
        if authority or not slash:
            if authority:
                raise InputError(
                    "The URL names a host; SQLite knows files only. Write sqlite:///relative.db or "
                    "sqlite:////absolute.db.",
                    field="url",
                )
            return MEMORY
    return name or MEMORY


def url_of(path: str) -> str:
    """Return the URL of a file: relative if it is in the working folder, else absolute."""
    with suppress(ValueError):
        path = str(Path(path).relative_to(Path.cwd()))
    return f"sqlite:///{quote(os.fsencode(path))}"


def checked_path(db_path: str | os.PathLike[str]) -> str:
    """Return the absolute path of the file, or ``":memory:"``. Raises InputError for anything but a path."""
    path = os.fspath(db_path)
    if not isinstance(path, str) or not path or "\0" in path:
        raise InputError(f"db_path must be the name of a file or {MEMORY!r}, without NUL characters.", field="db_path")
    if _URL.match(path):
        # It would become the name of a file, with whatever password it holds.
        raise InputError(
            "db_path must be the name of a file, not a URL; memoranda.open takes URLs such as 'sqlite:///agent.db'.",
            field="db_path",
        )
    # An absolute path survives a change of the working folder, and is never taken for one of SQLite's URIs.
    return path if path == MEMORY else str(Path(path).absolute())


def checked_durability(durability: str) -> Durability:
    """Return the durability, or raise InputError."""
    if durability not in get_args(Durability):
        raise InputError("durability must be 'full' or 'normal'.", field="durability")
    return "full" if durability == "full" else "normal"
