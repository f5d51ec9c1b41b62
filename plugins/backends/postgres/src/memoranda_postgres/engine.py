"""The engine of the PostgreSQL store: requests become statements, which run on connections of one server."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from asyncpg import InvalidCatalogNameError

from memoranda.errors import EmbeddingError, IdConflictError, StoreNotFoundError, StoreUnavailableError
from memoranda.items import Changes, MemoryItem
from memoranda.loops import CallsUnderWay, offload
from memoranda.store import EVERYTHING, Capability, Finding, Owner, copy_item
from memoranda.store.backend import (
    BASE_CAPABILITIES,
    Change,
    Engine,
    Expiry,
    Filter,
    InBranch,
    Listing,
    Opened,
    Opening,
    Query,
    Value,
    Write,
    Written,
)
from memoranda_backend.ranking import embed_passages, has_text, normalised
from memoranda_backend.windows import staying_apart
from memoranda_postgres.conditional_writes import ConditionalWrites
from memoranda_postgres.dialect import PostgresDialect, PostgresStatements
from memoranda_postgres.health import examine
from memoranda_postgres.indexing import IndexFiller, Progress, fill_vectors, open_vectors, rebuild
from memoranda_postgres.reading import Reader, users_of
from memoranda_postgres.removing import Removals
from memoranda_postgres.replicas import ReplicatedServer
from memoranda_postgres.retrieval import Retrieval
from memoranda_postgres.rows import Addition, PackedRow, all_packed, item_of, packed
from memoranda_postgres.schema import Layout, has_tables, prepare, set_wrapper_mark, wrapper_mark
from memoranda_postgres.server import Server
from memoranda_postgres.text_search import TermIndex
from memoranda_postgres.upserts import next_expiry, touch
from memoranda_postgres.vectors import Vectors
from memoranda_postgres.writing import HeldByExpiredError, Writer

if TYPE_CHECKING:
    from memoranda.embeddings import Embeddings
    from memoranda_backend.ranking import Weights

logger = logging.getLogger(__name__)

T = TypeVar("T")

_NOTHING = Written()

_MOST_PARTS = 5
"""Of how many parts a filter may be so that one statement reads a whole window. The driver keeps no long text prepared,
and a branch of several forks would be planned with every read."""

_MOST_LONG = 10_000
"""Of how many conversations an engine keeps that they are long."""


class PostgresEngine(Engine):
    """Keeps items in one schema of a PostgreSQL database, which many processes may use at once."""

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

    def __init__(
        self,
        server: Server,
        schema: str | None,
        partitions: int | None,
        embeddings: Embeddings | None,
        weights: Weights | None,
    ) -> None:
        self.server = server
        self.embeddings = embeddings
        self._schema = schema
        self._partitions = partitions
        self._weights = weights
        self._calls = CallsUnderWay()
        self._layout: Layout
        self._statements: PostgresStatements
        self._reader: Reader
        self._writer: Writer
        self._removals: Removals
        self._conditional: ConditionalWrites
        self._retrieval: Retrieval
        self._index: TermIndex
        self._index_filler: IndexFiller
        self._vectors: Vectors | None = None
        self._long: set[int] = set()
        """Hashes of the scopes and page sizes for which there was a full page."""

    # Lifecycle

    async def exists(self) -> bool:
        """Return True if the database has tables of memories."""
        try:
            await self.server.open()
        except StoreUnavailableError as error:
            if isinstance(error.__cause__, InvalidCatalogNameError):
                return False
            raise
        try:
            async with self.server.bounded():
                return await self.server.run(lambda connection: has_tables(connection, self._schema))
        finally:
            await self.server.close()

    async def open(self, opening: Opening) -> Opened:
        """Connect, and create or migrate the tables unless they are opened for reading only."""
        if opening.access != "create" and not await self.exists():
            raise StoreNotFoundError(opening.label)
        self.server.label = opening.label
        await self.server.open()
        try:
            async with self.server.bounded():
                await self._prepare(opening)
                mark = await self.server.run(lambda connection: wrapper_mark(connection, self._statements.dialect))
                opened = Opened(mark, await next_expiry(self.server, self._statements))
        except BaseException:
            await self.server.close()
            raise
        self._index_filler.start()
        return opened

    async def _prepare(self, opening: Opening) -> None:
        """Bring the tables up to date and create everything that works on them."""
        writes = opening.access != "read"
        self._layout = await prepare(self.server, self._schema, self._partitions, opening.label, migrate=writes)
        dialect = PostgresDialect(self._layout.schema, partitioned=self._layout.partitions > 0)
        self._statements = PostgresStatements(dialect)
        self._index = TermIndex(self.server, self._statements)
        self._index_filler = IndexFiller(self.server, self._statements, self._index, idle=not writes)
        self._vectors = await self._opened_vectors(opening)
        has_vectors = self._layout.has_vectors
        self._reader = Reader(self.server, self._layout, self._statements, opening.item_types)
        self._writer = Writer(self.server, self._statements, self._vectors, has_vectors=has_vectors)
        self._removals = Removals(self.server, self._statements, has_vectors=has_vectors)
        self._conditional = ConditionalWrites(self.server, self._statements, self._writer, self._removals)
        self._retrieval = Retrieval(
            self.server,
            self._statements,
            opening,
            self._weights,
            self.embeddings,
            self._vectors,
            self._index,
            self._index_filler.searched,
        )

    async def _opened_vectors(self, opening: Opening) -> Vectors | None:
        """Return the vectors, creating their table if needed; None without an embedder or without pgvector."""
        self.capabilities = type(self).capabilities
        if self.embeddings is None or (opening.access == "read" and not self._layout.has_vectors):
            return None
        vectors = await open_vectors(self.server, self._statements, self.embeddings, self._weights, opening.label)
        if vectors is not None:
            self.capabilities = type(self).capabilities | {Capability.SEMANTIC, Capability.HYBRID}
            self._layout = replace(self._layout, has_vectors=True)
        return vectors

    async def close(self) -> None:
        """Wait for calls under way, then disconnect, in every event loop."""
        self.server.check_process()
        await self._calls.ended()
        await self._writer.settled()
        await self._index_filler.stop()
        await self.server.close()

    def gauges(self) -> dict[str, int]:
        """Return the numbers of connections, and of items that wait for the writer and the index; in any thread."""
        own = {"writer.queue": self._writer.waiting, "index.backlog": self._index_filler.waiting}
        return self.server.gauges() | own

    # Writing

    async def write(self, write: Write) -> Written:
        """Carry out a write, in one transaction; a plain add in one with those of other callers."""
        self.server.check_usable()
        with self._calls.call():
            if len(write.adds) == 1 and write.is_plain:
                await self._add(write)
                return _NOTHING
            if write.change is not None:
                return await self._changed(write.change)
            if write.compared:
                return Written(0, await self._updated(write))
            return Written(await self._stored(write))

    async def _add(self, write: Write) -> None:
        """Add one item."""
        addition = self._writer.addition(packed(write.adds[0]), write.within, write.now)
        if self._vectors is not None:
            (addition,) = await self._embedded([addition])
        with self.server.writing((addition.row.user_id,)):
            try:
                await self._writer.add(addition)
            except IdConflictError:
                # The id may be held by an item that has expired.
                await self._compared(write, [addition])
        self._index_filler.written(1)

    async def _stored(self, write: Write) -> int:
        """Carry out a batch and return how many items were deleted."""
        if write.packed is None:
            rows = await offload(len(write.adds), all_packed, write.adds)
        else:
            rows = await write.packed.all()
        is_large = write.packed is not None and write.is_plain and self._vectors is None
        additions = [] if is_large else await self._additions(write, rows)
        removed = 0
        # A deleted id may belong to any user.
        with self.server.writing(None if write.deletes else {row.user_id for row in rows}):
            if write.deletes or write.keep_created or write.fresh or write.new or write.expected is not None:
                removed = await self._compared(write, additions)
            else:
                try:
                    if is_large:
                        await self._writer.add_large(rows, write.within, write.now)
                    else:
                        await self._writer.add_together(additions)
                except IdConflictError:
                    # An id may be held by an item that has expired.
                    await self._compared(write, additions or await self._additions(write, rows))
        if removed and write.purge:
            self._retrieval.forget()
        self._index_filler.written(len(rows))
        return removed

    async def _additions(self, write: Write, rows: Sequence[PackedRow]) -> list[Addition]:
        """Return the rows of a batch as they are written."""
        additions = await offload(
            len(rows), self._writer.additions, rows, write.within, write.now, keep_created=write.keep_created
        )
        if write.hidden:
            additions = [addition._replace(deleted=addition.row.id in write.hidden) for addition in additions]
        return await self._embedded(additions)

    async def _compared(self, write: Write, additions: list[Addition]) -> int:
        """Carry out a batch with a look at what its ids hold, and return how many items were deleted."""
        ids = [*(addition.row.id for addition in additions), *write.deletes]
        return await self._without_expired(ids, write.now, lambda: self._conditional.apply(write, additions))

    async def _updated(self, write: Write) -> list[MemoryItem]:
        """Compare and set items, and return them with their new versions."""
        kept = [copy_item(item) for item in write.adds]
        additions = await self._embedded([self._writer.addition(packed(item), None, write.now) for item in kept])
        with self.server.writing({item.metadata.user_id for item in kept}):
            updated = await self._without_expired(
                write.ids, write.now, lambda: self._writer.update_together(kept, additions, write.within, write.now)
            )
        self._index_filler.written(len(updated))
        return updated

    async def _without_expired(self, ids: list[str], now: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do work that writes ids; where expired items hold some, remove those first."""
        while True:
            with suppress(HeldByExpiredError):
                return await work()
            held = Value("id", False, "$in", ids)
            await self._purged(Filter(archived=None, further=(Expiry(now, expired=True), held)), None)

    async def _embedded(self, additions: list[Addition]) -> list[Addition]:
        """Return the additions with their vectors, if this engine has vectors."""
        if self._vectors is None or self.embeddings is None:
            return additions
        rows = [addition.row for addition in additions if not addition.deleted and has_text(addition.row.content)]
        # Unchanged contents keep their vectors.
        vectors = await self._vectors.present({row.id: row.content for row in rows}) if rows else {}
        new = [row for row in rows if row.id not in vectors]
        made = await embed_passages(self.embeddings, [row.content for row in new], self._vectors.weights.passage)
        vectors |= {row.id: list(map(normalised, passages)) for row, passages in zip(new, made, strict=True)}
        return [addition._replace(vectors=vectors.get(addition.row.id)) for addition in additions]

    async def _changed(self, change: Change) -> Written:
        """Carry out a change of stored items."""
        if change.action == "mark":
            dialect = self._statements.dialect
            await self.server.run(lambda connection: set_wrapper_mark(self.server, connection, dialect, change.text))
            return _NOTHING
        wanted, item_id = change.selection()
        with self.server.writing(None if change.action == "touch" else users_of(wanted)):
            match change.action:
                case "delete":
                    return Written(await self._removals.hide(wanted, item_id))
                case "restore":
                    return Written(await self._restored(wanted, item_id))
                case "purge":
                    return Written(await self._purged(wanted, item_id, deleted_only=change.deleted_only))
                case "sweep":
                    swept = await self._purged(wanted, None)
                    return Written(swept, next_expiry=await next_expiry(self.server, self._statements))
                case "pop":
                    row = await self._removals.take(wanted, purge=change.purge)
                    if row is None:
                        return _NOTHING
                    if change.purge:
                        self._retrieval.forget()
                    return Written(1, [item_of(row, self._reader.item_types())])
                case "touch":
                    return Written(await touch(self.server, self._statements, self._writer.upserts, change))

    async def _purged(self, wanted: Filter, item_id: str | None, *, deleted_only: bool = False) -> int:
        """Remove items for good, from what is kept to rank by, too, and return how many there were."""
        purged = await self._removals.purge(wanted, item_id, deleted_only=deleted_only)
        if purged:
            self._retrieval.forget()
        return purged

    async def _restored(self, wanted: Filter, item_id: str | None) -> int:
        """Restore hidden items and return how many there were; where the embedder fails, reindex() does it later."""
        rows = await self._removals.restore(wanted, item_id)
        try:
            await fill_vectors(self.server, self._vectors, self.embeddings, rows)
        except EmbeddingError as error:
            logger.warning(
                "%s: %d restored items have no vectors until reindex(): %s", self.server.label, len(rows), error
            )
        return len(rows)

    # Reading

    async def read(self, query: Query[T]) -> list[T]:
        """Return what a query asks for."""
        found: Any
        if query.ids is not None:
            found = await (self._reader.places if query.form == "places" else self._reader.of_ids)(query.ids)
        elif query.ranking is not None:
            text, mode = query.ranking
            with self.server.reading(users_of(query.wanted)):
                found = await self._retrieval.rank(text, query.wanted, query.page.limit, mode)
        elif query.form == "payloads":
            found = await self._reader.payloads(query.wanted, query.page)
        elif query.staying and query.page.limit < EVERYTHING:  # A page of everything has nothing beyond it.
            found = await self._window(query)
        else:
            found = await self._reader.items(query.wanted, query.page)
        return found  # type: ignore[no-any-return]  # The form of the query says what it is.

    async def _window(self, query: Query[Any]) -> list[MemoryItem]:
        """Answer a query with ``staying``: by one statement for a conversation that had a full page before.

        For a shorter one, the page alone takes less time.
        """
        place = hash((query.wanted.metadata, query.page.limit))
        if place in self._long and len(query.wanted.parts()) <= _MOST_PARTS:
            return await self._reader.window(query.wanted, query.page)
        found = await staying_apart(self.read, query)
        if len(found) >= query.page.limit:
            if len(self._long) >= _MOST_LONG:
                self._long.clear()
            self._long.add(place)
        return found

    def stream(self, query: Query[MemoryItem]) -> AsyncGenerator[MemoryItem, None]:
        """Yield all items that match, oldest first in the order of the query's page."""
        return self._reader.stream(query.wanted, query.deleted, query.page.order)

    async def count(self, query: Query[MemoryItem]) -> int:
        """Return how many items match."""
        return await self._reader.count(query.wanted, query.deleted)

    def owners(self, listing: Listing, query: Query[MemoryItem]) -> AsyncGenerator[Owner, None]:
        """Yield the owners of the items that match, in order."""
        return self._reader.owners(listing, query.wanted)

    async def changes(self, query: Query[T], since: object) -> Changes[T]:
        """Return how the payloads that match differ from what they were; of items or a branch, all of them."""
        if query.form != "payloads" or any(isinstance(each, InBranch) for each in query.wanted.further):
            return await super().changes(query, None)
        changed: Any = await self._reader.payload_changes(query.wanted, since)
        return changed  # type: ignore[no-any-return]  # The form of the query says what it is.

    def snapshot(self) -> AbstractAsyncContextManager[bool]:
        """Return a context in which every read of this task sees one state of the database."""
        return self.server.one_state()

    # Upkeep

    async def reindex(self, progress: Progress | None) -> int:
        """Recompute the terms and vectors of all items and return how many items there are."""
        self.server.check_usable()
        return await rebuild(self.server, self._statements, self._vectors, self.embeddings, self._index, progress)

    async def doctor(self, *, repair: bool) -> list[Finding]:
        """Return the state of the tables and of replicas; with ``repair``, create what is missing."""
        self.server.check_usable()
        found = await examine(self.server, self._statements, self.embeddings, self._vectors, self._index, repair=repair)
        replicas = await self.server.findings() if isinstance(self.server, ReplicatedServer) else []
        return found + replicas
