"""What one transaction changes beyond storing rows: whole batches, taking, touching, and removing for good.

Every function here runs on the writer's thread, within a transaction that it does not end. SQLite lets one writer in at
a time, so what is checked holds until everything is written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from itertools import count, groupby

from memoranda.errors import VersionConflictError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.shapes import json_text
from memoranda.sql import Statement, unpack
from memoranda.store import Filter, Page, Write, check_owner, metadata_matches, readable, with_lifetime
from memoranda_sqlite import erasing, text_index
from memoranda_sqlite.rows import CREATED_AT, CREATED_US, EXPIRES_AT, ID, Values, as_hidden, packed, with_created
from memoranda_sqlite.statements import HIDDEN, SQLiteStatements
from memoranda_sqlite.storing import store_rows
from memoranda_sqlite.tables import TABLE

Types = Mapping[str, type[MemoryItem]]

_HELD = f"SELECT id, version, created_at, created_us FROM {TABLE} WHERE id IN (SELECT value FROM json_each(?))"
_HIDE_ONE = f"UPDATE {TABLE} SET {HIDDEN} WHERE id = ?"
_PURGE_ONE = f"DELETE FROM {TABLE} WHERE id = ?"
_TOUCH = f"UPDATE {TABLE} SET extra_json = ?, expires_at = ? WHERE id = ?"
_EXTRA_JSON = 5


class Changes:
    """The changes of one store. ``types`` are the classes of its items, ``indexed`` is whether it has text indexes."""

    def __init__(self, statements: SQLiteStatements, types: Types, *, indexed: bool) -> None:
        self._statements = statements
        self._types = types
        self._indexed = indexed

    def apply(self, connection: sqlite3.Connection, write: Write, rows: Sequence[Values]) -> int:
        """Carry a batch out, whose adds are given as rows, and return how many rows were deleted.

        Raises TurnConflictError, VersionConflictError or IdConflictError for what stands in the way.
        """
        if write.expected is not None:
            newest = self._newest(connection, write.expected.conversation)
            write.expected.check(newest.id if newest else None)
        if write.fresh or write.keep_created:
            rows = self._checked(connection, write, rows)
        removed = self._removed(connection, write) if write.deletes else 0
        self.store(connection, rows, write.within, write.hidden)
        return removed

    def store(
        self,
        connection: sqlite3.Connection,
        rows: Sequence[Values],
        within: MemoryMetadata | None,
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        """Store rows in their order. Raises IdConflictError for the first that is refused."""
        for is_hidden, group in groupby(rows, lambda row: row[ID] in hidden):
            run = [as_hidden(row) if is_hidden else row for row in group]
            store_rows(connection, self._statements.upserting(within, deleted=is_hidden), run)

    def _checked(self, connection: sqlite3.Connection, write: Write, rows: Sequence[Values]) -> list[Values]:
        """Return the rows as they are to be stored, having looked at what is held under their ids."""
        ids = [row[ID] for row in rows]
        held = {found[0]: found for found in connection.execute(_HELD, (json_text(ids),))}
        checked = []
        for row in rows:
            existing = held.get(row[ID])
            if existing is not None:
                if write.fresh:
                    self._check_owner(connection, write, row[ID])
                    raise VersionConflictError(row[ID], 0, existing[1])
                if isinstance(existing[2], str):
                    row = with_created(row, existing[2], existing[3])
            held.setdefault(row[ID], (row[ID], 1, row[CREATED_AT], row[CREATED_US]))
            checked.append(row)
        return checked

    def _check_owner(self, connection: sqlite3.Connection, write: Write, item_id: str) -> None:
        """Raise IdConflictError where an id is another's: of his item not even the version is told."""
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

    def pop(self, connection: sqlite3.Connection, wanted: Filter, purge: bool) -> MemoryItem | None:
        """Remove the item that was added last of those that match, and return it."""
        newest = self._newest(connection, wanted)
        if newest is not None:
            if purge:
                self.purge(connection, (_PURGE_ONE, (newest.id,)))
            else:
                connection.execute(_HIDE_ONE, (newest.id,))
        return newest

    def _newest(self, connection: sqlite3.Connection, wanted: Filter) -> MemoryItem | None:
        """Return the item that was added last of those that match; what cannot be read is passed over."""
        for offset in count():
            rows = connection.execute(*self._statements.search(wanted, Page(1, offset, "added"))).fetchall()
            items = readable(lambda row: unpack(row, self._types), rows)
            if items or not rows:
                return items[0] if items else None
        return None

    def touch(
        self,
        connection: sqlite3.Connection,
        ids: Sequence[str],
        ttl: float | None,
        now: str,
        within: MemoryMetadata | None,
    ) -> int:
        """Give items a new lifetime and return how many they were; their versions stay."""
        touched = 0
        for row in connection.execute(*self._statements.get_many(ids)).fetchall():
            item = next(iter(readable(lambda found: unpack(found, self._types), [row])), None)
            if item is None or not metadata_matches(within, item.metadata):
                continue
            life = item.ttl if ttl is None else ttl
            if life is None or (item.expires_at is not None and item.expires_at <= now):
                continue
            values = packed(with_lifetime(item, life, now))
            connection.execute(_TOUCH, (values[_EXTRA_JSON], values[EXPIRES_AT], item.id))
            touched += 1
        return touched


def soonest_expiry(connection: sqlite3.Connection) -> str | None:
    """Return when the next item expires."""
    (soonest,) = connection.execute(f"SELECT min(expires_at) FROM {TABLE} WHERE expires_at IS NOT NULL").fetchone()
    return soonest if isinstance(soonest, str) else None
