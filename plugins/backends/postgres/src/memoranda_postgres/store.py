"""The PostgreSQL store."""

from __future__ import annotations

import contextlib
import logging
import ssl as tls
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from asyncpg import InvalidCatalogNameError

from memoranda.errors import EmbeddingError, InputError, StoreUnavailableError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.offloading import offload
from memoranda.plugins import embedder
from memoranda.shapes import seconds, whole_number
from memoranda.store import Capability, Finding, RankedItem, SearchMode, copy_item
from memoranda.store.backend import BASE_CAPABILITIES, Filter, Write
from memoranda_backend.ranking import embed_passages, has_text, normalised
from memoranda_postgres.conditional_writes import ConditionalWrites
from memoranda_postgres.dialect import PostgresDialect, PostgresStatements
from memoranda_postgres.expiry import ExpiryWriter
from memoranda_postgres.filling import Filler
from memoranda_postgres.health import examine
from memoranda_postgres.options import checked_dsn, checked_schema, take_url_options
from memoranda_postgres.reading import ReadingStore, users_of
from memoranda_postgres.reindexing import Progress, fill_vectors, open_vectors, rebuild
from memoranda_postgres.removing import Removals
from memoranda_postgres.replicas import ReplicatedServer, checked_places, on_primary
from memoranda_postgres.retrieval import Retrieval
from memoranda_postgres.rows import Addition, PackedRow, all_packed, item_of, packed
from memoranda_postgres.schema import Layout, has_tables, prepare, set_wrapper_mark, wrapper_mark
from memoranda_postgres.server import Server, ServerOptions
from memoranda_postgres.term_index import TermIndex
from memoranda_postgres.vectors import Vectors
from memoranda_postgres.writing import Writer

if TYPE_CHECKING:
    from memoranda.embeddings import Embeddings
    from memoranda_backend.ranking import Weights

logger = logging.getLogger(__name__)


