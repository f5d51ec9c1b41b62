"""The engine of the SQLite store: requests become statements, which connections with threads of their own run."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from memoranda.errors import IdConflictError, MemoryError, StoreClosedError, StoreMisuseError, StoreNotFoundError
from memoranda.items import Changes, MemoryItem, MemoryMetadata
from memoranda.loops import ITEMS_PER_TURN, CallsUnderWay, import_in_thread, offload
from memoranda.store import Capability, Owner, RankedItem, copy_item
from memoranda.store.backend import (
    BASE_CAPABILITIES,
    Change,
    Engine,
    InBranch,
    Listing,
    Opened,
    Opening,
    Query,
    Write,
    Written,
    rank_scope,
    readable,
)
from memoranda_backend.sql import PAYLOAD_COLUMNS, unpack, unpack_payload, unpack_readable
from memoranda_backend.windows import staying_apart
from memoranda_sqlite import erasing, schema
from memoranda_sqlite.connections import Connections
from memoranda_sqlite.files import Database, url_of
from memoranda_sqlite.payload_changes import payload_changes
from memoranda_sqlite.scanning import listed, scanned
from memoranda_sqlite.searching import DIRECT_LIMIT, count_rows, search_page, window_at_once
from memoranda_sqlite.statements import INSERT, STATEMENTS, ScopedUpsert, Upsert
from memoranda_sqlite.tables import CONTENT, ID, BoundRow, all_packed, packed
from memoranda_sqlite.transactions import Transactions, keep_vectors, next_expiry

if TYPE_CHECKING:
    from memoranda.embeddings import Embeddings
    from memoranda_backend.ranking import Weights
    from memoranda_sqlite.retrieval import Retrieval
    from memoranda_sqlite.vectors import Vectors

logger = logging.getLogger(__name__)

T = TypeVar("T")

_NOTHING = Written()
_UPSERT = STATEMENTS.upserting(None)
_MOST_SCOPES = 1_024
"""For how many scopes the statements that store rows are kept."""


class SQLiteEngine(Engine):
    """Keeps items in one SQLite file, which several processes may use at once."""

    capabilities = BASE_CAPABILITIES | {
        Capability.PERSISTENT,
        Capability.ATOMIC,
        Capability.DELETE,
        Capability.ADD_DELETED,
        Capability.PURGE,
        Capability.TTL,
        Capability.FORK,
    }
    packer = staticmethod(all_packed)
    reads_staying = True
    ranks_together = True

    def __init__(self, database: Database, embeddings: Embeddings | None, weights: Weights | None) -> None:
        if database.in_memory:
            self.capabilities = self.capabilities - {Capability.PERSISTENT}
        if embeddings is not None:
            self.capabilities = self.capabilities | {Capability.SEMANTIC, Capability.HYBRID}
        self.database = database
        self.embeddings = embeddings
        self.vectors: Vectors | None = None
        """What makes the vectors of items, while the engine is open and has an embedder."""
        self.calls = CallsUnderWay()
        """The calls that use the connections more than once: closing waits for them."""
        self._weights = weights
        self._retrieval: Retrieval | None = None
        self._opening: Opening | None = None
        self._connections: Connections | None = None
        self._closing = False
        self._scopes: dict[int, ScopedUpsert] = {}

    # Lifecycle

    async def exists(self) -> bool:
        """Return True if there is a file with memories."""
        return await asyncio.to_thread(self.database.exists)

    async def open(self, opening: Opening) -> Opened:
        """Open the file, and create or update its tables unless it is opened for reading only."""
        if opening.access != "create" and not await self.exists():
            similar = await asyncio.to_thread(self.database.alike)
            raise StoreNotFoundError(opening.label, [url_of(path) for path in similar])
        reading = opening.access == "read"
        connections = await Connections.open(self.database.for_reading() if reading else self.database)
        try:
            if self.embeddings is not None:
                from memoranda_sqlite.vectors import Vectors  # Loaded on use: most programs have no embedder.

                self.vectors = Vectors(self.embeddings, self._weights)
                await self.vectors.open(connections, opening.label)
            # The writer is open anyway. A reader, which opens with its first call, would cost a connection.
            opened = await connections.worker.run(_opened)
        except BaseException:
            await connections.close()
            raise
        self._opening, self._connections, self._closing = opening, connections, False
        return opened

    async def close(self) -> None:
        """Wait for calls under way and close all connections."""
        self._closing = True
        await self.calls.ended()
        connections, self._connections = self._connections, None
        self._retrieval = None  # Its caches belong to these connections.
        if connections is not None:
            await connections.close()

    @property
    def connections(self) -> Connections:
        """The open connections. Raises StoreClosedError if there are none, StoreMisuseError in a forked child."""
        connections = self._connections
        if connections is None or connections.forked:
            raise self._unusable()
        return connections

    def _unusable(self) -> MemoryError:
        label = repr(self.database.path) if self._opening is None else self._opening.label
        if self._connections is None:
            return StoreClosedError(label, opened=self._opening is not None)
        return StoreMisuseError(
            f"{label} was opened before this process was forked from its parent. Open a store of its own here."
        )

    def _still_open(self) -> Connections:
        """Return the connections for the next part of a long read. Raises StoreClosedError once closing has begun."""
        connections = self.connections
        if self._closing and self._opening is not None:
            raise StoreClosedError(self._opening.label)
        return connections

    @property
    def item_types(self) -> Mapping[str, type[MemoryItem]]:
        """The classes that items are read as."""
        assert self._opening is not None, "an open engine was told what items are read as"
        return self._opening.item_types()

    def gauges(self) -> dict[str, int]:
        """Return how many writes wait for the writer, and about how many rows for the text indexes; in any thread."""
        connections = self._connections
        if connections is None or connections.forked:
            return {}
        return {"writer.queue": connections.writer.waiting, "index.backlog": connections.indexer.waiting}

    # Writing

    async def write(self, write: Write) -> Written:
        """Carry out a write, in one transaction with those of other callers."""
        if write.change is not None:
            return await self._changed(write.change)
        if write.compared:
            return await self._compared(write)
        if len(write.adds) == 1:
            rows: Sequence[BoundRow] = [packed(write.adds[0])]
        elif write.packed is None:
            rows = await self._aside(all_packed, write.adds)
        elif await self._streamed(write):
            return _NOTHING
        else:
            rows = await write.packed.all()
        vectors = () if self.vectors is None else await self._vectors_of(rows, write.hidden)
        if write.is_plain:
            stored = self.connections.writer.upsert(self._upsert(rows, write.within), rows, vectors, write.now)
            if await stored:
                self._forget_expired()
            return _NOTHING
        if write.fresh and not (write.hidden or write.deletes or write.expected):
            with suppress(IdConflictError):  # The transaction below tells which conflict it is.
                await self.connections.writer.upsert(INSERT, rows, vectors)
                return _NOTHING
        transactions = self._transactions()

        def work(connection: sqlite3.Connection) -> int:
            removed = transactions.apply(connection, write, rows)
            keep_vectors(connection, vectors)
            return removed

        with self.calls.call():
            removed = await self.connections.writer.call(work, len(rows))
            if transactions.has_swept:
                self._forget_expired()
            if removed and write.purge:
                await self._erase_purged()
        return Written(removed)

    async def _streamed(self, write: Write) -> bool:
        """Store rows while the next ones are made. Return False, with nothing stored, if all must be there first."""
        packed = write.packed
        if packed is None or not write.is_plain or self.vectors is not None:
            return False
        upsert = _UPSERT if write.within is None else self._scoped(write.within).bound
        with self.calls.call():
            return await self.connections.writer.stream(upsert, packed.slices(), packed.count, write.now)

    def _upsert(self, rows: Sequence[BoundRow], within: MemoryMetadata | None) -> Upsert:
        """Return the statement that stores rows within a scope."""
        if within is None:
            return _UPSERT
        known = self._scoped(within)
        if known.shared is None or len(rows) > ITEMS_PER_TURN:
            return known.bound
        for row in rows:
            for column, value in known.carried:
                if row[column] != value:
                    return known.bound
        return known.shared

    def _scoped(self, within: MemoryMetadata) -> ScopedUpsert:
        """Return how rows are stored within a scope. A handle names the same object at every call."""
        known = self._scopes.get(id(within))
        if known is None or known.within is not within:
            if len(self._scopes) >= _MOST_SCOPES:
                self._scopes.clear()
            known = self._scopes[id(within)] = STATEMENTS.upserting_within(within)
        return known

    async def _compared(self, write: Write) -> Written:
        kept = await self._aside(_copied_and_packed, write.adds)
        vectors = () if self.vectors is None else await self._vectors_of([row for _, row in kept])
        if not any(item.version for item, _ in kept):
            with suppress(IdConflictError):  # The transaction below tells whether what holds the id is shown.
                await self.connections.writer.upsert(INSERT, [row for _, row in kept], vectors)
                for item, _ in kept:
                    item.__dict__["version"] = 1
                return Written(0, [item for item, _ in kept])
        transactions = self._transactions()

        def work(connection: sqlite3.Connection) -> list[tuple[int, str | None]]:
            if write.now:
                transactions.remove_expired(connection, [item.id for item, _ in kept], write.now)
            stored = [transactions.update(connection, item, row, write.within) for item, row in kept]
            keep_vectors(connection, vectors)
            return stored

        stored = await self.connections.writer.call(work)
        if transactions.has_swept:
            self._forget_expired()
        for (item, _), (version, trust) in zip(kept, stored, strict=True):
            item.__dict__.update(version=version, trust=trust)
        return Written(0, [item for item, _ in kept])

    async def _aside(self, work: Callable[[Sequence[MemoryItem]], T], items: Sequence[MemoryItem]) -> T:
        """Call :func:`memoranda.loops.offload` and keep the engine from closing meanwhile."""
        if len(items) <= ITEMS_PER_TURN:
            return work(items)
        with self.calls.call():
            return await offload(len(items), work, items)

    def _transactions(self) -> Transactions:
        """Return what one call writes with."""
        return Transactions(STATEMENTS, self.item_types, indexed=self.connections.indexer.available)

    async def _vectors_of(
        self, rows: Sequence[BoundRow], hidden: frozenset[str] = frozenset()
    ) -> Sequence[tuple[bytes | None, str, str]]:
        """Return the vectors of rows, to be stored with them. If the embedder fails, nothing is stored.

        A deleted item needs none: restoring it makes one.
        """
        shown = [row for row in rows if row[ID] not in hidden] if hidden else rows
        if self.vectors is None or not shown:
            return ()
        with self.calls.call():
            return await self.vectors.of({row[ID]: row[CONTENT] for row in shown}, self.connections.short_rows)

    async def embed_missing(self) -> None:
        """Make missing vectors, unless the file holds those of another model."""
        if self.vectors is not None:
            from memoranda_sqlite.health import embed_missing

            await embed_missing(self.connections, self.vectors)

    async def _changed(self, change: Change) -> Written:
        transactions = self._transactions()
        with self.calls.call():
            written = await self.connections.writer.call(lambda connection: transactions.change(connection, change))
            if written.changed:
                if change.action == "restore":
                    await self.embed_missing()
                elif change.action == "purge" or change.purge:
                    await self._erase_purged()
                elif change.action == "sweep":
                    self._forget_expired()
        return written

    async def _erase_purged(self) -> None:
        """Erase purged content from the disk, unless readers are in the way, and from what is kept to rank by."""
        if self._retrieval is not None:
            self._retrieval.forget()
        if pending := (await self.connections.eraser.attempt(erasing.MOST_WAITED_MILLISECONDS)).reason:
            logger.warning("%r: %s", self.database.path, pending)

    def _forget_expired(self) -> None:
        """Drop what is kept of items that have expired, and erase them from the disk later."""
        if self._retrieval is not None:
            self._retrieval.forget()
        self.connections.eraser.defer()

    # Reading

    async def read(self, query: Query[T]) -> list[T]:
        """Return what a query asks for."""
        found: Any
        ids = query.ids
        if ids is not None:
            if len(ids) == 1 and query.form == "items":
                text, values = STATEMENTS.get(ids[0])
                rows = self.connections.rows_at_once(text, values)
                if rows is None:
                    rows = await self.connections.rows(text, values)
                found = [unpack(rows[0], self.item_types)] if rows else []
            else:
                found = await (self._places(ids) if query.form == "places" else self._of_ids(ids))
        elif query.ranking is not None:
            found = await self._ranked(query)  # type: ignore[arg-type]  # The form of the query says so.
        elif query.form == "payloads":
            of_rows = partial(readable, unpack_payload)
            found = await search_page(self._connected, STATEMENTS, query.wanted, query.page, of_rows, PAYLOAD_COLUMNS)
        else:
            found = await self._searched(query)  # type: ignore[arg-type]  # The form of the query says so.
        return found  # type: ignore[no-any-return]  # The form of the query says what it is.

    async def _searched(self, query: Query[MemoryItem]) -> list[MemoryItem]:
        if not query.staying:
            return await search_page(self._connected, STATEMENTS, query.wanted, query.page, self._readable)
        rows = window_at_once(self.connections, STATEMENTS, query.wanted, query.page)
        found = [] if rows is None else self._readable(rows)
        if rows is None or len(found) < len(rows):  # Others take the place of those that cannot be read.
            return await staying_apart(self.read, query)
        return found

    def _connected(self) -> Connections:
        return self.connections

    async def _places(self, ids: Sequence[str]) -> list[int]:
        """Return the places of items in the order of adding, deleted or not."""
        read = self.connections.short_rows
        return [row[0] for item_id in ids for row in await read(*STATEMENTS.place(item_id))]

    async def _of_ids(self, ids: Sequence[str]) -> list[MemoryItem]:
        connections = self.connections
        text, values = STATEMENTS.get_many(ids)
        rows = connections.rows_at_once(text, values) if len(ids) <= DIRECT_LIMIT else None
        if rows is not None:
            return self._readable(rows)
        return await connections.read(lambda connection: self._readable(connection.execute(text, values).fetchall()))

    def _readable(self, rows: Sequence[Sequence[Any]]) -> list[MemoryItem]:
        """Return the items of the rows; an unreadable one is left out and logged."""
        return unpack_readable(rows, self.item_types)

    async def _ranked(self, query: Query[RankedItem]) -> list[RankedItem]:
        assert query.ranking is not None
        assert self._opening is not None
        connections, retrieval = self.connections, await self._ranking()
        if query.ranking.mode != "semantic" and not await connections.indexer.has_present_terms():
            return await rank_scope(self, query, await self._opening.ranker())
        with self.calls.call():
            return await retrieval.rank(connections, query, self.item_types)

    async def _ranking(self) -> Retrieval:
        if self._retrieval is None:
            await import_in_thread("memoranda_sqlite.retrieval")  # On use: most programs never rank.
        if self._retrieval is None:
            from memoranda_sqlite.retrieval import Retrieval

            self._retrieval = Retrieval(STATEMENTS, self._weights, self.vectors)
        return self._retrieval

    async def stream(self, query: Query[MemoryItem]) -> AsyncGenerator[MemoryItem, None]:
        """Yield all items that match, oldest first in the order of the query's page."""
        read = 0
        async for row in scanned(STATEMENTS, self._still_open, query.wanted, query.deleted, query.page.order):
            for item in self._readable([row]):
                yield item
            read += 1
            if read % ITEMS_PER_TURN == 0:
                await asyncio.sleep(0)

    async def count(self, query: Query[MemoryItem]) -> int:
        """Return how many items match."""
        return await count_rows(self.connections, STATEMENTS, query.wanted, include_deleted=query.deleted)

    def owners(self, listing: Listing, query: Query[MemoryItem]) -> AsyncGenerator[Owner, None]:
        """Yield the owners of the items that match, in order."""
        return listed(STATEMENTS, self._still_open, listing, query.wanted)

    async def changes(self, query: Query[T], since: object) -> Changes[T]:
        """Return how the payloads that match differ from what they were; of items or a branch, all of them."""
        wanted = query.wanted
        if query.form != "payloads" or any(isinstance(each, InBranch) for each in wanted.further):
            return await super().changes(query, None)
        changed: Any = await self.connections.read(
            lambda connection: payload_changes(connection, STATEMENTS, wanted, since)
        )
        return changed  # type: ignore[no-any-return]  # The form of the query says what it is.

    def snapshot(self) -> AbstractAsyncContextManager[bool]:
        """Return a context in which every read of this task sees one state of the file."""
        return self._still_open().one_state()


def _opened(connection: sqlite3.Connection) -> Opened:
    """Return what an open file holds."""
    return Opened(schema.wrapper_mark(connection), next_expiry(connection))


def _copied_and_packed(items: Sequence[MemoryItem]) -> list[tuple[MemoryItem, BoundRow]]:
    return [(copy_item(item), packed(item)) for item in items]
