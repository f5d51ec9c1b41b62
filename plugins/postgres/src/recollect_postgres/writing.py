"""Writing items: concurrent adds share a statement and a commit, many items go in arrays, changes compare versions.

Every write is safe to repeat. A row keeps the token of the call that wrote it; when the answer to a write is lost and
the call is made again with the same token, a row that has it already is left at the version it got. Whoever else wrote
the row in between is overwritten by the repeated call, as by a call that came a moment later.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncGenerator, Container, Iterable, Mapping, Sequence
from typing import Any

import asyncpg

from recollect.errors import IdConflictError, VersionConflictError
from recollect.items import MemoryItem, MemoryMetadata
from recollect.query import fold, metadata_matches
from recollect.records import SCOPE_FIELDS, copy_item
from recollect.sql import ITEM_COLUMNS, pack, unpack
from recollect.store import check_expected, successor
from recollect_postgres.connections import Connection
from recollect_postgres.dialect import PostgresStatements, exact_row, further_values, owner_of
from recollect_postgres.gathering import Addition, Gathering
from recollect_postgres.server import Server
from recollect_postgres.text import indexed_terms
from recollect_postgres.vectors import Vectors

_CHUNK = 1000
_COPY_FROM = 64
_COPIED_TOGETHER = 10_000
_TURN = 100
_WIDTH = len(ITEM_COLUMNS)


class _AddedMeanwhileError(Exception):
    """An id that was new when it was looked up has been added by somebody else."""


class Tokens:
    """Numbers that no other call, of this process or another, will have on the same row."""

    def __init__(self) -> None:
        self._next = itertools.count(secrets.randbits(62))

    def __call__(self) -> int:
        return next(self._next) & (2**63 - 1)


def shared_fields(item: MemoryItem, within: MemoryMetadata | None) -> tuple[str, ...] | None:
    """Return the fields in which a row must equal the item to lie in ``within``, or None where these cannot say it.

    A scoped handle stamps its items, so that the item itself carries the scope. Adds from many scopes can then share
    one statement.
    """
    if within is None:
        return ()
    named = tuple(name for name in SCOPE_FIELDS if getattr(within, name) is not None)
    if within.extra or any(getattr(within, name) != getattr(item.metadata, name) for name in named):
        return None
    return named


class Writer:
    """Writes items for one store."""

    def __init__(self, server: Server, statements: PostgresStatements, vectors: Vectors | None = None) -> None:
        self._server = server
        self._statements = statements
        self._partitioned = statements.dialect.partitioned
        self._vectors = vectors
        self._tokens = Tokens()
        self._texts: dict[tuple[str, tuple[str, ...]], str] = {}
        self._gathering = Gathering(self._write)

    def addition(self, item: MemoryItem, within: MemoryMetadata | None) -> Addition:
        """Take everything that is needed from an item."""
        fields = shared_fields(item, within)
        return Addition(
            exact_row(pack(item)),
            further_values(item),
            self._tokens(),
            fields or (),
            within if fields is None else None,
        )

    async def add(self, addition: Addition) -> None:
        """Write one item, together with those that others add meanwhile."""
        await self._gathering.add(addition)

    async def settled(self) -> None:
        """Wait until every add that has begun is done."""
        await self._gathering.settled()

    async def _write(self, additions: list[Addition]) -> set[str]:
        """Write items of different ids and return the ids that were refused."""
        if additions[0].within is not None:
            await self.add_together(additions)
            return set()
        if self._vectors is None:
            text, values = self._bound(additions)
            rows = await self._server.fetch(text, values)
            return set() if len(rows) == len(additions) else _refused(additions, {row["id"] for row in rows})

        async def work(connection: Connection) -> set[str]:
            async with self._server.transaction(connection):
                return _refused(additions, await self._write_on(connection, additions))

        return await self._server.run(work)

    def additions(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[Addition]:
        """Take everything that is needed from items, in their order, each id once.

        Of items of the same id the last content counts, in the place of the first, and each is a version. Raises
        IdConflictError where a later one would not be allowed to replace the one before it.
        """
        additions: dict[str, Addition] = {}
        earlier: dict[str, MemoryMetadata] = {}
        for item in items:
            addition = self.addition(item, within)
            before = additions.get(item.id)
            if before is not None:
                scope = earlier[item.id]
                if scope.user_id != item.metadata.user_id or not metadata_matches(within, scope):
                    raise IdConflictError(item.id)
                addition = addition._replace(times=before.times + 1)
            additions[item.id] = addition
            earlier[item.id] = item.metadata
        return list(additions.values())

    async def add_together(self, additions: list[Addition]) -> None:
        """Write items of different ids in one transaction. Raises IdConflictError, and then nothing was written."""
        # Locks taken in one order everywhere cannot wait for each other in a circle.
        in_order = sorted(enumerate(additions), key=lambda numbered: numbered[1].row.id)
        copying = len(additions) >= _COPY_FROM

        async def work(connection: Connection) -> None:
            async with self._server.transaction(connection):
                numbers = await self._draw(connection, len(additions))
                numbered = [addition._replace(number=numbers[place]) for place, addition in in_order]
                if copying and not await self._any_there(connection, [addition.row.id for addition in numbered]):
                    await self._copy(connection, numbered)
                else:
                    await self._upsert(connection, numbered)

        try:
            await self._server.run(work)
        except _AddedMeanwhileError:
            copying = False
            await self._server.run(work)

    async def _upsert(self, connection: Connection, additions: list[Addition]) -> None:
        for chunk in _chunks(additions):
            for group in _alike(chunk):
                there = await self._checked_scope(connection, group)
                versions = await self._write_on(connection, group)
                for addition in group:
                    version = versions.get(addition.row.id)
                    # A row that was added since the scope was checked may lie outside of it.
                    unseen = addition.within is not None and addition.row.id not in there
                    if version is None or (unseen and version != addition.times):
                        raise IdConflictError(addition.row.id)

    async def _copy(self, connection: Connection, additions: list[Addition]) -> None:
        """Write rows whose ids are new by COPY, which takes half the time of an insert."""
        try:
            for start in range(0, len(additions), _COPIED_TOGETHER):
                await self._copy_some(connection, additions[start : start + _COPIED_TOGETHER])
        except asyncpg.UniqueViolationError as error:
            raise _AddedMeanwhileError from error
        await self._keep_vectors(connection, additions, {addition.row.id: addition.times for addition in additions})

    async def _copy_some(self, connection: Connection, additions: list[Addition]) -> None:
        schema, table, ids = self._statements.dialect.names
        if self._partitioned:
            owners = [(addition.row.id, owner_of(addition.further[0])) for addition in additions]
            await connection.copy_records_to_table(
                ids, schema_name=schema, columns=("id", "owner"), records=owners, timeout=self._server.timeout
            )
        await connection.copy_records_to_table(
            table,
            schema_name=schema,
            columns=self._statements.insert_columns,
            records=self._unhurried(additions),
            timeout=self._server.timeout,
        )

    async def _unhurried(self, additions: list[Addition]) -> AsyncGenerator[tuple[Any, ...], None]:
        """Yield the rows; making their terms takes a while, in which other calls get their turn."""
        for place, addition in enumerate(additions):
            if place % _TURN == 0:
                await asyncio.sleep(0)
            yield self._values(addition)

    async def _any_there(self, connection: Connection, ids: list[str]) -> bool:
        dialect = self._statements.dialect
        found: bool = await connection.fetchval(
            f"SELECT EXISTS (SELECT FROM {dialect.table} WHERE {dialect.by_ids('$1')})",
            ids,
            timeout=self._server.timeout,
        )
        return found

    async def _draw(self, connection: Connection, count: int) -> Sequence[int | None]:
        """Return as many new numbers, in their order."""
        if count == 1:
            return [None]
        drawn = (
            f"SELECT nextval('{self._statements.dialect.numbers_literal}') AS number FROM generate_series(1, {count})"
        )
        first, last = await connection.fetchrow(
            f"SELECT min(number), max(number) FROM ({drawn}) AS drawn", timeout=self._server.timeout
        )
        # Numbers that others drew at the same time lie in between; then only the list itself will do.
        if last - first + 1 == count:
            return range(first, last + 1)
        rows = await connection.fetch(drawn, timeout=self._server.timeout)
        return sorted(row[0] for row in rows)

    async def _checked_scope(self, connection: Connection, additions: list[Addition]) -> set[str]:
        """Look at the rows themselves where the shared fields cannot say what ``within`` asks; return their ids."""
        scopes = {addition.row.id: addition.within for addition in additions if addition.within is not None}
        rows = await self._locked_rows(connection, list(scopes)) if scopes else []
        for row in rows:
            if not metadata_matches(scopes[row["id"]], unpack(row[:_WIDTH]).metadata):
                raise IdConflictError(row["id"])
        return {row["id"] for row in rows}

    async def _locked_rows(self, connection: Connection, ids: list[str]) -> list[Any]:
        """Lock the rows of these ids, hidden ones too, in the order of their ids, and return them."""
        dialect = self._statements.dialect
        rows: list[Any] = await connection.fetch(
            f"SELECT {', '.join(ITEM_COLUMNS)}, deleted, token FROM {dialect.table} WHERE {dialect.by_ids('$1')} "
            f'ORDER BY id COLLATE "C" FOR UPDATE',
            ids,
            timeout=self._server.timeout,
        )
        return rows

    async def update_together(
        self, items: Sequence[MemoryItem], additions: Sequence[Addition], within: MemoryMetadata | None
    ) -> list[MemoryItem]:
        """Compare and set items, given with their additions, all or none; return them with their new versions."""

        async def work(connection: Connection) -> list[MemoryItem]:
            async with self._server.transaction(connection):
                return await self._update_on(connection, items, additions, within)

        return await self._server.run(work)

    async def _update_on(
        self,
        connection: Connection,
        items: Sequence[MemoryItem],
        additions: Sequence[Addition],
        within: MemoryMetadata | None,
    ) -> list[MemoryItem]:
        rows = {row["id"]: row for row in await self._locked_rows(connection, [item.id for item in items])}
        updated, changes = [], []
        for item, addition in zip(items, additions, strict=True):
            row = rows.get(item.id)
            if row is not None and row["token"] == addition.token:
                # This very call wrote it before its answer was lost.
                updated.append(_with_version(item, row["version"]))
                continue
            stored = None if row is None else unpack(row[:_WIDTH])
            check_expected(item, None if row is None or row["deleted"] else stored, within)
            updated.append(successor(stored, item, within))
            changes.append(addition)
        if changes:
            numbers = await self._draw(connection, len(changes))
            numbered = [addition._replace(number=number) for addition, number in zip(changes, numbers, strict=True)]
            numbered.sort(key=lambda addition: addition.row.id)
            await self._set_versions(connection, numbered, {item.id: item.version for item in updated})
        return updated

    async def _set_versions(self, connection: Connection, changes: list[Addition], versions: dict[str, int]) -> None:
        """Write rows that are locked or not there yet; whoever added one of the latter meanwhile was first."""
        for chunk in _chunks(changes):
            written = await self._write_on(connection, chunk)
            for addition in chunk:
                item_id = addition.row.id
                if item_id not in written:
                    raise IdConflictError(item_id)
                if written[item_id] != versions[item_id]:
                    raise VersionConflictError(item_id, 0, written[item_id] - 1)

    async def _write_on(self, connection: Connection, additions: list[Addition]) -> dict[str, int]:
        """Write items of different ids and the same shared fields and return the versions of those not refused."""
        text, values = self._bound(additions)
        rows = await connection.fetch(text, *values, timeout=self._server.timeout)
        versions = {row["id"]: row["version"] for row in rows}
        await self._keep_vectors(connection, additions, versions)
        return versions

    async def _keep_vectors(
        self, connection: Connection, additions: Iterable[Addition], versions: Mapping[str, int]
    ) -> None:
        if self._vectors is not None:
            kept = [
                (addition.row.id, versions[addition.row.id], addition.vector)
                for addition in additions
                if addition.vector is not None and addition.row.id in versions
            ]
            for start in range(0, len(kept), _CHUNK):
                await self._vectors.keep(connection, kept[start : start + _CHUNK])

    def _bound(self, additions: list[Addition]) -> tuple[str, Sequence[Any]]:
        fields = additions[0].fields
        if len(additions) == 1:
            return self._text("one", fields), self._values(additions[0])
        return self._text("drawn" if additions[0].number is None else "numbered", fields), self._arrays(additions)

    def _text(self, form: str, fields: tuple[str, ...]) -> str:
        text = self._texts.get((form, fields))
        if text is None:
            if form == "one":
                text = self._statements.upsert_one(fields)
            else:
                text = self._statements.upsert_arrays(fields, numbered=form == "numbered")
            self._texts[form, fields] = text
        return text

    def _arrays(self, additions: Sequence[Addition]) -> list[list[Any]]:
        return [list(column) for column in zip(*map(self._values, additions), strict=True)]

    def _values(self, addition: Addition) -> tuple[Any, ...]:
        """Return the values of the insert columns."""
        content = addition.row.content
        values = (
            *addition.row,
            *addition.further,
            fold(content),
            indexed_terms(content),
            addition.token,
            addition.number,
        )
        if self._partitioned:
            return (*values, owner_of(addition.further[0]), 0, addition.times)
        return (*values, 0, addition.times)


def _with_version(item: MemoryItem, version: int) -> MemoryItem:
    copied = copy_item(item)
    copied.__dict__["version"] = version
    return copied


def _chunks(additions: list[Addition]) -> Iterable[list[Addition]]:
    return (additions[start : start + _CHUNK] for start in range(0, len(additions), _CHUNK))


def _alike(additions: list[Addition]) -> Iterable[list[Addition]]:
    """Divide neighbours that cannot share a statement."""
    return (list(group) for _, group in itertools.groupby(additions, key=lambda addition: addition.fields))


def _refused(additions: Iterable[Addition], written: Container[str]) -> set[str]:
    return {addition.row.id for addition in additions if addition.row.id not in written}
