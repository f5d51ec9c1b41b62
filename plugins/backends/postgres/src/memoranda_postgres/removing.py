"""Hiding, restoring and purging items, together with their vectors and reserved ids."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any

from memoranda.store.backend import Expiry, Filter, Page, Write
from memoranda_backend.sql import Change
from memoranda_postgres.connections import Connection
from memoranda_postgres.dialect import PostgresStatements
from memoranda_postgres.server import Server

_PORTION = 10_000


class Removals:
    """Hides, restores and purges the items of one store. ``has_vectors`` says that the table of vectors exists."""

    def __init__(self, server: Server, statements: PostgresStatements, *, has_vectors: bool) -> None:
        self._server = server
        self._statements = statements
        self._dialect = statements.dialect
        self._has_vectors = has_vectors

    async def hide(self, wanted: Filter, item_id: str | None = None) -> int:
        """Hide the live items that match, or the one of this id if it matches; return how many there were."""
        change = self._statements.hiding(wanted, item_id)
        return await self._count(change, item_id, self._dependent_deletes(purge=False))

    async def restore(self, wanted: Filter, item_id: str | None) -> list[Any]:
        """Restore hidden items and return their ids; with vectors, the id, content and version of each."""
        change = self._statements.showing(wanted, item_id)
        columns = "id, content, version" if self._has_vectors else "id"
        return await self._change(change, item_id, columns, columns, hidden=True)

    async def purge(self, wanted: Filter, item_id: str | None, *, deleted_only: bool) -> int:
        """Delete rows and their vectors for good, hidden ones too, and return how many there were."""
        change = self._statements.purging(wanted, item_id, deleted_only=deleted_only)
        return await self._count(change, item_id, self._dependent_deletes(purge=True), hidden=deleted_only)

    async def remove_on(self, connection: Connection, ids: Sequence[str], write: Write) -> int:
        """Hide or purge the items that a batch deletes, in the transaction that has locked them all."""
        alive = (Expiry(write.now),) if write.now else ()
        wanted = Filter(metadata=write.within, archived=None, further=alive)
        change = self._statements.purging(wanted) if write.purge else self._statements.hiding(wanted)
        text, values = change.statement
        text = f"{text} AND {self._dialect.by_ids(f'${len(values) + 1}')}"
        rows = await connection.fetch(
            _with_others(text, "id", "id", self._dependent_deletes(purge=write.purge)),
            *values,
            list(ids),
            timeout=self._server.time_for(len(ids)),
        )
        return len(rows)

    async def take(self, wanted: Filter, *, purge: bool) -> Any:
        """Remove the last added of the items that match, and return its row; None if there is none.

        The item is looked up first, then removed unless another call was faster. A query that locks what it finds could
        hold one row while it waits for the next, against the order of locking.
        """
        text, values = self._statements.search(wanted, Page(1, order="added"))
        while newest := await self._server.fetch(text, values):
            item_id = newest[0]["id"]
            change = self._statements.hiding(wanted, item_id)
            if purge:
                # A row that another call has popped meanwhile, and left hidden, is not ours.
                change = change._replace(change=f"DELETE FROM {self._dialect.table}")
            further = self._dependent_deletes(purge=purge)
            rows = await self._change(change, item_id, self._dialect.item_columns, "*", further)
            if rows:
                return rows[0]
        return None

    def _dependent_deletes(self, *, purge: bool) -> list[str]:
        """Return the clauses that delete dependent rows; vectors of purged items are deleted by cascade."""
        if not purge and self._has_vectors:
            return [f"gone AS (DELETE FROM {self._dialect.vectors} USING changed WHERE item_id = changed.id)"]
        if purge and self._dialect.partitioned:
            return [f"freed AS (DELETE FROM {self._dialect.ids} AS ids USING changed WHERE ids.id = changed.id)"]
        return []

    async def _count(
        self, change: Change, item_id: str | None, further: Sequence[str] = (), *, hidden: bool = False
    ) -> int:
        rows = await self._change(change, item_id, "id", "count(*)", further, hidden=hidden)
        return sum(row[0] for row in rows)

    async def _change(
        self,
        change: Change,
        item_id: str | None,
        returning: str,
        answer: str,
        further: Sequence[str] = (),
        *,
        hidden: bool = False,
    ) -> list[Any]:
        """Run a statement that changes rows and their dependent ones, and return ``answer`` about them.

        ``hidden`` says that it changes only hidden rows.
        """
        complete = partial(_with_others, returning=returning, answer=answer, further=further)
        text, values = self._statements.locking(change, item_id, hidden=hidden), change.values
        if not self._dialect.partitioned:
            count = 1 if item_id is not None else await self._affected(change)
            return await self._server.change_rows(complete(text), values, count)
        if item_id is not None:
            work = partial(self._change_one, text=complete(text), values=values, item_id=item_id)
        else:
            among = self._statements.among(change, f"${len(values) + 1}")
            chosen = self._statements.chosen(change)
            work = partial(self._change_many, chosen=chosen, text=complete(among), values=values)
        return await self._server.run(work, repeatable=False)

    async def _affected(self, change: Change) -> int:
        """Return how many rows a change would affect now, which decides its timeout."""
        text = f"SELECT count(*) FROM {self._dialect.table} WHERE {change.where}"
        rows = await self._server.run(
            lambda connection: connection.fetch(text, *change.values, timeout=self._server.timeout)
        )
        return int(rows[0][0])

    async def _change_one(self, connection: Connection, text: str, values: Sequence[Any], item_id: str) -> list[Any]:
        async with self._server.transaction(connection):
            if not await self._server.lock_items(connection, self._dialect, [item_id]):
                return []
            rows: list[Any] = await connection.fetch(text, *values, timeout=self._server.timeout)
        return rows

    async def _change_many(self, connection: Connection, chosen: str, text: str, values: Sequence[Any]) -> list[Any]:
        """Change rows in portions: lock each portion, then change the rows of it that still match."""
        rows: list[Any] = []
        async with self._server.transaction(connection):
            async for ids in self._portions(connection, chosen, values):
                locked = await self._server.lock_items(connection, self._dialect, ids)
                rows += await connection.fetch(text, *values, locked, timeout=self._server.time_for(len(locked)))
        return rows

    async def _portions(
        self, connection: Connection, chosen: str, values: Sequence[Any]
    ) -> AsyncGenerator[list[str], None]:
        """Yield the ids that a query finds, thousands at a time."""
        timeout = self._server.timeout
        if not self._server.statement_cache_size:
            # The driver's cursor is a prepared statement, which such a pooler may leave with another client.
            rows = await connection.fetch(chosen, *values, timeout=timeout)
            for start in range(0, len(rows), _PORTION):
                yield [row["id"] for row in rows[start : start + _PORTION]]
            return
        cursor = await connection.cursor(chosen, *values, timeout=timeout)
        while rows := await cursor.fetch(_PORTION, timeout=timeout):
            yield [row["id"] for row in rows]


def _with_others(text: str, returning: str, answer: str, further: Sequence[str]) -> str:
    """Return a statement that changes rows, runs further clauses on them, and selects an answer about them."""
    clauses = ", ".join((f"changed AS ({text} RETURNING {returning})", *further))
    return f"WITH {clauses} SELECT {answer} FROM changed"
