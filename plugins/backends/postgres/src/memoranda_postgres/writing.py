"""Writing items: concurrent adds share a statement and a commit, large batches use COPY, updates compare versions.

Every write is safe to repeat. A row keeps the token of the call that wrote it. When the answer to a write is lost and
the call is repeated with the same token, a row that has the token already keeps its version. A row that another call
wrote in between is overwritten, as by a call that came a moment later.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
from collections.abc import Container, Hashable, Iterable, Sequence
from typing import Any

import asyncpg

from memoranda.errors import IdConflictError, MemoryError, VersionConflictError
from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.loops import offload
from memoranda.store import copy_item
from memoranda.store.backend import check_expected, metadata_matches, successor
from memoranda_backend.batching import WriteBatcher
from memoranda_backend.sql import replacing_text
from memoranda_postgres.connections import Connection
from memoranda_postgres.dialect import PostgresStatements
from memoranda_postgres.rows import CALENDAR_ENDS, Addition, PackedRow, item_of
from memoranda_postgres.server import Server
from memoranda_postgres.upserts import MOST_ROWS, Upserts
from memoranda_postgres.vectors import Vectors

_COPY_FROM = 64
"""From how many items on a batch is copied, if all of its ids are new."""

_SAMPLE = 200
"""How many ids of a large batch are looked up to see if it is new."""


_GROWN = 1_000
"""From how many items on a batch may change how the server should read the table."""


class HeldByExpiredError(Exception):
    """An id that is to be written is held by an item that has expired; that one has to be removed first."""


def check_lives(row: Any, now: str) -> None:
    """Raise HeldByExpiredError if a stored row has expired."""
    if "" < row["expires_at"] <= now:
        raise HeldByExpiredError


class _AddedMeanwhileError(Exception):
    """An id that was new when it was looked up has been added by another call."""


def shared_fields(row: PackedRow, within: MemoryMetadata | None) -> tuple[str, ...] | None:
    """Return the fields in which a stored row must equal this one to lie in ``within``; None if fields cannot say it.

    A scoped handle stamps its items, so the item itself carries the scope and adds from many scopes can share one
    statement.
    """
    if within is None:
        return ()
    named = tuple(name for name in SCOPE_FIELDS if getattr(within, name) is not None)
    if within.extra or within.namespace or any(getattr(within, name) != getattr(row, name) for name in named):
        return None
    return named


class Writer:
    """Writes items for one store."""

    def __init__(
        self,
        server: Server,
        statements: PostgresStatements,
        vectors: Vectors | None = None,
        *,
        has_vectors: bool = False,
    ) -> None:
        self._server = server
        self._table = statements.dialect.table
        self._vectors = vectors
        self.upserts = Upserts(server, statements, vectors, has_vectors=has_vectors)
        # Numbers that no other call, in any process, will use for the same row.
        self._tokens = itertools.count(secrets.randbits(62)).__next__
        self._batcher: WriteBatcher[Addition, None] = WriteBatcher(
            self._write_batch, key=lambda addition: addition.row.id, kind=_batch_kind, parallel=2
        )

    def addition(self, row: PackedRow, within: MemoryMetadata | None, now: str) -> Addition:
        """Return a row as it is written."""
        fields = shared_fields(row, within)
        return Addition(row, self._tokens(), fields or (), within if fields is None else None, now)

    async def add(self, addition: Addition) -> None:
        """Write one item, in a batch with those that other tasks add meanwhile."""
        await self._batcher.add(addition)

    @property
    def waiting(self) -> int:
        """How many items wait for the next batch."""
        return self._batcher.waiting

    async def settled(self) -> None:
        """Wait until every add so far is done."""
        await self._batcher.settled()

    async def _write_batch(self, additions: list[Addition]) -> Sequence[IdConflictError | None]:
        """Write items of different ids, and return a conflict for each that was refused."""
        refused = await self._write_refusing(additions)
        if not refused:
            return [None] * len(additions)
        return [IdConflictError(each.row.id) if each.row.id in refused else None for each in additions]

    async def _write_refusing(self, additions: list[Addition]) -> set[str]:
        """Write items of different ids and return the ids that were refused."""
        if additions[0].within is not None:
            await self.add_together(additions)
            return set()
        if self._vectors is None:
            text, values = self.upserts.bound(additions)
            rows = await self._server.fetch(text, values)
            return set() if len(rows) == len(additions) else _refused(additions, {row["id"] for row in rows})

        async def work(connection: Connection) -> set[str]:
            async with self._server.transaction(connection):
                return _refused(additions, await self.upserts.write(connection, additions))

        return await self._server.run(work)

    def additions(
        self, rows: Sequence[PackedRow], within: MemoryMetadata | None, now: str, *, keep_created: bool = False
    ) -> list[Addition]:
        """Return rows as they are written, in their order, each id once.

        For several items of one id the last content counts, at the position of the first, and each is a version; with
        ``keep_created`` the time of the first one counts. Raises IdConflictError where a later item may not replace an
        earlier one.
        """
        additions: dict[str, Addition] = {}
        for row in rows:
            addition = self.addition(row, within, now)
            before = additions.get(row.id)
            if before is not None:
                if before.row.user_id != row.user_id or not metadata_matches(within, before.row.scope):
                    raise IdConflictError(row.id)
                row = row.with_created(before.row.created_at) if keep_created else row
                old, version = before.row, before.times
                further = replacing_text(old.extra_json, old.memory_type, version, row.extra_json, row.memory_type)
                row = row._replace(extra_json=further)
                addition = addition._replace(row=row, times=before.times + 1)
            additions[row.id] = addition
        return list(additions.values())

    async def add_together(self, additions: list[Addition]) -> None:
        """Write items of different ids in one transaction. Raises IdConflictError, and then nothing was written."""
        copying = len(additions) >= _COPY_FROM and not any(each.row.created_at in CALENDAR_ENDS for each in additions)

        async def work(connection: Connection) -> None:
            async with self._server.transaction(connection):
                numbered = await self.numbered(connection, additions)
                if copying and not await self.upserts.any_exist(connection, [added.row.id for added in numbered]):
                    written = (
                        (each.token, each.number, each.moment, int(each.deleted), each.times) for each in numbered
                    )
                    await self._copy(connection, [each.row for each in numbered], written)
                    await self.upserts.keep_vectors(
                        connection, numbered, {added.row.id: added.times for added in numbered}
                    )
                else:
                    await self._upsert(connection, numbered)

        try:
            await self._server.run(work)
        except _AddedMeanwhileError:
            copying = False
            await self._server.run(work)
        await self._count_anew(len(additions))

    async def add_large(self, rows: Sequence[PackedRow], within: MemoryMetadata | None, now: str) -> None:
        """Write a large batch in one transaction.

        Rows whose ids are new keep the given order, so that neighbours are stored together. Raises IdConflictError, and
        then nothing was written.
        """
        token = self._tokens()
        is_copied = len({row.id for row in rows}) < len(rows) or any(row.created_at in CALENDAR_ENDS for row in rows)

        async def work(connection: Connection) -> bool:
            nonlocal is_copied
            if is_copied:
                return False  # The second try writes in the order of ids, over whatever the first has met or left.
            is_copied = True
            async with self._server.transaction(connection):
                sample = [row.id for row in rows[:: max(1, len(rows) // _SAMPLE)]]
                if await self.upserts.any_exist(connection, sample):
                    return False
                numbers = await self.upserts.draw(connection, len(rows))
                await self._copy(connection, rows, ((token, number, None, 0, 1) for number in numbers))
            return True

        try:
            if await self._server.run(work):
                await self._count_anew(len(rows))
                return
        except _AddedMeanwhileError:
            pass
        additions = await offload(len(rows), self.additions, rows, within, now)
        await self.add_together([addition._replace(token=token) for addition in additions])

    async def _count_anew(self, added: int) -> None:
        """Let the server look at a table in which it knows fewer rows than were just added.

        It does so by itself within a minute, and until then reads and sorts everything, as in a table of a few rows.
        """

        async def look(connection: Connection) -> None:
            text = "SELECT reltuples FROM pg_class WHERE oid = to_regclass($1::text)"
            known = await connection.fetchval(text, self._table, timeout=self._server.timeout)
            if known is not None and known < added:
                await connection.execute(f"ANALYZE {self._table}", timeout=self._server.time_for(added))

        if added >= _GROWN:
            with contextlib.suppress(MemoryError):  # The items are stored.
                await self._server.run(look)

    async def numbered(self, connection: Connection, additions: Sequence[Addition]) -> list[Addition]:
        """Return the additions, numbered in the given order and sorted into the order of locking."""
        numbers = await self.upserts.draw(connection, len(additions))
        numbered = [addition._replace(number=number) for addition, number in zip(additions, numbers, strict=True)]
        return sorted(numbered, key=lambda addition: addition.row.id)

    async def _copy(
        self, connection: Connection, rows: Sequence[PackedRow], written: Iterable[tuple[Any, ...]]
    ) -> None:
        try:
            await self.upserts.copy(connection, rows, written)
        except asyncpg.UniqueViolationError as error:
            raise _AddedMeanwhileError from error

    async def _upsert(self, connection: Connection, additions: list[Addition]) -> None:
        for chunk in _chunks(additions):
            for group in _sharing_a_statement(chunk):
                if group[0].within is not None:
                    group = await self._checked_scope(connection, group)
                await self.write_all(connection, group)

    async def _checked_scope(self, connection: Connection, additions: list[Addition]) -> list[Addition]:
        """Compare the stored rows with a scope that fields cannot express, and return what is left to write.

        Raises IdConflictError for a row outside the scope.
        """
        written = await self.claim(connection, additions)
        left = {addition.row.id: addition for addition in additions if addition.row.id not in written}
        for row in await self.upserts.locked(connection, list(left)) if left else ():
            addition = left[row["id"]]
            # A row that this very call wrote, before its answer was lost, was in the scope then.
            if row["token"] != addition.token and not metadata_matches(addition.within, item_of(row).metadata):
                raise IdConflictError(row["id"])
        return list(left.values())

    async def claim(self, connection: Connection, additions: list[Addition]) -> set[str]:
        """Lock items, inserting those that are new, and return the ids of the inserted ones."""
        written = await self.upserts.claim(connection, additions)
        versions = {addition.row.id: addition.times for addition in additions if addition.row.id in written}
        await self.upserts.keep_vectors(connection, additions, versions)
        return written

    async def write_all(self, connection: Connection, additions: list[Addition]) -> dict[str, int]:
        """Write items that share a statement and return their versions. Raises IdConflictError if one is refused."""
        versions: dict[str, int] = {}
        for chunk in _chunks(additions):
            versions |= await self.upserts.write(connection, chunk)
        for addition in additions:
            if addition.row.id not in versions:
                raise IdConflictError(addition.row.id)
        return versions

    async def update_together(
        self, items: Sequence[MemoryItem], additions: Sequence[Addition], within: MemoryMetadata | None, now: str
    ) -> list[MemoryItem]:
        """Compare and set items, given with their additions, all or none; return them with new versions.

        Raises HeldByExpiredError.
        """

        async def work(connection: Connection) -> list[MemoryItem]:
            async with self._server.transaction(connection):
                return await self._update_on(connection, items, additions, within, now)

        return await self._server.run(work)

    async def _update_on(
        self,
        connection: Connection,
        items: Sequence[MemoryItem],
        additions: Sequence[Addition],
        within: MemoryMetadata | None,
        now: str,
    ) -> list[MemoryItem]:
        in_order = await self.numbered(connection, additions)
        new = {item.id for item in items if not item.version}
        written = await self._claimed_new(connection, in_order, new)
        rows = {row["id"]: row for row in await self.upserts.locked(connection, [item.id for item in items])}
        updated: dict[str, MemoryItem] = {}
        changing = set()
        for item, addition in zip(items, additions, strict=True):
            row = None if item.id in written else rows.get(item.id)
            if row is not None and row["token"] == addition.token:
                # This very call wrote it before its answer was lost.
                updated[item.id] = _as_written(item, item_of(row))
                continue
            if row is not None:
                check_lives(row, now)
            stored = None if row is None else item_of(row)
            check_expected(item, None if row is None or row["deleted"] else stored, within)
            updated[item.id] = successor(stored, item, within)
            if item.id not in written:
                changing.add(item.id)
        changes = [addition for addition in in_order if addition.row.id in changing]
        # Where another call has added a new one meanwhile, that call wins.
        for item_id, version in (await self.write_all(connection, changes)).items():
            if version != updated[item_id].version:
                raise VersionConflictError(item_id, 0, version - 1)
        return list(updated.values())

    async def _claimed_new(self, connection: Connection, additions: list[Addition], new: set[str]) -> set[str]:
        """Lock items of which some may be ``new``, and return the ids of those that this has inserted.

        Existing items are locked when they are read, all at once and in order, and so is a single item. Only new ones
        among several have to be inserted in that order.
        """
        written: set[str] = set()
        if new and len(additions) > 1:
            for chunk in _chunks(additions):
                # The call fails if one that should exist does not, so its content need not be sent here.
                claimed = [added if added.row.id in new else _without_content(added) for added in chunk]
                written |= await self.upserts.claim(connection, claimed)
            await self.upserts.keep_vectors(connection, additions, dict.fromkeys(written, 1))
        return written


def _as_written(item: MemoryItem, stored: MemoryItem) -> MemoryItem:
    copied = copy_item(item)
    copied.__dict__.update(version=stored.version, trust=stored.trust)
    return copied


def _without_content(addition: Addition) -> Addition:
    return addition._replace(row=addition.row._replace(content="", folded=None))


def _chunks(additions: list[Addition]) -> Iterable[list[Addition]]:
    return (additions[start : start + MOST_ROWS] for start in range(0, len(additions), MOST_ROWS))


def _sharing_a_statement(additions: list[Addition]) -> Iterable[list[Addition]]:
    """Divide additions into runs that one statement can write."""
    return (list(run) for _, run in itertools.groupby(additions, key=lambda each: (each.fields, each.within is None)))


def _batch_kind(addition: Addition) -> Hashable:
    """Return what additions of one batch have in common; one whose scope fields cannot express it goes alone."""
    return addition.fields if addition.within is None else object()


def _refused(additions: Iterable[Addition], written: Container[str]) -> set[str]:
    return {addition.row.id for addition in additions if addition.row.id not in written}
