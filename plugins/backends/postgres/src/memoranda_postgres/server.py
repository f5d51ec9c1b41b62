"""Calls of the server: bounded in time, and retried where that is safe.

A store belongs to the process that opened it. A forked child would share its connections, so use from there is refused
at once. So is use of a given pool in another event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import asyncpg

from memoranda.errors import InputError, StoreClosedError, StoreMisuseError
from memoranda.store.backend import step
from memoranda_postgres.connections import Connection, Connections, GivenPool, OwnPool
from memoranda_postgres.dialect import PostgresDialect
from memoranda_postgres.faults import FOREIGN, LOST, NOT_DONE, READ_ONLY, location, may_retry, translated
from memoranda_postgres.pooler import Pooler, look_for_pooler
from memoranda_postgres.urls import UNREADABLE, Hosts

T = TypeVar("T")

UNHURRIED = 24 * 3600.0
"""The timeout of work that grows with the table, like building an index."""

ROWS_A_SECOND = 100
"""How many rows even a slow server locks, writes or removes each second."""

_CACHED_STATEMENTS = 100

_NO_DIFFERENCE = contextlib.nullcontext()

_SUSPECT_AFTER = 3.0
"""How long a call may go unanswered before the other hosts of the URL are asked if one has taken over."""

_NEXT_PRIMARY_WITHIN = 3.0
"""How long opening waits for a primary if no host is one."""

PAUSES = (0.0, 0.05, 0.15, 0.4, 0.8, 1.2, None)
"""The pauses before each retry, about as long as a restart takes in all; None ends them."""

_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

_PATTERN = " LIKE $"
"""The text before a bound pattern, and before nothing else."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How to reach the server. ``repr`` hides the password, with all of ``dsn``."""

    dsn: str
    min_size: int
    max_size: int
    ssl: Any
    statement_cache_size: int | None
    """How many prepared statements a connection keeps; None to decide by the pooler, if any."""
    connect_timeout: float
    timeout: float

    def __repr__(self) -> str:
        return f"ServerOptions({location(self.dsn)!r})"


_Snapshot = tuple["Server", "asyncio.Task[Any] | None", Connection]
_snapshots: ContextVar[_Snapshot | None] = ContextVar("memoranda_postgres_snapshot", default=None)


