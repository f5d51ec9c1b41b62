"""Writing rows, their vectors and when they expire, on a connection that is in a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from memoranda.store.backend import Change, metadata_matches, with_lifetime
from memoranda_backend.ranking import has_text
from memoranda_postgres.connections import Connection
from memoranda_postgres.dialect import PostgresStatements
from memoranda_postgres.rows import Addition, PackedRow, item_of, owner_of, packed
from memoranda_postgres.server import Server
from memoranda_postgres.vectors import Vectors

MOST_ROWS = 500
"""How many rows one statement writes at most; encoding and sending them blocks the event loop for milliseconds."""

_TURN = 100
"""After how many copied rows other tasks get a turn."""

_TIME_WITHOUT_ZONE = len("2023-05-08T13:56:00.000000")

_USUAL_FURTHER = (None, None, "", False, "", None)
_USUAL_ADDITION = tuple(Addition._field_defaults.values())[3:]


class Upserts:
    """Writes the rows and vectors of one store."""

    def __init__(
        self, server: Server, statements: PostgresStatements, vectors: Vectors | None, *, has_vectors: bool
    ) -> None:
        self._server = server
        self._statements = statements
        self._dialect = statements.dialect
        self._vectors = vectors
        self._has_vectors = has_vectors
        self._texts: dict[tuple[str, tuple[str, ...]], str] = {}

    def bound(self, additions: list[Addition]) -> tuple[str, Sequence[Any]]:
        """Return the statement that writes items of different ids and the same shared fields."""
        fields, now = additions[0].fields, additions[-1].now
        if len(additions) == 1:
            return self._text("one", fields), (*self._values(additions[0]), now)
        if all(map(_is_usual, additions)):
            return self._text("usual", fields), [*_transposed(map(_usual_values, additions)), now]
        form = "drawn" if additions[0].number is None else "numbered"
        return self._text(form, fields), [*self._arrays(additions), now]

    async def write(self, connection: Connection, additions: list[Addition]) -> dict[str, int]:
        """Write items of different ids and the same shared fields and return the versions of those not refused."""
        text, values = self.bound(additions)
        rows = await connection.fetch(text, *values, timeout=self._server.time_for(len(additions)))
        versions = {row["id"]: row["version"] for row in rows}
        await self.keep_vectors(connection, additions, versions)
        gone = [added.row.id for added in additions if added.deleted or not has_text(added.row.content)]
        await self._drop_vectors(connection, gone)
        return versions

    async def claim(self, connection: Connection, additions: list[Addition]) -> set[str]:
        """Lock the items of these ids, which come in order, and return the ids of those that were inserted.

        No other call can add a new one: either its row is inserted here already, or, in a partitioned table, its id is
        reserved.
        """
        in_time = self._server.time_for(len(additions))
        if self._dialect.partitioned:
            owners = [owner_of(addition.row.user_id) for addition in additions]
            ids = [addition.row.id for addition in additions]
            await connection.execute(self._statements.claim_ids(), ids, owners, timeout=in_time)
            return set()
        text = self._text("claim", ())
        rows = await connection.fetch(text, *self._arrays(additions), timeout=in_time)
        return {row["id"] for row in rows}

    async def locked(self, connection: Connection, ids: list[str]) -> list[Any]:
        """Lock the existing items of these ids, hidden ones too, and return their rows."""
        columns = f"{self._dialect.item_columns}, deleted, token, expires_at"
        text = f"SELECT {columns} FROM {self._dialect.table} WHERE {self._dialect.by_ids('$1')}"
        if self._dialect.partitioned:
            ids = await self._server.lock_items(connection, self._dialect, ids)
        else:
            text = f"{text} ORDER BY id FOR UPDATE"
        rows: list[Any] = await connection.fetch(text, ids, timeout=self._server.time_for(len(ids)))
        return rows

    async def any_exist(self, connection: Connection, ids: list[str]) -> bool:
        """Return True if an item of any of these ids exists, hidden or not."""
        found: bool = await connection.fetchval(
            f"SELECT EXISTS (SELECT FROM {self._dialect.table} WHERE {self._dialect.by_ids('$1')})",
            ids,
            timeout=self._server.time_for(len(ids)),
        )
        return found

    async def copy(self, connection: Connection, rows: Sequence[PackedRow], written: Iterable[tuple[Any, ...]]) -> None:
        """Write rows whose ids are new by COPY, which is faster than an insert, without vectors.

        ``written`` has the token, the number, the moment or None, the flag of deletion and the version of each.
        """
        schema, table, ids = self._dialect.names
        timeout = self._server.time_for(len(rows))
        if self._dialect.partitioned:
            await connection.copy_records_to_table(
                ids,
                schema_name=schema,
                columns=("id", "owner"),
                records=[(row.id, owner_of(row.user_id)) for row in rows],
                timeout=timeout,
            )
        await connection.copy_records_to_table(
            table,
            schema_name=schema,
            columns=self._statements.insert_columns,
            records=self._records(rows, written),
            timeout=timeout,
        )

    async def _records(
        self, rows: Sequence[PackedRow], written: Iterable[tuple[Any, ...]]
    ) -> AsyncGenerator[tuple[Any, ...], None]:
        """Yield the rows for COPY, giving other tasks a turn from time to time."""
        read = datetime.fromisoformat
        for count, (row, (token, number, moment, deleted, times)) in enumerate(zip(rows, written, strict=True)):
            time = read((moment or row.created_at)[:_TIME_WITHOUT_ZONE])
            if self._dialect.partitioned:
                yield (*row, token, number, time, owner_of(row.user_id), deleted, times)
            else:
                yield (*row, token, number, time, deleted, times)
            if count % _TURN == 0:
                await asyncio.sleep(0)

    async def draw(self, connection: Connection, count: int) -> Sequence[int | None]:
        """Return as many new numbers, in order; None stands for one that the statement draws itself."""
        if count <= 1:
            return [None] * count
        rows = await connection.fetch(
            f"SELECT nextval('{self._dialect.numbers_literal}') FROM generate_series(1, {count})",
            timeout=self._server.time_for(count),
        )
        return sorted(row[0] for row in rows)

    async def _drop_vectors(self, connection: Connection, ids: Sequence[str]) -> None:
        """Remove the vectors of items that are hidden or no longer have text."""
        if ids and self._has_vectors:
            await connection.execute(
                f"DELETE FROM {self._dialect.vectors} WHERE item_id = ANY($1::text[])",
                ids,
                timeout=self._server.time_for(len(ids)),
            )

    async def keep_vectors(
        self, connection: Connection, additions: Iterable[Addition], versions: Mapping[str, int]
    ) -> None:
        """Store the vectors of the items that got these versions."""
        if self._vectors is not None:
            kept = [
                (addition.row.id, versions[addition.row.id], addition.vectors)
                for addition in additions
                if addition.vectors is not None and addition.row.id in versions
            ]
            for start in range(0, len(kept), MOST_ROWS):
                await self._vectors.keep(connection, kept[start : start + MOST_ROWS])

    def _text(self, form: str, fields: tuple[str, ...]) -> str:
        text = self._texts.get((form, fields))
        if text is None:
            if form == "one":
                text = self._statements.upsert_one(fields)
            elif form == "claim":
                text = self._statements.insert_or_lock_arrays()
            elif form == "usual":
                text = self._statements.upsert_usual_arrays(fields)
            else:
                text = self._statements.upsert_arrays(fields, numbered=form == "numbered")
            self._texts[form, fields] = text
        return text

    def _arrays(self, additions: Sequence[Addition]) -> list[list[Any]]:
        return _transposed(map(self._values, additions))

    def _values(self, addition: Addition) -> tuple[Any, ...]:
        """Return the values of the insert columns for a statement, which takes the moment as text."""
        row, token, _, _, _, _, times, number, deleted, moment = addition
        owner = (owner_of(row.user_id),) if self._dialect.partitioned else ()
        return (*row, token, number, row.created_at if moment is None else moment, *owner, int(deleted), times)


def _transposed(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _is_usual(addition: Addition) -> bool:
    """Return True if the item needs only ``usual_columns``: fewer values are bound."""
    row = addition.row
    return row[10:16] == _USUAL_FURTHER and row[4] == "{}" and row[7] is None and addition[5:] == _USUAL_ADDITION


def _usual_values(addition: Addition) -> tuple[Any, ...]:
    item_id, content, memory_type, status, _, extra_json, created_at, _, user_id, session_id, *_, folded = addition.row
    return item_id, content, memory_type, status, extra_json, created_at, user_id, session_id, folded, addition.token


async def touch(server: Server, statements: PostgresStatements, upserts: Upserts, change: Change) -> int:
    """Let live items expire anew, as a change says; return how many there were. Their versions stay."""
    owned = " AND stored.owner = given.owner" if statements.dialect.partitioned else ""
    text = (
        f"UPDATE {statements.dialect.table} AS stored SET extra_json = given.extra, expires_at = given.ends "
        f"FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS given (id, owner, extra, ends) "
        f"WHERE stored.id = given.id{owned}"
    )

    async def work(connection: Connection) -> int:
        async with server.transaction(connection):
            rows = await upserts.locked(connection, sorted(set(change.ids or ())))
            touched = [values for row in rows if (values := _touched(row, change)) is not None]
            if touched:
                columns = [list(column) for column in zip(*touched, strict=True)]
                await connection.execute(text, *columns, timeout=server.time_for(len(touched)))
            return len(touched)

    return await server.run(work)


def _touched(row: Any, change: Change) -> Sequence[str] | None:
    """Return the id, owner, new extra fields and new expiry of a row; None if it stays as it is."""
    item = item_of(row)
    life = item.ttl if change.ttl is None else change.ttl
    has_expired = "" < row["expires_at"] <= change.now
    if row["deleted"] or has_expired or life is None or not metadata_matches(change.wanted.metadata, item.metadata):
        return None
    new = packed(with_lifetime(item, life, change.now))
    return new.id, owner_of(new.user_id), new.extra_json, new.expires_at


async def next_expiry(server: Server, statements: PostgresStatements) -> str | None:
    """Return when the next item expires."""
    rows = await server.fetch(f"SELECT min(expires_at) FROM {statements.dialect.table} WHERE expires_at > ''", ())
    soonest: str | None = rows[0][0]
    return soonest
