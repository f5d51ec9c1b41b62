"""The server as the store sees it: calls that are bounded in time, tried again where that is safe, and that stay home.

A store belongs to the process that opened it: elsewhere its connections would be shared with that one, so use from
there is refused at once. So is use of a given pool in another event loop than the one it was opened in.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import asyncpg

from memoranda.errors import InputError, StoreClosedError, StoreMisuseError
from memoranda_postgres.connections import Connection, Connections, GivenPool, OwnPool
from memoranda_postgres.dialect import PostgresDialect
from memoranda_postgres.faults import FOREIGN, LOST, NOT_DONE, READ_ONLY, location, may_retry, translated
from memoranda_postgres.hosts import Hosts
from memoranda_postgres.options import UNREADABLE
from memoranda_postgres.pooler import Pooler, look_for_pooler

T = TypeVar("T")

UNHURRIED = 24 * 3600.0
"""The timeout of what takes as long as there are rows, like building an index."""

ROWS_A_SECOND = 100
"""How many rows even a slow server locks, writes or removes in a second."""

_CACHED_STATEMENTS = 100

_NO_DIFFERENCE = contextlib.nullcontext()

_SUSPECT_AFTER = 3.0
"""How long a call may go without an answer before the other hosts of the URL are asked whether one took its place."""

_NEXT_PRIMARY_WITHIN = 3.0
"""How long opening waits for a primary where all hosts say that they are none."""

PAUSES = (0.0, 0.05, 0.15, 0.4, 0.8, 1.2, None)
"""How long to wait before each further try, two and a half seconds in all, about what a restart takes; None ends it."""

_PATTERN = " LIKE $"
"""What stands before a pattern that is bound, and before nothing else."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How the server is reached. ``repr`` shows no password, since ``dsn`` is not shown at all."""

    dsn: str
    min_size: int
    max_size: int
    ssl: Any
    statement_cache_size: int | None
    """How many prepared statements a connection keeps; None is as many as whatever is in between allows."""
    connect_timeout: float
    timeout: float

    def __repr__(self) -> str:
        return f"ServerOptions({location(self.dsn)!r})"


