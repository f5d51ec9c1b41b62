"""The PostgreSQL store."""

from __future__ import annotations

import contextlib
import ssl as tls
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from memoranda.errors import InputError
from memoranda.plugins import embedder
from memoranda.shapes import seconds, whole_number
from memoranda.store import Finding, Store
from memoranda_postgres.engine import PostgresEngine
from memoranda_postgres.indexing import Progress
from memoranda_postgres.replicas import ReplicatedServer, checked_places, on_primary
from memoranda_postgres.server import Server, ServerOptions
from memoranda_postgres.urls import checked_dsn, checked_schema, take_url_options

if TYPE_CHECKING:
    from memoranda.embeddings import Embeddings
    from memoranda_backend.ranking import Weights


class PostgresMemoryStore(Store):
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

    capabilities = PostgresEngine.capabilities

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
        server = ReplicatedServer(options, places, lag) if places else Server(options, pool)
        self.weights = weights
        """What each signal counts in a ranked search; None for the defaults."""
        self._database = PostgresEngine(server, schema, partitions, embeddings, weights)
        super().__init__(self._database)

    @property
    def embeddings(self) -> Embeddings | None:
        """The embedder, if there is one."""
        return self._database.embeddings

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
        return f"<PostgresMemoryStore on {self._database.server.where}>"

    async def init(self) -> None:
        """Connect, and create or migrate the tables. Calling it again while open does nothing.

        Any number of processes may do this at once. Raises StoreUnavailableError when the server cannot be reached
        within the connect timeout, SchemaTooNewError when a later release wrote the tables.
        """
        if self.is_open:
            self._database.server.check_usable()
        await super().init()
        self.capabilities = self._database.capabilities

    def gauges(self) -> dict[str, int]:
        """Return the numbers of connections, and of items that wait for the writer and the index; in any thread."""
        return self._database.gauges() if self.is_open else {}

    def on_primary(self) -> contextlib.AbstractContextManager[None]:
        """Return a context (``with store.on_primary():``) in which reads go to the primary, not to replicas.

        It holds for the task that enters it and for those that it starts, through scoped handles as well.
        """
        return on_primary()

    async def reindex(self, progress: Progress | None = None) -> int:
        """Recompute the terms and vectors of all items and return how many items there are.

        Vectors of another model are dropped first. Searches go on meanwhile and find what is done so far. Safe to
        interrupt and to call again. ``progress`` is called with the numbers of items done and in all.
        """
        return await self._database.reindex(progress)

    async def doctor(self, repair: bool = False) -> list[Finding]:
        """Report on extensions, indexes and vectors, what is lost without each, and how many items wait.

        With ``repair``, missing extensions and indexes are created where the server permits it.
        """
        return await self._database.doctor(repair=repair)