class Server:
    """Runs work on connections of one server."""

    def __init__(self, options: ServerOptions, pool: Any = None, pauses: Sequence[float | None] = PAUSES) -> None:
        self.options = options
        self.where = "PostgreSQL through the given pool" if pool is not None else location(options.dsn)
        self.label = self.where
        """How messages name the store."""
        self.timeout = options.timeout
        self._given = pool
        self._pauses = pauses
        self._connections: Connections | None = None
        self._process = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pooler: Pooler | None = None
        self._hosts = Hosts(options.dsn)
        self.calls = 0
        """How many calls there were, by which background work sees if the store is in use."""

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
        """Return the timeout of a statement that locks, writes or removes so many rows."""
        return self.timeout + rows / ROWS_A_SECOND

    async def close(self) -> None:
        """Wait for pending calls, at most as long as one call may take, and disconnect."""
        connections, self._connections = self._connections, None
        if connections is not None:
            await connections.close(self.timeout)

    @contextlib.asynccontextmanager
    async def bounded(self) -> AsyncGenerator[None, None]:
        """Limit a block to the time for connecting plus one call."""
        seconds = self.options.connect_timeout + self.timeout
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as error:
            raise translated(error, self.where, seconds) from error

    def gauges(self) -> dict[str, int]:
        """Return what is known of the connections to the primary."""
        return {} if self._connections is None else self._connections.gauges()

    def check_process(self) -> None:
        """Raise StoreMisuseError in a forked child."""
        if os.getpid() != self._process:
            raise StoreMisuseError(
                f"{self.label} was opened before this process was forked, and its connections belong to the parent. "
                "Open a store of its own in the child."
            )

    def check_usable(self) -> None:
        """Raise StoreClosedError unless this is open, and StoreMisuseError where it must not be used.

        That is in a forked child and, with a given pool, in another event loop.
        """
        if self._connections is None:
            raise StoreClosedError(self.label, opened=self._process != 0)
        self.check_process()
        if self._given is not None and asyncio.get_running_loop() is not self._loop:
            raise StoreMisuseError(
                f"{self.label} was opened in another event loop, and a pool of asyncpg serves one alone. Give the "
                "store a URL instead: it has connections for every event loop then."
            )

    async def run(self, work: Callable[[Connection], Awaitable[T]], *, repeatable: bool = True) -> T:
        """Do the work on a connection and return its result, translating the driver's errors.

        ``repeatable`` work has the same effect and result when it is repeated after its answer was lost. Other work is
        retried only if the server certainly did not do it.
        """
        self.check_usable()
        self.calls += 1
        loop = asyncio.get_running_loop()
        begun = loop.time()
        snapshot = _snapshots.get()
        # A task that this one started, such as a sweep, inherits the variable and works on the present state.
        if snapshot is not None and snapshot[:2] == (self, asyncio.current_task()):
            return await self._in_snapshot(snapshot[2], work)
        deadline = begun + self.timeout
        connections = self._connections
        if connections is None:
            raise StoreClosedError(self.label)
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
                    raise StoreClosedError(self.label) from error
                if isinstance(error, LOST + NOT_DONE + READ_ONLY):
                    # The other idle connections have the same server, which is gone or no longer the primary.
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

    async def _in_snapshot(self, connection: Connection, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do the work on the connection of a snapshot, which is lost with it: nothing is tried again."""
        try:
            return await work(connection)
        except FOREIGN as error:
            raise translated(error, self.where, self.timeout) from error

    @contextlib.asynccontextmanager
    async def one_state(self) -> AsyncGenerator[bool, None]:
        """Let the reads of this task see one state of the database, by a transaction on a connection of its own."""
        await self.run(lambda connection: connection.execute("SELECT", timeout=self.timeout))  # Renews what is lost.
        connections = self._connections
        if connections is None:
            raise StoreClosedError(self.label)
        try:
            connection = await connections.acquire(asyncio.get_running_loop().time() + self.timeout)
        except FOREIGN as error:
            raise translated(error, self.where, self.timeout) from error
        broken = True
        try:
            await self._in_snapshot(connection, lambda given: given.execute(_SNAPSHOT, timeout=self.timeout))
            token = _snapshots.set((self, asyncio.current_task(), connection))
            try:
                yield True
            finally:
                _snapshots.reset(token)
            await self._in_snapshot(connection, lambda given: given.execute("COMMIT", timeout=self.timeout))
            broken = False
        finally:
            await connections.release(connection, broken=broken)

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
        """Return the pooler between this connection and the server."""
        async with self.transaction(connection):
            return await look_for_pooler(connection, self.timeout)

    def reading(self, users: Iterable[str | None] | None) -> contextlib.AbstractContextManager[None]:
        """Mark a context that only reads items of these users; None means all."""
        return _NO_DIFFERENCE

    def writing(self, users: Iterable[str | None] | None) -> contextlib.AbstractContextManager[None]:
        """Mark a context that writes items of these users, even if it fails; None means all."""
        return _NO_DIFFERENCE

    async def fetch(self, text: str, values: Any, *, one_plan: bool = False) -> list[Any]:
        """Run a query, or a write that may be repeated, and return its rows.

        ``one_plan`` says that the same plan is good for every pattern.
        """
        if _PATTERN in text and not one_plan:
            return await self.run(lambda connection: self._planned(connection, text, values))
        rows: list[Any] = await self.run(lambda connection: connection.fetch(text, *values, timeout=self.timeout))
        return rows

    async def _planned(self, connection: Connection, text: str, values: Any) -> list[Any]:
        """Run a query with a plan for these very values.

        A cached plan serves every pattern: for a rare one it would read all items, newest first, instead of using an
        index. A pooler does not keep an unnamed statement beyond a transaction.
        """
        async with contextlib.nullcontext() if self._is_direct else self.transaction(connection):
            statement = await connection.prepare(text, name="", timeout=self.timeout)
            rows: list[Any] = await statement.fetch(*values, timeout=self.timeout)
        return rows

    @property
    def _is_direct(self) -> bool:
        """True if connections are known to have no pooler."""
        return self._pooler is not None and not self._pooler.present

    async def change_rows(self, text: str, values: Any, count: int) -> list[Any]:
        """Run a statement that changes about so many rows and return its rows; it is not repeated blindly."""
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
        """Run a block in one transaction, joining one that is already open."""
        # The driver cannot tell the state of a closed connection; the next statement says that it is lost.
        if not connection.is_closed() and connection.is_in_transaction():
            yield
            return
        await connection.execute("BEGIN", timeout=self.timeout)
        try:
            yield
        except Exception as error:
            # A lost connection is dropped, which rolls back too.
            if not isinstance(error, LOST) and not connection.is_closed():
                await connection.execute("ROLLBACK", timeout=self.timeout)
            raise
        await connection.execute("COMMIT", timeout=self.timeout)

    @step("statement")
    async def _done(self, connection: Connection, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do the work on a connection; without prepared statements, in a transaction of its own."""
        if not self._hosts.several:
            return await (work(connection) if self.statement_cache_size else self._wrapped(connection, work))
        watch = asyncio.create_task(self._watch(connection))
        try:
            return await (work(connection) if self.statement_cache_size else self._wrapped(connection, work))
        finally:
            watch.cancel()

    async def _watch(self, connection: Connection) -> None:
        """Break off a call whose host does not answer once another host has taken over."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SUSPECT_AFTER)
            attempt = partial(self._connected_to, deadline=loop.time() + self.options.connect_timeout)
            if await self._hosts.moved(connection, attempt):
                # The call sees a lost connection and is retried on the other host where that is safe.
                connection.terminate()
                return

    async def _wrapped(self, connection: Connection, work: Callable[[Connection], Awaitable[T]]) -> T:
        async with self.transaction(connection):
            return await work(connection)

    async def _connect(self, deadline: float) -> Connection:
        """Return a new connection; the first one is checked for a pooler, and replaced if that needs another cache."""
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
                # A cached statement should not long outlive a migration by another process.
                max_cached_statement_lifetime=300,
                # asyncpg prefers this to what the URL says.
                server_settings={} if "application_name=" in options.dsn else {"application_name": "memoranda"},
                **({} if options.ssl is None else {"ssl": options.ssl}),
            )
        except (ValueError, asyncpg.ClientConfigurationError):
            # The driver's message for an unreadable URL quotes it, with the password.
            raise InputError(UNREADABLE, field="dsn") from None

    async def _patiently(self, work: Callable[[], Awaitable[None]], deadline: float) -> None:
        """Wait for a server that is starting, and a while for the next primary; raise anything else at once."""
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
    """Return True if the connection is unusable after this error: it is lost, or a call was cancelled on it."""
    return not isinstance(error, Exception) or isinstance(error, LOST + NOT_DONE + READ_ONLY)