class Server:
    """Runs work on connections of one server."""

    def __init__(self, options: ServerOptions, pool: Any = None, pauses: Sequence[float | None] = PAUSES) -> None:
        self.options = options
        self.where = "PostgreSQL through the given pool" if pool is not None else location(options.dsn)
        self.timeout = options.timeout
        self._given = pool
        self._pauses = pauses
        self._connections: Connections | None = None
        self._process = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pooler: Pooler | None = None
        self._hosts = Hosts(options.dsn)

    async def open(self) -> None:
        """Connect, within the connect timeout. Raises StoreUnavailableError, leaving nothing open."""
        self._process = os.getpid()
        if self._given is not None:
            self._loop = asyncio.get_running_loop()
            self._connections = GivenPool(self._given)
            if self.options.statement_cache_size is None:
                self._pooler = await self.run(self.look_for_pooler)
            return
        pool = OwnPool(self._connect, self.options.max_size, self.where)
        deadline = asyncio.get_running_loop().time() + self.options.connect_timeout
        try:
            await self._patiently(lambda: pool.fill(self.options.min_size, deadline), deadline)
        except BaseException as error:
            await pool.close(0.0)
            if not isinstance(error, FOREIGN):
                raise
            raise translated(error, self.where, self.options.connect_timeout) from error
        self._connections = pool

    def time_for(self, rows: int) -> float:
        """Return how many seconds a statement may take that locks, writes or removes so many rows."""
        return self.timeout + rows / ROWS_A_SECOND

    async def close(self) -> None:
        """Wait for calls under way, no longer than one call may take, and disconnect."""
        connections, self._connections = self._connections, None
        if connections is not None:
            await connections.close(self.timeout)

    @contextlib.asynccontextmanager
    async def bounded(self) -> AsyncGenerator[None, None]:
        """End what is inside when the time for connecting and for one call together is over."""
        seconds = self.options.connect_timeout + self.timeout
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as error:
            raise translated(error, self.where, seconds) from error

    def check_process(self, store: object) -> None:
        """Raise StoreMisuseError in a forked child."""
        if os.getpid() != self._process:
            raise StoreMisuseError(
                f"{store!r} was opened before this process was forked, and its connections belong to the parent. Open "
                f"a store of its own in the child."
            )

    def check_home(self, store: object) -> None:
        """Raise StoreMisuseError in a forked child and, with a pool that was given, in another event loop."""
        self.check_process(store)
        if self._given is not None and asyncio.get_running_loop() is not self._loop:
            raise StoreMisuseError(
                f"{store!r} was opened in another event loop, and a pool of asyncpg serves one alone. Give the store a "
                f"URL instead: it has connections for every event loop then."
            )

    async def run(self, work: Callable[[Connection], Awaitable[T]], *, repeatable: bool = True) -> T:
        """Do the work on a connection and return what it returns; translate what the driver raises.

        Work that is ``repeatable`` has the same effect and answer when it is done again after its answer was lost.
        Other work is tried again only if the server certainly did not do it.
        """
        loop = asyncio.get_running_loop()
        begun = loop.time()
        deadline = begun + self.timeout
        connections = self._connections
        if connections is None:
            raise StoreClosedError(self.where)
        for pause in self._pauses:
            connection = None
            try:
                connection = await connections.acquire(deadline)
                done = await self._done(connection, work)
            except BaseException as error:
                if connection is not None:
                    await connections.release(connection, broken=_breaks(error))
                if not isinstance(error, FOREIGN):
                    raise
                if isinstance(error, LOST) and self._connections is not connections:
                    raise StoreClosedError(self.where) from error
                if isinstance(error, LOST + NOT_DONE + READ_ONLY):
                    # The other idle connections lead to the same server that is gone, or is no primary any more.
                    await connections.renew()
                again = (connection is None and isinstance(error, LOST + NOT_DONE)) or may_retry(
                    error, repeatable=repeatable
                )
                if pause is None or isinstance(error, TimeoutError) or not again or loop.time() + pause > deadline:
                    raise translated(error, self.where, max(self.timeout, round(loop.time() - begun))) from error
                if pause:
                    await asyncio.sleep(pause)
            else:
                await connections.release(connection, broken=False)
                return done
        raise AssertionError("the last try returns or raises")

    @property
    def statement_cache_size(self) -> int:
        """How many prepared statements a connection keeps.

        With none, a pooler in transaction mode may send the two halves of one statement, its parsing and its execution,
        to different servers, unless they are in one transaction. So each call is one then.
        """
        chosen = self.options.statement_cache_size
        if chosen is None:
            return 0 if self._pooler is not None and not self._pooler.keeps_statements else _CACHED_STATEMENTS
        return chosen

    async def look_for_pooler(self, connection: Connection) -> Pooler:
        """Return what stands between this connection and the server."""
        async with self.transaction(connection):
            return await look_for_pooler(connection, self.timeout)

    def reading(self, users: Iterable[str | None] | None) -> contextlib.AbstractContextManager[None]:
        """Say that what is inside only reads items of these users (None: of any)."""
        return _NO_DIFFERENCE

    def writing(self, users: Iterable[str | None] | None) -> contextlib.AbstractContextManager[None]:
        """Say that what is inside writes items of these users (None: of any), whether it succeeds or not."""
        return _NO_DIFFERENCE

    async def fetch(self, text: str, values: Any) -> list[Any]:
        """Run a query, or a write that may be repeated, and return its rows."""
        if _PATTERN in text:
            return await self.run(lambda connection: self._planned(connection, text, values))
        rows: list[Any] = await self.run(lambda connection: connection.fetch(text, *values, timeout=self.timeout))
        return rows

    async def _planned(self, connection: Connection, text: str, values: Any) -> list[Any]:
        """Run a query that the server plans for these very values.

        The plan of a statement that is kept has to do for every pattern. For one that is in few items it would go
        through all of them, newest first, in place of an index. A pooler keeps track of no statement without a name
        beyond a transaction.
        """
        async with contextlib.nullcontext() if self._is_direct else self.transaction(connection):
            statement = await connection.prepare(text, name="", timeout=self.timeout)
            rows: list[Any] = await statement.fetch(*values, timeout=self.timeout)
        return rows

    @property
    def _is_direct(self) -> bool:
        """Whether all connections are known to lead to the server itself."""
        return self._pooler is not None and not self._pooler.present

    async def change_rows(self, text: str, values: Any, count: int) -> list[Any]:
        """Run a statement that changes about so many rows and return what it returns; it is not repeated blindly."""
        rows: list[Any] = await self.run(
            lambda connection: connection.fetch(text, *values, timeout=self.time_for(count)), repeatable=False
        )
        return rows

    async def lock_items(self, connection: Connection, dialect: PostgresDialect, ids: Sequence[str]) -> list[str]:
        """Lock the existing items of these ids, hidden ones too, until the transaction ends; return their ids.

        Every writer locks items first, in the order of their ids, and only then touches what belongs to them, such as
        vectors. So no two writers wait for each other in a circle. An item's lock is its row; a new item is locked by
        being inserted. An item that was purged and added again while this waited is not among the returned ids and must
        not be written.

        In a partitioned table the lock is the row in the table of ids, and a later statement reads or writes the item.
        A statement that waits for a row and continues with its newer version must not read a partitioned table: some
        releases of PostgreSQL 18 crash on it.
        """
        rows = await connection.fetch(dialect.lock_by_ids("$1"), list(ids), timeout=self.time_for(len(ids)))
        return [row["id"] for row in rows]

    @contextlib.asynccontextmanager
    async def transaction(self, connection: Connection) -> AsyncGenerator[None, None]:
        """Do what is inside in one transaction, all or nothing; one that is open already takes it in."""
        if connection.is_in_transaction():
            yield
            return
        await connection.execute("BEGIN", timeout=self.timeout)
        try:
            yield
        except Exception as error:
            # A connection that was lost or gave no answer is dropped, which rolls back as well.
            if not isinstance(error, LOST) and not connection.is_closed():
                await connection.execute("ROLLBACK", timeout=self.timeout)
            raise
        await connection.execute("COMMIT", timeout=self.timeout)

    async def _done(self, connection: Connection, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do the work on a connection, where there are no prepared statements in a transaction of its own."""
        if not self._hosts.several:
            return await (work(connection) if self.statement_cache_size else self._wrapped(connection, work))
        watch = asyncio.create_task(self._watch(connection))
        try:
            return await (work(connection) if self.statement_cache_size else self._wrapped(connection, work))
        finally:
            watch.cancel()

    async def _watch(self, connection: Connection) -> None:
        """Break a call off whose host does not answer while another host has taken its place."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SUSPECT_AFTER)
            attempt = partial(self._connected_to, deadline=loop.time() + self.options.connect_timeout)
            if await self._hosts.moved(connection, attempt):
                # Whoever waits on it is told that it is lost, and tries again on the other one where that is safe.
                connection.terminate()
                return

    async def _wrapped(self, connection: Connection, work: Callable[[Connection], Awaitable[T]]) -> T:
        async with self.transaction(connection):
            return await work(connection)

    async def _connect(self, deadline: float) -> Connection:
        """Return a new connection; the first of all is looked at, and replaced where a pooler asks for another kind."""
        connection = await self._connected(deadline)
        if self.options.statement_cache_size is None and self._pooler is None:
            before = self.statement_cache_size
            try:
                async with asyncio.timeout_at(deadline):
                    self._pooler = await self.look_for_pooler(connection)
            except BaseException:
                connection.terminate()
                raise
            if self.statement_cache_size != before:
                connection.terminate()
                return await self._connected(deadline)
        return connection

    async def _connected(self, deadline: float) -> Connection:
        async with asyncio.timeout_at(deadline):
            return await self._hosts.connect(partial(self._connected_to, deadline=deadline))

    async def _connected_to(self, dsn: str, deadline: float) -> Connection:
        options = self.options
        left = deadline - asyncio.get_running_loop().time()
        timeout = max(0.01, min(left, options.connect_timeout))
        try:
            return await asyncpg.connect(
                dsn,
                timeout=timeout,
                command_timeout=options.timeout,
                statement_cache_size=self.statement_cache_size,
                # A long-lived statement must not outlive a change of the schema by another process.
                max_cached_statement_lifetime=300,
                # asyncpg prefers this to what the URL says.
                server_settings={} if "application_name=" in options.dsn else {"application_name": "memoranda"},
                **({} if options.ssl is None else {"ssl": options.ssl}),
            )
        except (ValueError, asyncpg.ClientConfigurationError):
            # What the driver says of an unreadable URL quotes it, the password included.
            raise InputError(UNREADABLE, field="dsn") from None

    async def _patiently(self, work: Callable[[], Awaitable[None]], deadline: float) -> None:
        """Wait for a server that is still starting, and a while for the next primary; report all else at once."""
        loop = asyncio.get_running_loop()
        no_primary_until = loop.time() + _NEXT_PRIMARY_WITHIN
        while True:
            try:
                return await work()
            except asyncpg.CannotConnectNowError:
                if loop.time() + 0.2 > deadline:
                    raise
            except asyncpg.TargetServerAttributeNotMatched:
                if loop.time() + 0.2 > min(deadline, no_primary_until):
                    raise
            await asyncio.sleep(0.2)


def _breaks(error: BaseException) -> bool:
    """Whether the connection may be in any state after this error: it is lost, or somebody broke off in the middle."""
    return not isinstance(error, Exception) or isinstance(error, LOST + NOT_DONE + READ_ONLY)
