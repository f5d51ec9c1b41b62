"""The PostgreSQL store."""

from __future__ import annotations

import contextlib
import logging
import ssl as tls
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from asyncpg import InvalidCatalogNameError

from memoranda.embeddings import embed_passages, has_text
from memoranda.errors import EmbeddingError, InputError, StoreUnavailableError
from memoranda.items import MemoryItem, MemoryMetadata, Payload
from memoranda.plugins import embedder
from memoranda.ranking import RankedItem, normalised
from memoranda.shapes import seconds, whole_number
from memoranda.sql import PAYLOAD_COLUMNS, unpack_payload
from memoranda.store import (
    BASE_CAPABILITIES,
    BaseStore,
    Capability,
    Filter,
    Finding,
    Listing,
    Order,
    Owner,
    Page,
    SearchMode,
    Write,
    copy_item,
    readable,
)
from memoranda.turns import aside
from memoranda_postgres.additions import Addition
from memoranda_postgres.batches import Batches
from memoranda_postgres.dialect import PostgresDialect, PostgresStatements
from memoranda_postgres.health import examine
from memoranda_postgres.lifetimes import Touches
from memoranda_postgres.listing import owners
from memoranda_postgres.options import checked_dsn, checked_schema, take_url_options
from memoranda_postgres.reindexing import Progress, fill_vectors, open_vectors, rebuild
from memoranda_postgres.removing import Removals
from memoranda_postgres.replicas import ReplicatedServer, checked_places, on_primary
from memoranda_postgres.retrieval import Retrieval
from memoranda_postgres.rows import READ_COLUMNS, item_of, moment_of
from memoranda_postgres.schema import Layout, has_tables, prepare
from memoranda_postgres.server import Server, ServerOptions
from memoranda_postgres.terms import user_of
from memoranda_postgres.vectors import Vectors
from memoranda_postgres.writing import Writer

if TYPE_CHECKING:
    from memoranda.embeddings import Embeddings
    from memoranda.ranking import Weights

logger = logging.getLogger(__name__)

_PAGE = 500
_ITEM_WIDTH = len(READ_COLUMNS)