class PostgresMemoryStore(ReadingStore):
    """A store in a PostgreSQL database, for many processes and machines at once.

    ``dsn`` is a URL as PostgreSQL itself takes it.

    * ``pool`` is an asyncpg pool to use instead; the store never closes it.
    * ``schema`` names the schema of the tables; by default the connection's own.
    * The store's own pool opens ``min_size`` connections at first and ``max_size`` at most, over all event loops.
    * ``ssl`` is what asyncpg takes: True, a mode like ``"verify-full"`` or an SSLContext.
    * ``statement_cache_size`` is how many prepared statements each connection keeps: by default 100, or none behind a
      pooler that does not support them, which is detected.
    * Connecting takes at most ``connect_timeout`` seconds, and every call at most ``timeout``, plus a second for each
      hundred items that it writes or removes.
    * ``partitions`` divides a new table by user into that many parts.
    * ``embeddings`` turns on semantic search where the server has pgvector; ``weights`` are those of the text ranking.
    * ``replicas`` are hosts to read from (``"db2,db3:5433"``), with the user, password and database of ``dsn``. A read
      goes to a replica that has this store's writes and lags at most ``replica_lag`` seconds, else to the primary.

    Calls may come from any event loop of the process that opened the store. Each loop has its own connections, which
    are closed when it ends, so ``max_size`` should be no less than the number of loops that run at once. A given pool
    serves only the loop in which the store was opened, and a forked child must open its own store; a call from
    elsewhere raises StoreMisuseError. A broken connection is replaced, and the call is repeated where that is safe;
    otherwise it raises StoreUnavailableError.
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
            raise InputError("replicas need the URL of the primary, which a given pool hides.", field="replicas")
        self._server = ReplicatedServer(options, places, lag) if places else Server(options, pool)
        self._schema = schema
        self._partitions = partitions
        self._embeddings = embeddings
        self._weights = weights
        self._layout: Layout
        self._writer: Writer
        self._removals: Removals
        self._conditional: ConditionalWrites
        self._expiry: ExpiryWriter
        self._retrieval: Retrieval
        self._index: TermIndex
        self._filler: Filler
        self._vectors: Vectors | None = None

    @property
    def embeddings(self) -> Embeddings | None:
        """The embedder, if there is one."""
        embedder: Embeddings | None = self._embeddings
        return embedder

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

        Raises InputError for an unknown option, and for one with different values in the URL and as a keyword.
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
        """Bring the tables up to date and create everything that works on them."""
        writes = self.access != "read"
        self._layout = await prepare(self._server, self._schema, self._partitions, self.label, migrate=writes)
        dialect = PostgresDialect(self._layout.schema, partitioned=self._layout.partitions > 0)
        self._statements = PostgresStatements(dialect)
        self._index = TermIndex(self._server, self._statements)
        self._filler = Filler(self._server, self._statements, self._index, idle=not writes)
        self._vectors = await self._opened_vectors()
        self._writer = Writer(self._server, self._statements, self._vectors, has_vectors=self._layout.has_vectors)
        self._removals = Removals(self._server, self._statements, has_vectors=self._layout.has_vectors)
        self._conditional = ConditionalWrites(self._server, self._statements, self._writer, self._removals)
        self._expiry = ExpiryWriter(self._server, self._statements, self._writer)
        self._retrieval = Retrieval(
            self._server,
            self._statements,
            lambda: self.stored_types,
            self._weights,
            self._embeddings,
            self._vectors,
            self._index,
            self._filler.searched,
        )
        self._filler.start()

    async def _opened_vectors(self) -> Vectors | None:
        """Return the vectors, creating their table if needed; None without an embedder or without pgvector."""
        self.capabilities = type(self).capabilities
        if self._embeddings is None or (self.access == "read" and not self._layout.has_vectors):
            return None
        vectors = await open_vectors(self._server, self._statements, self._embeddings, self._weights, self.label)
        if vectors is not None:
            self.capabilities = type(self).capabilities | {Capability.SEMANTIC, Capability.HYBRID}
            self._layout = replace(self._layout, has_vectors=True)
        return vectors

    async def _read_mark(self) -> str | None:
        return await self._server.run(lambda connection: wrapper_mark(connection, self._statements.dialect))

    async def _write_mark(self, text: str | None) -> None:
        dialect = self._statements.dialect
        await self._server.run(lambda connection: set_wrapper_mark(self._server, connection, dialect, text))

    async def _close(self) -> None:
        await self._writer.settled()
        await self._filler.stop()
        await self._server.close()

    def _ensure_open(self) -> None:
        super()._ensure_open()
        self._server.check_home(self)

    # What telemetry reads

    def gauges(self) -> dict[str, int]:
        """Return the numbers of connections, and of items that wait for the writer and the index; in any thread."""
        if self._state != "open":
            return {}
        own = {"writer.queue": self._writer.waiting, "index.backlog": self._filler.waiting}
        return self._server.gauges() | own

    # Writing

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        addition = self._writer.addition(packed(item), within)
        if self._vectors is not None:
            (addition,) = await self._embedded([addition])
        with self._server.writing((item.metadata.user_id,)):
            await self._writer.add(addition)
        self._filler.written(1)

    def _packer(self) -> Callable[[Sequence[MemoryItem]], list[PackedRow]]:
        return all_packed

    async def _apply(self, write: Write) -> int:
        rows = write.packed or await offload(len(write.adds), all_packed, write.adds)
        removed = await self._applied(write, rows)
        self._filler.written(len(rows))
        return removed

    async def _applied(self, write: Write, rows: Sequence[PackedRow]) -> int:
        users = {row.user_id for row in rows}
        if write.packed and write.is_plain and self._vectors is None:
            with self._server.writing(users):
                await self._writer.add_large(rows, write.within)
            return 0
        additions = await offload(
            len(rows), self._writer.additions, rows, write.within, keep_created=write.keep_created
        )
        if write.hidden:
            additions = [addition._replace(deleted=addition.row.id in write.hidden) for addition in additions]
        additions = await self._embedded(additions)
        # A deleted id may belong to any user.
        with self._server.writing(None if write.deletes else users):
            compared = write.keep_created or write.fresh or write.new or write.expected is not None
            if write.deletes or compared:
                removed = await self._conditional.apply(write, additions)
                if removed and write.purge:
                    self._retrieval.forget()
                return removed
            await self._writer.add_together(additions)
            return 0

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        kept = [copy_item(item) for item in items]
        additions = await self._embedded([self._writer.addition(packed(item), None) for item in kept])
        with self._server.writing({item.metadata.user_id for item in items}):
            updated = await self._writer.update_together(kept, additions, within)
        self._filler.written(len(updated))
        return updated

    async def _embedded(self, additions: list[Addition]) -> list[Addition]:
        """Return the additions with their vectors, if this store has vectors."""
        if self._vectors is None:
            return additions
        rows = [addition.row for addition in additions if not addition.deleted and has_text(addition.row.content)]
        # Unchanged contents keep their vectors.
        vectors = await self._vectors.present({row.id: row.content for row in rows}) if rows else {}
        new = [row for row in rows if row.id not in vectors]
        made = await embed_passages(self._embeddings, [row.content for row in new], self._vectors.weights.passage)
        vectors |= {row.id: list(map(normalised, passages)) for row, passages in zip(new, made, strict=True)}
        return [addition._replace(vectors=vectors.get(addition.row.id)) for addition in additions]

    # Reading

    async def _rank(self, query: str, wanted: Filter, limit: int, mode: SearchMode) -> list[RankedItem]:
        with self._server.reading(users_of(wanted)):
            return await self._retrieval.rank(query, wanted, limit, mode, self.label)

    def on_primary(self) -> contextlib.AbstractContextManager[None]:
        """Return a context (``with store.on_primary():``) in which reads go to the primary, not to replicas.

        It holds for the task that enters it and for those that it starts, through scoped handles as well.
        """
        return on_primary()

    # Removing

    async def _clear(self, wanted: Filter) -> int:
        with self._server.writing(users_of(wanted)):
            return await self._removals.hide(wanted)

    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        wanted = Filter(metadata=within, archived=None).also(*self._alive())
        with self._server.writing(users_of(wanted)):
            return bool(await self._removals.hide(wanted, item_id))

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        with self._server.writing(users_of(wanted)):
            if self._vectors is None:
                return await self._removals.restore(wanted, item_id)
            rows = await self._removals.restore_contents(wanted, item_id)
            await self._embed_again(rows)
        return len(rows)

    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        with self._server.writing(users_of(wanted)):
            purged = await self._removals.purge(wanted, item_id, deleted_only=deleted_only)
        if purged:
            self._retrieval.forget()
        return purged

    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        with self._server.writing(users_of(wanted)):
            row = await self._removals.take(wanted, purge=purge)
        if row is not None and purge:
            self._retrieval.forget()
        return None if row is None else item_of(row, self.stored_types)

    # Lifetimes

    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        with self._server.writing(None):
            return await self._expiry.touch(ids, ttl, now, within)

    async def _sweep(self, wanted: Filter) -> int:
        with self._server.writing(users_of(wanted)):
            swept = await self._removals.purge(wanted, None, deleted_only=False)
        if swept:
            self._retrieval.forget()
        return swept

    async def _soonest_expiry(self) -> str | None:
        return await self._expiry.soonest()

    async def _embed_again(self, rows: Sequence[tuple[str, str, int]]) -> None:
        """Embed restored items; where the embedder fails, reindex() does it later."""
        try:
            await fill_vectors(self._server, self._vectors, self._embeddings, rows)
        except EmbeddingError as error:
            logger.warning("%r: %d restored items have no vectors until reindex(): %s", self, len(rows), error)

    # Upkeep

    async def reindex(self, progress: Progress | None = None) -> int:
        """Recompute the terms and vectors of all items and return how many items there are.

        Vectors of another model are dropped first. Searches go on meanwhile and find what is done so far. Safe to
        interrupt and to call again. ``progress`` is called with the numbers of items done and in all.
        """
        self._ensure_open()
        return await rebuild(self._server, self._statements, self._vectors, self._embeddings, self._index, progress)

    async def doctor(self, repair: bool = False) -> list[Finding]:
        """Return the state of extensions, indexes and vectors, what is lost without each, and how many items wait.

        With ``repair``, missing extensions and indexes are created where the server permits it.
        """
        self._ensure_open()
        found = await examine(
            self._server, self._statements, self._embeddings, self._vectors, self._index, repair=repair
        )
        replicas = await self._server.findings() if isinstance(self._server, ReplicatedServer) else []
        return found + replicas
