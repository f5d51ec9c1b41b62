"""The SQLite store."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from memoranda.errors import IdConflictError, StoreClosedError, StoreMisuseError
from memoranda.items import MemoryItem, MemoryMetadata, Payload, PayloadChanges
from memoranda.loops import CallsUnderWay
from memoranda.offloading import AT_ONCE, import_in_thread, offload
from memoranda.plugins import embedder
from memoranda.shapes import seconds
from memoranda.store import BaseStore, Capability, Finding, Order, Owner, Progress, RankedItem, SearchMode, copy_item
from memoranda.store.backend import BASE_CAPABILITIES, Filter, InBranch, Listing, Page, Write, readable
from memoranda.urls import take_options
from memoranda_backend.sql import PAYLOAD_COLUMNS, Statement, unpack, unpack_payload
from memoranda_sqlite import erasing, schema
from memoranda_sqlite.connections import Connections
from memoranda_sqlite.files import MEMORY, Database, Durability, checked_durability, checked_path, path_of, url_of
from memoranda_sqlite.payload_changes import payload_changes
from memoranda_sqlite.rows import CONTENT, ID, USER_ID, BoundRow, all_packed, packed
from memoranda_sqlite.scanning import listed, scanned
from memoranda_sqlite.searching import DIRECT_LIMIT, search_page
from memoranda_sqlite.statements import SQLiteStatements, Upsert, is_of_user
from memoranda_sqlite.transactions import Transactions, keep_vectors, soonest_expiry

if TYPE_CHECKING:
    from memoranda.embeddings import Embeddings
    from memoranda_backend.ranking import Weights
    from memoranda_sqlite.retrieval import Retrieval
    from memoranda_sqlite.vectors import Vectors

logger = logging.getLogger(__name__)

T = TypeVar("T")

_STATEMENTS = SQLiteStatements()
_UPSERT = _STATEMENTS.upserting(None)
_INSERT = Upsert("false")
"""Stores rows unless there is one of the same id."""


class SQLiteMemoryStore(BaseStore):
    """Memories in one SQLite file, which several processes may use at once; ``sqlite:///agent.db``.

    - ``db_path`` is the file, or ``":memory:"``. A new file is readable by its owner only.
    - ``durability="full"``: an acknowledged add survives a killed process and a power cut. ``"normal"`` does not wait
      for the disk at each commit: a power cut may lose the last few commits. A killed process loses none, and the file
      stays intact.
    - ``busy_timeout`` is how many seconds a call waits for other processes before it raises StoreUnavailableError.
    - ``embeddings`` (:class:`memoranda.embeddings.Embeddings`) turns on semantic and hybrid search; the file stores the
      vectors.
    - ``weights`` (:class:`memoranda_backend.ranking.Weights`) sets how much each signal counts in a ranked search.

    Calls may come from any event loop of the process that opened the store; after a fork the child must open its own.
    """

    capabilities = BASE_CAPABILITIES | {
        Capability.PERSISTENT,
        Capability.ATOMIC,
        Capability.DELETE,
        Capability.ADD_DELETED,
        Capability.PURGE,
        Capability.TTL,
        Capability.FORK,
    }

    def __init__(
        self,
        db_path: str | os.PathLike[str] = MEMORY,
        *,
        durability: Durability = "full",
        busy_timeout: float = 30.0,
        embeddings: Embeddings | None = None,
        weights: Weights | None = None,
    ) -> None:
        super().__init__()
        # SQLite counts milliseconds in 31 bits.
        wait = seconds(busy_timeout, "busy_timeout", zero=True, most=1e6)
        self._database = Database(checked_path(db_path), checked_durability(durability), wait)
        if self._database.in_memory:
            self.capabilities = type(self).capabilities - {Capability.PERSISTENT}
        if embeddings is not None:
            self.capabilities = self.capabilities | {Capability.SEMANTIC, Capability.HYBRID}
        self._embeddings = embeddings
        # Calls that use the connections more than once: closing waits for them.
        self._calls = CallsUnderWay()
        self._vectors: Vectors | None = None
        self._weights = weights
        self._retrieval: Retrieval | None = None
        self._connections: Connections | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._database.path!r})"

    @property
    def embeddings(self) -> Embeddings | None:
        """The embedder, if there is one."""
        return self._embeddings

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        durability: Durability | None = None,
        busy_timeout: float | None = None,
        embeddings: Embeddings | str | None = None,
        weights: Weights | None = None,
    ) -> SQLiteMemoryStore:
        """Return the store of a URL: ``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``sqlite://`` in memory.

        The URL's query may hold options: ``?durability=normal&busy_timeout=5&embeddings=hashing``. Raises InputError
        for an unknown option, and for one whose value differs from that of the keyword.
        """
        given = {"durability": durability, "busy_timeout": busy_timeout, "embeddings": embeddings, "weights": weights}
        rest, options = take_options(url, {"durability": str, "busy_timeout": float, "embeddings": str}, given)
        options["embeddings"] = embedder(options.get("embeddings"))
        return cls(path_of(rest), **options)

    # Lifecycle

    async def _exists(self) -> bool:
        return await asyncio.to_thread(self._database.exists)

    async def _alike(self) -> Sequence[str]:
        return [url_of(path) for path in await asyncio.to_thread(self._database.alike)]

    async def _init(self) -> None:
        reading = self.access == "read"
        connections = await Connections.open(self._database.for_reading() if reading else self._database)
        if self._embeddings is not None:
            from memoranda_sqlite.vectors import Vectors  # Loaded on use: most programs have no embedder.

            self._vectors = Vectors(self._embeddings, self._weights)
            try:
                await self._vectors.open(connections, self.label)
            except BaseException:
                await connections.close()
                raise
        self._connections = connections

    async def _close(self) -> None:
        await self._calls.ended()
        connections, self._connections = self._connections, None
        self._retrieval = None  # Its caches belong to these connections.
        if connections is not None:
            await connections.close()

    async def _read_mark(self) -> str | None:
        # The writer is open anyway. A reader, which opens with its first call, would cost every opening a connection.
        return await self._opened().worker.run(schema.wrapper_mark)

    async def _write_mark(self, text: str | None) -> None:
        await self._opened().worker.run(lambda connection: schema.set_wrapper_mark(connection, text))

    def _opened(self) -> Connections:
        """Return the connections. Raises StoreClosedError if there are none, StoreMisuseError in a forked child."""
        connections = self._connections
        if connections is None:
            raise StoreClosedError(self.label, opened=self._state == "closed")
        if connections.forked:
            raise StoreMisuseError(
                f"{self.label} was opened before this process was forked from its parent. Open a store of its own here."
            )
        return connections

    def _ensure_opened(self) -> Connections:
        """Return the connections. Raises StoreClosedError once the store is closing."""
        self._ensure_open()
        return self._opened()

    # What telemetry reads

    def gauges(self) -> dict[str, int]:
        """Return how many writes wait for the writer, and about how many rows for the text indexes; in any thread."""
        connections = self._connections
        if connections is None or connections.forked:
            return {}
        return {"writer.queue": connections.writer.waiting, "index.backlog": connections.filler.waiting}

    # Writing

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        rows = [packed(item)]
        vectors = await self._vectors_of(rows) if self._vectors is not None else ()
        await self._upsert(rows, within, vectors)

    def _packer(self) -> Callable[[Sequence[MemoryItem]], list[BoundRow]]:
        return all_packed

    async def _apply(self, write: Write) -> int:
        rows = write.packed or await self._aside(all_packed, write.adds)
        # A deleted item needs no vector: restoring it makes one.
        shown = [row for row in rows if row[ID] not in write.hidden] if write.hidden else rows
        vectors = await self._vectors_of(shown)
        if write.is_plain:
            await self._upsert(rows, write.within, vectors)
            return 0
        if write.fresh and not (write.hidden or write.deletes or write.expected):
            with suppress(IdConflictError):  # The transaction below tells which conflict it is.
                await self._opened().writer.upsert(_INSERT, rows, vectors)
                return 0
        transactions = self._transactions()

        def work(connection: sqlite3.Connection) -> int:
            removed = transactions.apply(connection, write, rows)
            keep_vectors(connection, vectors)
            return removed

        with self._calls.call():
            removed = await self._opened().writer.call(work, len(rows))
            if removed and write.purge:
                await self._erased()
        return removed

    async def _aside(self, work: Callable[[Sequence[MemoryItem]], T], items: Sequence[MemoryItem]) -> T:
        """Call :func:`memoranda.offloading.offload` and keep the store from closing meanwhile."""
        if len(items) <= AT_ONCE:
            return work(items)
        with self._calls.call():
            return await offload(len(items), work, items)

    def _upsert(
        self, rows: Sequence[BoundRow], within: MemoryMetadata | None, vectors: Sequence[Sequence[Any]]
    ) -> Awaitable[None]:
        """Store rows, in one transaction with those of other callers."""
        # Rows that belong to the user of the scope need no further condition, and share the statement of all rows.
        few = len(rows) <= AT_ONCE
        plain = within is None or (few and is_of_user(within) and {row[USER_ID] for row in rows} == {within.user_id})
        upsert = _UPSERT if plain else _STATEMENTS.upserting(within)
        return self._opened().writer.upsert(upsert, rows, vectors)

    def _transactions(self) -> Transactions:
        return Transactions(_STATEMENTS, self.item_types, indexed=self._opened().filler.available)

    async def _vectors_of(self, rows: Sequence[BoundRow]) -> list[tuple[bytes | None, str, str]]:
        """Return the vectors of rows, to be stored with them. If the embedder fails, nothing is stored."""
        if self._vectors is None or not rows:
            return []
        with self._calls.call():
            return await self._vectors.of({row[ID]: row[CONTENT] for row in rows}, self._opened().short_rows)

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        kept = await self._aside(_copied_and_packed, items)
        vectors = await self._vectors_of([row for _, row in kept])
        transactions = self._transactions()

        def work(connection: sqlite3.Connection) -> list[tuple[int, str | None]]:
            written = [transactions.update(connection, item, row, within) for item, row in kept]
            keep_vectors(connection, vectors)
            return written

        written = await self._opened().writer.call(work)
        for (item, _), (version, trust) in zip(kept, written, strict=True):
            item.__dict__.update(version=version, trust=trust)
        return [item for item, _ in kept]

    async def _clear(self, wanted: Filter) -> int:
        return await self._changed(*_STATEMENTS.hide(wanted))

    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        wanted = Filter(metadata=within, archived=None).also(*self._alive())
        return await self._changed(*_STATEMENTS.hide(wanted, item_id)) > 0

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        with self._calls.call():
            restored = await self._changed(*_STATEMENTS.show(wanted, item_id))
            if restored:
                await self._embed_missing()
        return restored

    async def _embed_missing(self) -> None:
        """Make missing vectors, unless the file holds those of another model."""
        if self._vectors is not None:
            from memoranda_sqlite.health import embed_missing

            await embed_missing(self._opened(), self._vectors)

    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        with self._calls.call():
            purged = await self._purged(_STATEMENTS.purge(wanted, item_id, deleted_only=deleted_only))
            if purged:
                await self._erased()
        return purged

    async def _sweep(self, wanted: Filter) -> int:
        with self._calls.call():
            swept = await self._purged(_STATEMENTS.purge(wanted))
            if swept:
                self._opened().eraser.defer()
        return swept

    async def _purged(self, statement: Statement) -> int:
        transactions = self._transactions()
        purged = await self._opened().writer.call(lambda connection: transactions.purge(connection, statement))
        if purged and self._retrieval is not None:
            self._retrieval.forget()
        return purged

    async def _place(self, item_id: str) -> int | None:
        rows = await self._opened().short_rows(*_STATEMENTS.place(item_id))
        return rows[0][0] if rows else None

    async def _erased(self) -> None:
        """Erase purged content from the disk, unless readers are in the way."""
        if self._retrieval is not None:
            self._retrieval.forget()
        if pending := (await self._opened().eraser.attempt(erasing.PATIENCE)).reason:
            logger.warning("%r: %s", self, pending)

    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        transactions = self._transactions()
        with self._calls.call():
            popped = await self._opened().writer.call(lambda connection: transactions.pop(connection, wanted, purge))
            if purge and popped is not None:
                await self._erased()
        return popped

    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        transactions = self._transactions()
        return await self._opened().writer.call(
            lambda connection: transactions.touch(connection, ids, ttl, now, within)
        )

    async def _soonest_expiry(self) -> str | None:
        return await self._opened().worker.run(soonest_expiry)

    async def unerased(self) -> str:
        """Return why purged content is not erased from the disk yet, after one more attempt; empty if it is.

        A program that reads an older state of the file needs the log that holds it. The store tries again while it is
        open, and so does the next one that opens the file. In a file larger than 32 MiB, or with tables of other
        programs, copies may be in the free space of pages until :meth:`erase` is called.
        """
        return (await self._ensure_opened().eraser.attempt()).reason

    async def erase(self, *, others: bool = False) -> str:
        """Rewrite the file if anything was purged from it, and return what is still in the way as ``unerased`` does.

        Writers wait meanwhile, and the disk needs space for two more copies of the file. Once is enough for any number
        of purges. A file with tables of other programs is only rewritten with ``others``: SQLite may renumber the rows
        of tables without an integer primary key.
        """
        connections = self._ensure_opened()
        demand = erasing.Demand.ANY if others else erasing.Demand.OURS
        with self._calls.call():
            return (await connections.eraser.attempt(erasing.PATIENCE, demand)).reason

    async def _changed(self, text: str, values: Sequence[Any]) -> int:
        return await self._opened().writer.call(lambda connection: connection.execute(text, values).rowcount)

    # Reading

    async def _get(self, item_id: str) -> MemoryItem | None:
        rows = await self._opened().short_rows(*_STATEMENTS.get(item_id))
        return unpack(rows[0], self.item_types) if rows else None

    async def _get_many(self, ids: Sequence[str]) -> list[MemoryItem]:
        text, values = _STATEMENTS.get_many(ids)
        connections = self._opened()
        rows = connections.rows_at_once(text, values) if len(ids) <= DIRECT_LIMIT else None
        if rows is not None:
            return self._readable(rows)
        return await connections.read(lambda connection: self._readable(connection.execute(text, values).fetchall()))

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        return await search_page(self._opened, _STATEMENTS, wanted, page, self._readable)

    async def _payloads(self, wanted: Filter, page: Page) -> list[Payload]:
        of_rows = partial(readable, unpack_payload)
        return await search_page(self._opened, _STATEMENTS, wanted, page, of_rows, PAYLOAD_COLUMNS)

    async def _payload_changes(self, wanted: Filter, since: object) -> PayloadChanges:
        if any(isinstance(each, InBranch) for each in wanted.further):
            return await super()._payload_changes(wanted, None)
        return await self._opened().read(lambda connection: payload_changes(connection, _STATEMENTS, wanted, since))

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        return await self._ranked_by(query, wanted, limit, mode, shared=False)

    async def _rank_shared(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        return await self._ranked_by(query, wanted, limit, mode, shared=True)

    async def _ranked_by(
        self, query: str, wanted: Filter, limit: int, mode: SearchMode, *, shared: bool
    ) -> list[RankedItem]:
        connections = self._opened()
        retrieval = await self._ranking()
        if not await connections.filler.has_present_terms() and mode != "semantic":
            return await super()._rank(query, wanted, limit, mode)
        with self._calls.call():
            return await retrieval.rank(connections, query, wanted, limit, mode, self.item_types, shared=shared)

    async def _ranking(self) -> Retrieval:
        if self._retrieval is None:
            await import_in_thread("memoranda_sqlite.retrieval")  # On use: most programs never rank.
        if self._retrieval is None:
            from memoranda_sqlite.retrieval import Retrieval

            self._retrieval = Retrieval(_STATEMENTS, self._weights, self._vectors)
        return self._retrieval

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        rows = await self._opened().rows(*_STATEMENTS.count(wanted, include_deleted=include_deleted))
        count: int = rows[0][0]
        return count

    async def _owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        async for owner in listed(_STATEMENTS, self._ensure_opened, listing, wanted):
            yield owner

    def _one_state(self) -> AbstractAsyncContextManager[bool]:
        return self._ensure_opened().one_state()

    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        read = 0
        async for row in scanned(_STATEMENTS, self._ensure_opened, wanted, include_deleted, order):
            for item in self._readable([row]):
                yield item
            read += 1
            if read % AT_ONCE == 0:
                await asyncio.sleep(0)

    async def reindex(self, progress: Progress | None = None) -> int:
        """Rebuild the text indexes and all vectors and return the number of items.

        Searches by substring and text work meanwhile; those by meaning find items that have their new vector already.
        ``progress`` is called with the number of items done and of all. If the embedder fails, finished vectors stay,
        and another call makes the rest.
        """
        from memoranda_sqlite.health import rebuild

        return await rebuild(self._ensure_opened(), self._vectors, progress)

    async def doctor(self, repair: bool = False) -> list[Finding]:
        """Examine the file: damage, unreadable rows, and incomplete indexes.

        With ``repair``, indexes are completed, or rebuilt if they differ from the table, and the file is rewritten if
        it may hold copies of purged content. Stored items do not change.
        """
        from memoranda_sqlite.health import examine, repair_text_index

        connections = self._ensure_opened()
        if repair:
            await repair_text_index(connections)
            await self._embed_missing()
            await self.erase()
        return await examine(connections, self._vectors, self.item_types)

    async def fill_indexes(self) -> None:
        """Index all rows now. Searches are correct without it; the next ones are faster."""
        await self._ensure_opened().filler.finish()

    def _readable(self, rows: Sequence[Sequence[Any]]) -> list[MemoryItem]:
        """Return the items of the rows; an unreadable one is left out and logged."""
        types = self.item_types
        return readable(lambda row: unpack(row, types), rows)


def _copied_and_packed(items: Sequence[MemoryItem]) -> list[tuple[MemoryItem, BoundRow]]:
    return [(copy_item(item), packed(item)) for item in items]
