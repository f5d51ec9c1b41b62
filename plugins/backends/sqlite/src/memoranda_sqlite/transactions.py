"""What a transaction writes: rows and vectors, whole batches, pops, new lifetimes, and purges.

Every function here runs on the writer's thread, within a transaction that it does not end. SQLite lets one writer in at
a time, so what is checked holds until everything is written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count, groupby
from typing import Any

from memoranda.errors import IdConflictError, VersionConflictError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.shapes import json_text, json_value
from memoranda.store.backend import (
    Change,
    Expiry,
    Filter,
    Page,
    Write,
    Written,
    check_expected,
    check_owner,
    metadata_matches,
    readable,
    with_lifetime,
)
from memoranda_backend.sql import Statement, unpack
from memoranda_sqlite import erasing, text_index
from memoranda_sqlite.schema import set_wrapper_mark
from memoranda_sqlite.statements import HIDDEN, SQLiteStatements, Upsert
from memoranda_sqlite.tables import (
    CREATED_AT,
    CREATED_US,
    EXPIRES_AT,
    ID,
    TABLE,
    BoundRow,
    as_hidden,
    packed,
    with_created,
)

Types = Mapping[str, type[MemoryItem]]

_HELD = f"SELECT id, version, created_at, created_us FROM {TABLE} WHERE id IN (SELECT value FROM json_each(?))"
_HIDE_ONE = f"UPDATE {TABLE} SET {HIDDEN} WHERE id = ?"
_PURGE_ONE = f"DELETE FROM {TABLE} WHERE id = ?"
_TOUCH = f"UPDATE {TABLE} SET extra_json = ?, expires_at = ? WHERE id = ?"
_WRITTEN = f"SELECT version, extra_json FROM {TABLE} WHERE id = ?"
_EXTRA_JSON = 5


KEEP_VECTOR = (
    "INSERT OR REPLACE INTO memoranda_vectors (item, item_version, vector) SELECT rowid, version, ? FROM memory_items "
    "WHERE id = ? AND EXISTS (SELECT 1 FROM memoranda_meta WHERE key = 'vector_model' AND value = ?)"
)
"""Stores the vector of an item, unless another program has switched to another model meanwhile."""

_DROP_VECTOR = "DELETE FROM memoranda_vectors WHERE item = (SELECT rowid FROM memory_items WHERE id = ?)"


def keep_vectors(connection: sqlite3.Connection, vectors: Sequence[Sequence[Any]]) -> None:
    """Keep vectors, given as the values of ``KEEP_VECTOR``; a file without an embedder has no table for them.

    None instead of a vector removes the vector that the item had.
    """
    if vectors:
        connection.executemany(_DROP_VECTOR, [(item_id,) for vector, item_id, _ in vectors if vector is None])
        connection.executemany(KEEP_VECTOR, [values for values in vectors if values[0] is not None])


ROWS_PER_STATEMENT = (256, 32)
"""How many rows one statement stores; one more stores the rest. Each statement releases and takes the interpreter,
which is costly while other threads are busy. With few sizes, the statements stay prepared."""

_MANY = 5_000
_MOST_ROOM = 256 << 10
"""From how many rows on a transaction may cache more pages than usual, and how many KiB of them."""


def store_rows(connection: sqlite3.Connection, upsert: Upsert, rows: Sequence[BoundRow], now: str = "") -> None:
    """Store rows in their order, in a transaction. Raises IdConflictError for the first that is refused."""
    for part in parts(rows):
        if len(part) > 1:
            # If one is refused, storing them one by one finds out which.
            with suppress(sqlite3.IntegrityError):
                connection.execute(*upsert.of(part, now))
                continue
        for row in part:
            if connection.execute(*upsert.of([row], now)).rowcount != 1:
                raise IdConflictError(row[ID])


@contextmanager
def room_for(connection: sqlite3.Connection, rows: int) -> Iterator[None]:
    """Keep more in memory while many rows are stored: each changes some six pages, anywhere in the indexes.

    SQLite copies each page that a statement changes within a transaction, soon into a file. And pages that do not fit
    into the cache are written to the log early, and read again for the next row that changes them.
    """
    (usual,) = connection.execute("PRAGMA cache_size").fetchone()
    connection.execute("PRAGMA temp_store = MEMORY")
    if rows >= _MANY:
        connection.execute(f"PRAGMA cache_size = -{_MOST_ROOM}")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA cache_size = {usual}")
        connection.execute("PRAGMA temp_store = DEFAULT")


def parts(rows: Sequence[BoundRow]) -> Iterator[Sequence[BoundRow]]:
    """Yield the rows in parts, one for each statement."""
    start = 0
    for size in ROWS_PER_STATEMENT:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size
    if start < len(rows):
        yield rows[start:]


class Transactions:
    """Writes for one store. ``types`` are the classes of its items; ``indexed`` is True if it has text indexes."""

    def __init__(self, statements: SQLiteStatements, types: Types, *, indexed: bool) -> None:
        self._statements = statements
        self._types = types
        self._indexed = indexed
        self.has_swept = False
        """True if expired items were removed."""

    def remove_expired(self, connection: sqlite3.Connection, ids: Sequence[str], now: str) -> bool:
        """Remove the items of these ids that have expired, and return True if there were any."""
        expired = Filter(archived=None, further=(Expiry(now, expired=True),))
        if self.purge(connection, self._statements.removing(expired, ids, purge=True)):
            self.has_swept = True
        return self.has_swept

    def apply(self, connection: sqlite3.Connection, write: Write, rows: Sequence[BoundRow]) -> int:
        """Carry out a batch, whose adds are given as rows, and return how many rows were deleted.

        Raises TurnConflictError, VersionConflictError or IdConflictError.
        """
        if write.now:
            self.remove_expired(connection, [*(row[ID] for row in rows), *write.deletes], write.now)
        if write.expected is not None:
            newest = self._newest(connection, write.expected.conversation)
            write.expected.check(newest.id if newest else None)
        if write.fresh or write.new or write.keep_created:
            rows = self._checked(connection, write, rows)
        removed = self._removed(connection, write) if write.deletes else 0
        self.store(connection, rows, write.within, write.hidden)
        return removed

    def store(
        self,
        connection: sqlite3.Connection,
        rows: Sequence[BoundRow],
        within: MemoryMetadata | None,
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        """Store rows in their order. Raises IdConflictError for the first that is refused."""
        for is_hidden, group in groupby(rows, lambda row: row[ID] in hidden):
            run = [as_hidden(row) if is_hidden else row for row in group]
            store_rows(connection, self._statements.upserting(within, deleted=is_hidden), run)

    def _checked(self, connection: sqlite3.Connection, write: Write, rows: Sequence[BoundRow]) -> list[BoundRow]:
        """Return the rows as they are to be stored, having looked at what is held under their ids."""
        ids = [row[ID] for row in rows]
        held = {found[0]: found for found in connection.execute(_HELD, (json_text(ids),))}
        checked = []
        for row in rows:
            existing = held.get(row[ID])
            if existing is not None:
                if write.must_be_new(row[ID]):
                    self._check_owner(connection, write, row[ID])
                    raise VersionConflictError(row[ID], 0, existing[1])
                if write.keep_created and isinstance(existing[2], str):
                    row = with_created(row, existing[2], existing[3])
            held.setdefault(row[ID], (row[ID], 1, row[CREATED_AT], row[CREATED_US]))
            checked.append(row)
        return checked

    def update(
        self, connection: sqlite3.Connection, item: MemoryItem, row: BoundRow, within: MemoryMetadata | None
    ) -> tuple[int, str | None]:
        """Compare and set one item and return its new version and its trust. Raises the conflict that it meets."""
        stored = connection.execute(*self._statements.get(item.id)).fetchone()
        check_expected(item, None if stored is None else unpack(stored, self._types), within)
        # A deleted item of another user may have this id.
        store_rows(connection, self._statements.upserting(within), [row])
        ((version, further),) = connection.execute(_WRITTEN, (item.id,))
        return int(version), json_value(further).get("trust")

    def _check_owner(self, connection: sqlite3.Connection, write: Write, item_id: str) -> None:
        """Raise IdConflictError if the id is another user's, whose item's version must not be revealed."""
        columns = self._statements.dialect.item_columns
        held = connection.execute(f"SELECT {columns} FROM {TABLE} WHERE id = ?", (item_id,)).fetchone()
        if held is not None:
            new = next(item for item in write.adds if item.id == item_id)
            check_owner(unpack(held, self._types), new, write.within)

    def _removed(self, connection: sqlite3.Connection, write: Write) -> int:
        wanted = Filter(metadata=write.within, archived=None)
        statement = self._statements.removing(wanted, write.deletes, purge=write.purge)
        if write.purge:
            return self.purge(connection, statement)
        return connection.execute(*statement).rowcount

    def purge(self, connection: sqlite3.Connection, statement: Statement) -> int:
        """Run a statement that removes rows, with every trace of them, and return how many those were."""
        purged = connection.execute(*statement).rowcount
        if purged:
            erasing.mark(connection)
            if self._indexed:
                text_index.forget(connection)
        return purged

    def change(self, connection: sqlite3.Connection, change: Change) -> Written:
        """Carry out a change of stored items, and return what came of it."""
        match change.action:
            case "delete":
                return Written(connection.execute(*self._statements.hide(*change.selection())).rowcount)
            case "restore":
                return Written(connection.execute(*self._statements.show(*change.selection())).rowcount)
            case "purge":
                statement = self._statements.purge(*change.selection(), deleted_only=change.deleted_only)
                return Written(self.purge(connection, statement))
            case "sweep":
                swept = self.purge(connection, self._statements.purge(change.wanted))
                return Written(swept, next_expiry=next_expiry(connection))
            case "pop":
                return self._pop(connection, change)
            case "touch":
                return Written(self._touch(connection, change))
            case "mark":
                set_wrapper_mark(connection, change.text)
                return Written()

    def _pop(self, connection: sqlite3.Connection, change: Change) -> Written:
        """Remove the item that was added last of those that match, and return it."""
        newest = self._newest(connection, change.wanted)
        if newest is None:
            return Written()
        if change.purge:
            self.purge(connection, (_PURGE_ONE, (newest.id,)))
        else:
            connection.execute(_HIDE_ONE, (newest.id,))
        return Written(1, [newest])

    def _newest(self, connection: sqlite3.Connection, wanted: Filter) -> MemoryItem | None:
        """Return the item that was added last of those that match; what cannot be read is passed over."""
        for offset in count():
            rows = connection.execute(*self._statements.search(wanted, Page(1, offset, "added"))).fetchall()
            items = readable(lambda row: unpack(row, self._types), rows)
            if items or not rows:
                return items[0] if items else None
        return None

    def _touch(self, connection: sqlite3.Connection, change: Change) -> int:
        """Give items a new lifetime and return how many they were; their versions stay."""
        touched, now = 0, change.now
        for row in connection.execute(*self._statements.get_many(change.ids or ())).fetchall():
            item = next(iter(readable(lambda found: unpack(found, self._types), [row])), None)
            if item is None or not metadata_matches(change.wanted.metadata, item.metadata):
                continue
            life = item.ttl if change.ttl is None else change.ttl
            if life is None or (item.expires_at is not None and item.expires_at <= now):
                continue
            values = packed(with_lifetime(item, life, now))
            connection.execute(_TOUCH, (values[_EXTRA_JSON], values[EXPIRES_AT], item.id))
            touched += 1
        return touched


def next_expiry(connection: sqlite3.Connection) -> str | None:
    """Return when the next item expires."""
    (soonest,) = connection.execute(f"SELECT min(expires_at) FROM {TABLE} WHERE expires_at IS NOT NULL").fetchone()
    return soonest if isinstance(soonest, str) else None