class PostgresMemoryStore(BaseStore):
    """A store in a PostgreSQL database, for many processes and machines at once.

    ``dsn`` is a URL as PostgreSQL itself takes it, or give ``pool``, an asyncpg pool, which is never closed here. The
    store's own pool opens ``min_size`` connections at first and has ``max_size`` at most, in all event loops together.
    ``schema`` names the schema of the tables; by default the connection's own. ``ssl`` is what asyncpg takes: True, a
    mode like ``"verify-full"`` or an SSLContext. ``statement_cache_size`` is how many prepared statements each
    connection keeps: by default 100, and none behind a pooler that keeps none itself, which is found out. Connecting
    takes at most ``connect_timeout`` seconds, and every call at most ``timeout``, or a second more for each hundred
    items that it writes or removes. ``partitions`` divides a new table by user into so many parts. ``embeddings`` turns
    on semantic search where the server has pgvector; ``weights`` are those of the text ranking. ``replicas`` are hosts
    to read from (``"db2,db3:5433"``), with the user, password and database of ``dsn``: a read goes there if this
    store's own writes are there already and others' of longer than ``replica_lag`` seconds ago, else to the primary.

    Calls may come from any event loop of the process that opened the store; each loop has connections of its own, which
    are closed when it ends, so ``max_size`` should be no less than the number of loops that run at once. A given pool
    serves the loop alone in which the store was opened. A forked child must open its own store. Elsewhere a call raises
    StoreMisuseError. A connection that breaks is replaced, and the call is made again where that is safe; otherwise
    StoreUnavailableError says so.
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
    thread_safe = True

    def __init__(
        self,
        dsn: str = "postgresql://localhost/memoranda",
        *,
        pool: Any = None,
        schema: str | None = None,
        min_size: int = 1,
        max_size: int = 10,
        ssl: tls.SSLContext | bool | str | None = None,
        statement_cache_size: int | None = None,
        connect_timeout: float = 20.0,
        timeout: float = 30.0,
        partitions: int | None = None,
        embeddings: Any = None,
        weights: Weights | None = None,
        replicas: str | Sequence[str] = (),
        replica_lag: float = 5.0,
    ) -> None:
        super().__init__()
        if partitions is not None:
            whole_number(partitions, "partitions")
        checked_schema(schema)
        options = ServerOptions(
            dsn if pool is not None else checked_dsn(dsn),
            whole_number(min_size, "min_size"),
            whole_number(max_size, "max_size", least=max(1, min_size)),
            ssl,
            None if statement_cache_size is None else whole_number(statement_cache_size, "statement_cache_size"),
            seconds(connect_timeout, "connect_timeout"),
            seconds(timeout, "timeout"),
        )
        places = checked_places(replicas)
        lag = seconds(replica_lag, "replica_lag")
        if places and pool is not None:
            raise InputError("replicas need the URL of the primary; a given pool does not tell it.", field="replicas")
        self._server = ReplicatedServer(options, places, lag) if places else Server(options, pool)
        self._schema = schema
        self._partitions = partitions
        self._embeddings = embeddings
        self._weights = weights
        self._layout: Layout
        self._statements: PostgresStatements
        self._writer: Writer
        self._removals: Removals
        self._batches: Batches
        self._touches: Touches
        self._retrieval: Retrieval
        self._vectors: Vectors | None = None

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        pool: Any = None,
        schema: str | None = None,
        min_size: int | None = None,
        max_size: int | None = None,
        ssl: tls.SSLContext | bool | str | None = None,
        statement_cache_size: int | None = None,
        connect_timeout: float | None = None,
        timeout: float | None = None,
        partitions: int | None = None,
        embeddings: Embeddings | str | None = None,
        weights: Weights | None = None,
        replicas: str | Sequence[str] | None = None,
        replica_lag: float | None = None,
    ) -> PostgresMemoryStore:
        """Return the store of a URL. Its query may hold the options of the same names, and PostgreSQL's own.

        Raises InputError for an option that neither knows, and for one that has one value there and another as a
        keyword.
        """
        given = {
            "schema": schema,
            "min_size": min_size,
            "max_size": max_size,
            "statement_cache_size": statement_cache_size,
            "connect_timeout": connect_timeout,
            "timeout": timeout,
            "partitions": partitions,
            "embeddings": embeddings,
            "replicas": replicas,
            "replica_lag": replica_lag,
        }
        dsn, options = take_url_options(url, given)
        options["embeddings"] = embedder(options.get("embeddings"))
        return cls(dsn, pool=pool, ssl=ssl, weights=weights, **options)

    def __repr__(self) -> str:
        return f"<PostgresMemoryStore on {self._server.where}>"

    # Lifecycle

    async def init(self) -> None:
        """Connect, and create or migrate the tables. Calling it again while open does nothing.

        Any number of processes may do this at once. Raises StoreUnavailableError when the server cannot be reached
        within the connect timeout, SchemaTooNewError when a later release wrote the tables.
        """
        if self._state == "open":
            self._server.check_home(self)
        await super().init()

    async def close(self) -> None:
        """Wait for calls under way, then disconnect, in every event loop. Calling it again does nothing."""
        if self._state == "open":
            self._server.check_process(self)
        await super().close()

    async def _exists(self) -> bool:
        try:
            await self._server.open()
        except StoreUnavailableError as error:
            if isinstance(error.__cause__, InvalidCatalogNameError):
                return False
            raise
        try:
            async with self._server.bounded():
                return await self._server.run(lambda connection: has_tables(connection, self._schema))
        finally:
            await self._server.close()

    async def _init(self) -> None:
        await self._server.open()
        try:
            async with self._server.bounded():
                await self._prepare()
        except BaseException:
            await self._server.close()
            raise

    async def _prepare(self) -> None:
        """Bring the tables up to date and make everything that works on them."""
        writes = self.access != "read"
        self._layout = await prepare(self._server, self._schema, self._partitions, repr(self), migrate=writes)
        dialect = PostgresDialect(self._layout.schema, partitioned=self._layout.partitions > 0)
        self._statements = PostgresStatements(dialect)
        self._vectors = await self._opened_vectors()
        self._writer = Writer(self._server, self._statements, self._vectors, has_vectors=self._layout.has_vectors)
        self._removals = Removals(self._server, self._statements, has_vectors=self._layout.has_vectors)
        self._batches = Batches(self._server, self._statements, self._writer, self._removals)
        self._touches = Touches(self._server, self._statements, self._writer)
        self._retrieval = Retrieval(
            self._server,
            self._statements,
            lambda: self.item_types,
            self._weights,
            self._embeddings,
            self._vectors,
        )

    async def _opened_vectors(self) -> Vectors | None:
        """Return the vectors, with a table if there is none; None without an embedder or without pgvector."""
        self.capabilities = type(self).capabilities
        if self._embeddings is None or (self.access == "read" and not self._layout.has_vectors):
            return None
        vectors = await open_vectors(self._server, self._statements, self._embeddings, self._weights, repr(self))
        if vectors is not None:
            self.capabilities = type(self).capabilities | {Capability.SEMANTIC, Capability.HYBRID}
            self._layout = replace(self._layout, has_vectors=True)
        return vectors

    async def _close(self) -> None:
        await self._writer.settled()
        await self._server.close()

    def _ensure_open(self) -> None:
        super()._ensure_open()
        self._server.check_home(self)

    # Writing

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        addition = self._writer.addition(item, within)
        if self._vectors is not None:
            (addition,) = await self._embedded([addition])
        with self._server.writing((item.metadata.user_id,)):
            await self._writer.add(addition)

    async def _apply(self, write: Write) -> int:
        if write.owned and write.is_plain and self._vectors is None:
            await self._add_large(write)
            return 0
        additions = await aside(
            len(write.adds), self._writer.additions, write.adds, write.within, keep_created=write.keep_created
        )
        if write.hidden:
            additions = [addition._replace(deleted=addition.row.id in write.hidden) for addition in additions]
        additions = await self._embedded(additions)
        # An id that is deleted may be anybody's.
        with self._server.writing(None if write.deletes else _users_of(write.adds)):
            if write.deletes or write.keep_created or write.fresh or write.expected is not None:
                removed = await self._batches.apply(write, additions)
                if removed and write.purge:
                    self._retrieval.forget()
                return removed
            await self._writer.add_together(additions)
            return 0

    async def _add_large(self, write: Write) -> None:
        with self._server.writing(_users_of(write.adds)):
            await self._writer.add_large(write.adds, write.within)

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        kept = [copy_item(item) for item in items]
        additions = await self._embedded([self._writer.addition(item, None) for item in kept])
        with self._server.writing(_users_of(items)):
            return await self._writer.update_together(kept, additions, within)

    async def _embedded(self, additions: list[Addition]) -> list[Addition]:
        """Return the additions with their vectors, where this store keeps some."""
        if self._vectors is None:
            return additions
        rows = [addition.row for addition in additions if not addition.deleted and has_text(addition.row.content)]
        # What an item says already has its vector.
        vectors = await self._vectors.known({row.id: row.content for row in rows}) if rows else {}
        asked = [row for row in rows if row.id not in vectors]
        made = await embed_passages(self._embeddings, [row.content for row in asked], self._vectors.weights.passage)
        vectors |= {row.id: list(map(normalised, passages)) for row, passages in zip(asked, made, strict=True)}
        return [addition._replace(vectors=vectors.get(addition.row.id)) for addition in additions]

    # Reading

    async def _get(self, item_id: str) -> MemoryItem | None:
        text, values = self._statements.get(item_id)
        with self._server.reading(None):
            rows = await self._server.fetch(text, values)
        return item_of(rows[0], self.item_types) if rows else None

    async def _get_many(self, ids: Sequence[str]) -> list[MemoryItem]:
        text, values = self._statements.get_many(ids)
        with self._server.reading(None):
            rows = await self._server.fetch(text, values)
        return [item_of(row, self.item_types) for row in rows]

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        return self._items(await self._found(wanted, page))

    async def _payloads(self, wanted: Filter, page: Page) -> list[Payload]:
        return readable(unpack_payload, await self._found(wanted, page, PAYLOAD_COLUMNS))

    async def _found(self, wanted: Filter, page: Page, columns: Sequence[str] = ()) -> list[Any]:
        """Return a page of the rows that match: these columns of each, or all that items are read from."""
        wanted = await self._with_past(wanted)
        text, values = self._statements.search(wanted, page, columns)
        with self._server.reading(_users(wanted)):
            return await self._server.fetch(text, values)

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        wanted = await self._with_past(wanted)
        text, values = self._statements.count(wanted, include_deleted=include_deleted)
        with self._server.reading(_users(wanted)):
            rows = await self._server.fetch(text, values)
        return int(rows[0][0])

    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        after: tuple[str, int] | None = None
        wanted = await self._with_past(wanted)
        while True:
            text, values = self._statements.page(
                wanted, after=after, size=_PAGE, include_deleted=include_deleted, order=order
            )
            with self._server.reading(_users(wanted)):
                rows = await self._server.fetch(text, values)
            for item in self._items(rows):
                yield item
            if len(rows) < _PAGE:
                return
            last = rows[-1]
            time = last["updated_at"] if order == "updated" else moment_of(last["created_at"])
            after = time, last[_ITEM_WIDTH]

    async def _owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        async for owner in owners(self._server, self._statements, listing, wanted):
            yield owner

    def _items(self, rows: Sequence[Any]) -> list[MemoryItem]:
        """Return the items of rows; a row that cannot be read is left out and named in the log."""
        return readable(partial(item_of, types=self.item_types), rows)

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        wanted = await self._with_past(wanted)
        with self._server.reading(_users(wanted)):
            return await self._retrieval.rank(query, wanted, limit, mode, repr(self))

    def on_primary(self) -> contextlib.AbstractContextManager[None]:
        """Return a context (``with store.on_primary():``) in which reads go to the primary, not to replicas.

        It holds for the task that enters it and for those that it starts, through scoped handles as well.
        """
        return on_primary()

    # Removing

    async def _clear(self, wanted: Filter) -> int:
        with self._server.writing(_users(wanted)):
            return await self._removals.hide(wanted)

    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        wanted = Filter(metadata=within, archived=None).also(*self._alive())
        with self._server.writing(_users(wanted)):
            return bool(await self._removals.hide(wanted, item_id))

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        with self._server.writing(_users(wanted)):
            if self._vectors is None:
                return await self._removals.show(wanted, item_id)
            rows = await self._removals.show_contents(wanted, item_id)
            await self._embed_again(rows)
        return len(rows)

    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        with self._server.writing(_users(wanted)):
            purged = await self._removals.purge(wanted, item_id, deleted_only=deleted_only)
        if purged:
            self._retrieval.forget()
        return purged

    # Branches

    async def _place(self, item_id: str) -> int | None:
        rows = await self._server.fetch(*self._statements.place(item_id))
        return int(rows[0][0]) if rows else None

    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        with self._server.writing(_users(wanted)):
            row = await self._removals.take(wanted, purge=purge)
        if row is not None and purge:
            self._retrieval.forget()
        return None if row is None else item_of(row, self.item_types)

    # Lifetimes

    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        with self._server.writing(None):
            return await self._touches.touch(ids, ttl, now, within)

    async def _sweep(self, wanted: Filter) -> int:
        with self._server.writing(_users(wanted)):
            swept = await self._removals.purge(wanted, None, deleted_only=False)
        if swept:
            self._retrieval.forget()
        return swept

    async def _soonest_expiry(self) -> str | None:
        return await self._touches.soonest()

    async def _embed_again(self, rows: Sequence[tuple[str, str, int]]) -> None:
        """Make vectors for items that came back; a failing embedder leaves them for reindex()."""
        try:
            await fill_vectors(self._server, self._vectors, self._embeddings, rows)
        except EmbeddingError as error:
            logger.warning("%r: %d restored items have no vectors until reindex(): %s", self, len(rows), error)

    # Upkeep

    async def reindex(self, progress: Progress | None = None) -> int:
        """Make the terms and vectors of all items anew and return how many items there are.

        Vectors of another model are dropped first. Searching goes on meanwhile and finds what is done. Safe to break
        off and to call again. ``progress`` is called with the number of items done and of all.
        """
        self._ensure_open()
        return await rebuild(self._server, self._statements, self._vectors, self._embeddings, progress)

    async def doctor(self, repair: bool = False) -> list[Finding]:
        """Return which extensions, indexes and vectors there are and what is lost without them.

        With ``repair``, extensions and indexes that are missing are created where the server allows it.
        """
        self._ensure_open()
        found = await examine(self._server, self._statements, self._embeddings, self._vectors, repair=repair)
        replicas = await self._server.findings() if isinstance(self._server, ReplicatedServer) else []
        return found + replicas


def _users_of(items: Sequence[MemoryItem]) -> set[str | None]:
    """Return the users of items."""
    return {item.metadata.user_id for item in items}


def _users(wanted: Filter) -> tuple[str | None, ...] | None:
    """Return the only user whose items a filter can match, or None where it does not name one."""
    user = user_of(wanted)
    return None if user is None else (user,)
