"""Batches with conditions: adds together with deletes, ids that must be new, a turn that must follow a known one.

All or nothing, in one transaction. Deletes and adds are locked together in the order of their ids, as all writers do.
A turn first takes the advisory lock of its conversation, which belongs to the transaction and so works behind a pooler.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from memoranda.errors import VersionConflictError
from memoranda.store.backend import Expected, Page, Write, check_owner
from memoranda_postgres.connections import Connection
from memoranda_postgres.dialect import PostgresStatements
from memoranda_postgres.removing import Removals
from memoranda_postgres.rows import Addition, item_of, moment_of
from memoranda_postgres.server import Server
from memoranda_postgres.upserts import MOST_ROWS
from memoranda_postgres.writing import Writer, check_lives


class ConditionalWrites:
    """Writes the conditional batches of one store."""

    def __init__(self, server: Server, statements: PostgresStatements, writer: Writer, removals: Removals) -> None:
        self._server = server
        self._statements = statements
        self._dialect = statements.dialect
        self._writer = writer
        self._removals = removals

    async def apply(self, write: Write, additions: list[Addition]) -> int:
        """Apply a batch, whose adds are given as rows, and return how many items were deleted.

        Deleted items are counted only once, so a batch with deletes is not repeated after its answer was lost.
        Raises HeldByExpiredError.
        """
        # The stored rows themselves are compared with the scope.
        additions = [addition._replace(fields=(), within=None) for addition in additions]
        first = True

        async def work(connection: Connection) -> int:
            nonlocal first
            again, first = not first, False
            async with self._server.transaction(connection):
                if again and await self._is_done(connection, additions):
                    return 0
                if write.expected is not None:
                    await self._check_head(connection, write, write.expected)
                return await self._apply_on(connection, write, additions)

        return await self._server.run(work, repeatable=not write.deletes)

    async def _is_done(self, connection: Connection, additions: Sequence[Addition]) -> bool:
        """Return True if this very call has stored its items already, before its answer was lost."""
        rows = await connection.fetch(
            f"SELECT id, token FROM {self._dialect.table} WHERE {self._dialect.by_ids('$1')}",
            [addition.row.id for addition in additions],
            timeout=self._server.time_for(len(additions)),
        )
        tokens = {row["id"]: row["token"] for row in rows}
        return bool(additions) and all(tokens.get(each.row.id) == each.token for each in additions)

    async def _check_head(self, connection: Connection, write: Write, expected: Expected) -> None:
        """Lock the conversation, and raise TurnConflictError if it has continued."""
        metadata = write.adds[0].metadata
        timeout = self._server.timeout
        # The schema is part of the key, and NULL differs from every text.
        await connection.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(row($1::text, $2::text, $3::text)::text, 0))",
            self._dialect.schema,
            metadata.user_id,
            metadata.session_id,
            timeout=timeout,
        )
        text, values = self._statements.search(expected.conversation, Page(1, order="added"))
        newest = await connection.fetch(text, *values, timeout=timeout)
        expected.check(newest[0]["id"] if newest else None)

    async def _apply_on(self, connection: Connection, write: Write, additions: list[Addition]) -> int:
        in_order = await self._writer.numbered(connection, additions)
        written, existing = await self._lock(connection, in_order, write.deletes)
        left = [addition for addition in in_order if addition.row.id not in written]
        left = await self._checked(connection, write, left)
        _check_distinct(write, additions)
        removed = 0
        if existing:
            removed = await self._removals.remove_on(connection, existing, write)
        await self._writer.write_all(connection, left)
        return removed

    async def _lock(
        self, connection: Connection, additions: list[Addition], deletes: Sequence[str]
    ) -> tuple[set[str], list[str]]:
        """Lock everything in the order of ids.

        Returns the ids of the new items that this has inserted, and of the existing items to delete. An item that is
        added from now on is not locked and is left alone.
        """
        written: set[str] = set()
        existing: list[str] = []
        for run in _runs(additions, deletes):
            if isinstance(run[0], str):
                existing += await self._server.lock_items(connection, self._dialect, run)
            else:
                written |= await self._writer.claim(connection, run)
        return written, existing

    async def _checked(self, connection: Connection, write: Write, additions: list[Addition]) -> list[Addition]:
        """Return what is left to write of the locked adds, with the times that they keep.

        Raises IdConflictError or VersionConflictError for an item that may not be replaced.
        """
        if not additions:
            return []
        rows = {
            row["id"]: row for row in await self._writer.upserts.locked(connection, [each.row.id for each in additions])
        }
        return [
            _replacing(addition, rows[addition.row.id], write) if addition.row.id in rows else addition
            for addition in additions
        ]


def _replacing(addition: Addition, row: Any, write: Write) -> Addition:
    """Return the addition as it may replace a row. A row that this very call wrote may be written again."""
    if row["token"] == addition.token:
        return addition
    check_lives(row, write.now)
    stored = item_of(row)
    item = stored.model_copy(update={"metadata": addition.row.scope})
    check_owner(stored, item, write.within)
    # Only after the owner is known to be the same: not even the version of another user's item is revealed.
    if write.must_be_new(stored.id):
        raise VersionConflictError(stored.id, 0, stored.version)
    if write.keep_created:
        kept = addition.row.with_created(stored.created_at)
        addition = addition._replace(row=kept, moment=moment_of(stored.created_at))
    return addition


def _check_distinct(write: Write, additions: Sequence[Addition]) -> None:
    """Raise VersionConflictError if an id that must be new occurs twice."""
    for addition in additions:
        if addition.times > 1 and write.must_be_new(addition.row.id):
            raise VersionConflictError(addition.row.id, 0, 1)


def _runs(additions: Sequence[Addition], deletes: Sequence[str]) -> Iterator[list[Any]]:
    """Yield ids to delete and additions in the order of all their ids, in the longest possible runs of one kind."""
    both: list[Any] = sorted([*deletes, *additions], key=lambda each: each if isinstance(each, str) else each.row.id)
    for _, run in itertools.groupby(both, key=lambda each: isinstance(each, str)):
        members = list(run)
        for start in range(0, len(members), MOST_ROWS):
            yield members[start : start + MOST_ROWS]
