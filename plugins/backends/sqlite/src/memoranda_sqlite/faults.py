"""Faults of the driver and the file: errors become memoranda's own, which name the file and say what to do.

A damaged file or another program may leave text that is not Unicode in a row. The driver's own decoding is the fastest,
and fails a whole statement for it. When a connection first meets such text, it switches to a decoding that marks it:
the row then counts as unreadable, and is left out and logged.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from memoranda.errors import CorruptStoreError, InputError, MemoryError, StoreError, StoreUnavailableError

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_UNWRITABLE = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH})


DRIVER_ERRORS = (sqlite3.Error, sqlite3.Warning, UnicodeError, OverflowError)
"""What the driver raises: its own errors, and Python's where it converts a value."""

_UNDECODABLE = "Could not decode to UTF-8"

Result = TypeVar("Result")


def primary_code(error: BaseException) -> int:
    """Return SQLite's primary result code, or -1 where the driver itself raised."""
    code = getattr(error, "sqlite_errorcode", None)
    return -1 if code is None else code & 0xFF


def is_busy(error: BaseException) -> bool:
    """Return True if another connection held a lock."""
    return primary_code(error) in _BUSY


def is_interrupted(error: BaseException) -> bool:
    """Return True if the progress handler ended the statement."""
    return primary_code(error) == sqlite3.SQLITE_INTERRUPT


def is_too_big(error: BaseException) -> bool:
    """Return True if a value was longer than the connection allows."""
    return primary_code(error) == sqlite3.SQLITE_TOOBIG


def is_corrupt(error: BaseException) -> bool:
    """Return True if the file, or one of its indexes, is damaged."""
    return primary_code(error) in _CORRUPT


def is_undecodable(error: BaseException) -> bool:
    """Return True if text that was read is not Unicode."""
    return isinstance(error, UnicodeError) or str(error).startswith(_UNDECODABLE)


def translated(error: Exception, path: str, *, reading: bool = False) -> MemoryError:
    """Return memoranda's error for what the driver raised on this file; with ``reading`` it does not mention writes."""
    code = primary_code(error)
    if is_undecodable(error):
        # The driver's own message repeats the text.
        return CorruptStoreError(
            f"The SQLite file {path!r} holds text that is no Unicode. It was left as it is; restore a copy, or save "
            f"what can be read with 'sqlite3 FILE .recover'."
        )
    if code in _BUSY:
        return StoreUnavailableError(
            f"The SQLite file {path!r} stayed locked by another program ({error}). "
            f"{'' if reading else 'Nothing of this call was stored; '}{'Try' if reading else 'try'} again, or give a "
            f"longer busy_timeout."
        )
    if code == sqlite3.SQLITE_FULL:
        return StoreUnavailableError(
            f"There is no room left for the SQLite file {path!r} ({error}). Nothing of this call was stored, what was "
            f"stored before is intact. Free some space."
        )
    if code in _CORRUPT:
        return CorruptStoreError(
            f"The SQLite file {path!r} is damaged or no database ({error}). It was left as it is; restore a copy, or "
            f"save what can be read with 'sqlite3 FILE .recover'."
        )
    if code in _UNWRITABLE:
        return StoreUnavailableError(
            f"The SQLite file {path!r} cannot be written ({error}). Check the permissions of the file and of its "
            f"folder, where SQLite keeps its write-ahead log."
        )
    if code == sqlite3.SQLITE_CANTOPEN and reading:
        return StoreUnavailableError(
            f"The SQLite file {path!r} cannot be read ({error}). Check its permissions. If a write-ahead log lies "
            f"beside it ({Path(path).name}-wal) and the folder cannot be written, copy both to one that can."
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreUnavailableError(
            f"The SQLite file {path!r} cannot be opened ({error}). Check that its folder exists and may be written."
        )
    if code == sqlite3.SQLITE_IOERR:
        return StoreUnavailableError(f"The disk failed under the SQLite file {path!r} ({error}).")
    if code == sqlite3.SQLITE_TOOBIG:
        return InputError(f"The item is larger than SQLite holds ({error}).", field="content")
    return StoreError(f"SQLite could not do this with the file {path!r}: {error}.")


class Undecodable:
    """Stands for text that is not Unicode, without revealing it: it may be the content of a memory."""

    def __repr__(self) -> str:
        return "<text that is no Unicode>"


def decoded(raw: bytes) -> str | Undecodable:
    """Return the text, or its stand-in."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return Undecodable()


def tolerantly(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], Result]) -> Result:
    """Run a function that reads; run it again if it met text that is not Unicode for the first time."""
    try:
        return work(connection)
    except DRIVER_ERRORS as error:
        if not is_undecodable(error) or connection.text_factory is decoded:
            raise
    connection.text_factory = decoded
    return work(connection)
