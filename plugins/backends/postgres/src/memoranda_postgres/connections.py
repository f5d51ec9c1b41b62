"""Connections: a small pool of our own, or the caller's pool."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import asyncpg

from memoranda.errors import StoreClosedError
from memoranda.per_loop import PerLoop, hang_up, run_in
from memoranda.store.backend import step

Connection = Any  # asyncpg ships no types

_LOOK = 0.002
"""How many seconds pass between two checks if another event loop has left room."""

_LONG_IDLE = 1.0
"""After how many idle seconds a connection gives up its place to an event loop that has too few."""


class Connections(Protocol):
    """A source of connections."""

    def acquire(self, deadline: float) -> Awaitable[Connection]:
        """Return a connection for one call; raises TimeoutError at the deadline (of the loop's clock)."""
        ...

    async def release(self, connection: Connection, *, broken: bool) -> None:
        """Give a connection back; a broken one is dropped."""

    async def renew(self) -> None:
        """Drop the idle connections, because their server is gone or no longer the primary."""

    async def close(self, timeout: float) -> None:
        """Wait for pending calls, at most this long, and close our own connections."""

    def gauges(self) -> dict[str, int]:
        """Return how many connections are in use, and what else is known of the pool; in any thread."""


class _Home:
    """The connections of one event loop; no other loop uses them."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.size = 0
        """How many there are, including those being opened."""
        self.idle: list[tuple[float, Connection]] = []
        """The unused ones, each with the time since when; the last used one is used next."""
        self.asks = False
        """True while a waiting task asks other loops for a place."""
        self.every: set[Connection] = set()
        self.abandoned = False
        """True if the connections were given up because the loop was closed or blocked."""
        self.waiters: deque[asyncio.Future[Connection | None]] = deque()
        self.all_back: asyncio.Future[None] | None = None

    def take_idle(self) -> Connection | None:
        """Return an idle connection if there is one; other threads may take those of a stopped loop."""
        with contextlib.suppress(IndexError):
            return self.idle.pop()[1]
        return None

    def hang_up(self, connection: Connection) -> None:
        """Close the socket of a connection; its loop does the rest later."""
        transport = getattr(connection, "_transport", None)  # The driver has no public access to it.
        if transport is not None:
            hang_up(transport, self.loop)

    def keep(self, connection: Connection) -> None:
        """Keep a connection for the next caller."""
        self.idle.append((time.monotonic(), connection))

    def wake(self, connection: Connection | None) -> bool:
        """Hand a connection to the longest waiting task, or let it look again."""
        while self.waiters:
            waiter = self.waiters.popleft()
            if not waiter.done():
                with contextlib.suppress(RuntimeError):  # Its loop is closed.
                    waiter.set_result(connection)
                    return True
        return False

    def check_all_back(self) -> None:
        """Wake the task that closes, once nothing is in use."""
        if self.all_back is not None and not self.all_back.done() and self.size == len(self.idle):
            self.all_back.set_result(None)


class OwnPool:
    """At most ``max_size`` connections, opened when they are needed and kept, each for the event loop that opened it.

    A loop's connections are closed when it ends. If other loops have all allowed connections, a loop without any gets
    the place of an idle one, or of the next one released; a loop with some gets only the places of long idle ones.

    It does less than asyncpg's pool, whose ``get`` takes 1.9 times as long, even without its reset query. Our calls
    leave nothing behind but possibly an open transaction, and such a connection is dropped. There is no task for each
    release and no proxy for each connection.
    """

    def __init__(self, connect: Callable[[float], Awaitable[Connection]], max_size: int, where: str) -> None:
        self._connect = connect
        self._max_size = max_size
        self._where = where
        self._closing = False
        self._size = 0
        self._guard = threading.Lock()
        self._home_of: dict[Connection, _Home] = {}
        self._homes: PerLoop[_Home] = PerLoop(_Home, end=self._closed_with_loop, abandon=self._abandon)
        self._homeless: deque[_Home] = deque()

    async def fill(self, count: int, deadline: float) -> None:
        """Open connections until this event loop has this many."""
        home = self._homes.here()
        while home.size < count and self._has_room(home):
            home.keep(await self._opened(home, deadline))

    @step("pool")
    async def acquire(self, deadline: float) -> Connection:
        """Return an idle connection of this event loop, a new one, or the next one released.

        Raises StoreClosedError once :meth:`close` has begun, and if the loop was blocked meanwhile.
        """
        if self._closing:
            raise StoreClosedError(self._where)
        home = self._homes.here()
        while True:
            if home.abandoned:
                raise StoreClosedError(self._where)
            while (connection := home.take_idle()) is not None:
                if not connection.is_closed():
                    return connection
                self._drop(home, connection)
            if self._has_room(home):
                return await self._opened(home, deadline)
            handed = await self._handed(home, deadline)
            if handed is not None:
                if not handed.is_closed():
                    return handed
                self._drop(home, handed)  # It was lost, or given up with its loop, before this task had its turn.

    async def release(self, connection: Connection, *, broken: bool) -> None:
        """Hand the connection to the longest waiting task, or keep it."""
        home = self._home_of.get(connection)
        if home is None:
            return  # Its event loop was given up with all its connections.
        if broken or connection.is_closed() or connection.is_in_transaction() or self._is_wanted_elsewhere():
            self._drop(home, connection)
        elif not home.wake(connection):
            home.keep(connection)
        home.check_all_back()

    async def renew(self) -> None:
        """Drop the idle connections of this event loop; other loops notice by themselves."""
        if self._closing:
            return  # They are being closed.
        home = self._homes.here()
        while (connection := home.take_idle()) is not None:
            self._drop(home, connection)

    async def close(self, timeout: float) -> None:
        """Wait until all connections are released, then close them; those not released in time are left alone.

        Connections of a blocked event loop are cut off.
        """
        self._closing = True
        await self._homes.close(lambda home: self._closed(home, timeout))

    def gauges(self) -> dict[str, int]:
        """Return how many connections are in use and idle, how many there may be, and how many calls wait for one."""
        homes = self._homes.values()
        idle = sum(len(home.idle) for home in homes)
        pending = sum(len(home.waiters) for home in homes)
        used = max(0, self._size - idle)
        return {"pool.used": used, "pool.idle": idle, "pool.max": self._max_size, "pool.pending": pending}

    async def _closed(self, home: _Home, timeout: float) -> None:
        """Close the connections of this event loop."""
        deadline = time.monotonic() + timeout
        if home.size > len(home.idle):
            home.all_back = asyncio.get_running_loop().create_future()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await home.all_back
        while (connection := home.take_idle()) is not None:
            try:
                await connection.close(timeout=max(0.05, min(2.0, deadline - time.monotonic())))
            except Exception:  # noqa: BLE001 - a server that is gone needs no goodbye
                connection.terminate()
            self._drop(home, connection)

    async def _closed_with_loop(self, home: _Home) -> None:
        """Close all connections of an event loop that ends, even those in use."""
        await self._closed(home, 0.0)
        for connection in list(home.every):
            self._drop(home, connection)
        await asyncio.sleep(0)  # Let the driver finish those that were in use.

    def _abandon(self, home: _Home) -> None:
        """Close the connections of an event loop that is closed, stopped, or blocked while the store closes."""
        home.abandoned = True
        if home.loop.is_running():  # It is blocked, and does the rest when it resumes.
            for connection in list(home.every):
                home.hang_up(connection)
            home.loop.call_soon_threadsafe(self._let_go, home)
        else:
            self._let_go(home)

    def _let_go(self, home: _Home) -> None:
        home.idle.clear()
        for connection in list(home.every):
            self._drop(home, connection, stopped=True)
        with self._guard:
            self._size -= home.size  # Connections that were being opened.
            home.size = 0
        while home.wake(None):
            pass

    def _has_room(self, home: _Home) -> bool:
        """Reserve a place for one more connection; return False if there is none."""
        with self._guard:
            if self._size >= self._max_size:
                return False
            self._size += 1
            home.size += 1
            return True

    async def _opened(self, home: _Home, deadline: float) -> Connection:
        try:
            connection = await self._connect(deadline)
        except BaseException:
            self._leave(home)
            home.check_all_back()
            raise
        if home.abandoned:
            connection.terminate()
            raise StoreClosedError(self._where)
        home.every.add(connection)
        self._home_of[connection] = home
        return connection

    def _drop(self, home: _Home, connection: Connection, stopped: bool = False) -> None:
        """Terminate a connection and free its place."""
        if self._home_of.pop(connection, None) is None:
            return
        home.every.discard(connection)
        if stopped:
            home.hang_up(connection)
        with contextlib.suppress(RuntimeError):  # Its loop is closed.
            connection.terminate()
        self._leave(home)

    def _leave(self, home: _Home) -> None:
        with self._guard:
            self._size -= 1
            home.size -= 1
        # One task is enough to open another connection; if none is left to be released, wake all of them.
        while home.wake(None) and not home.size:
            pass

    async def _handed(self, home: _Home, deadline: float) -> Connection | None:
        """Wait for a released connection of this event loop; None if there may be room for a new one."""
        if not home.size and not home.asks:
            await self._ask_for_room(home, deadline)
            return None
        self._collect_long_idle()
        waiter: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        home.waiters.append(waiter)
        try:
            async with asyncio.timeout_at(deadline):
                return await waiter
        except BaseException:
            # A connection handed over at the moment of giving up goes to the next task.
            if waiter.done() and not waiter.cancelled():
                if waiter.result() is None:
                    home.wake(None)
                else:
                    await self.release(waiter.result(), broken=False)
            raise

    # Places of other event loops

    async def _ask_for_room(self, home: _Home, deadline: float) -> None:
        """Wait for room for the first connection of an event loop."""
        home.asks = True
        try:
            while self._size >= self._max_size:
                if home not in self._homeless:
                    self._homeless.append(home)
                    for loop, other in self._homes.elsewhere():
                        self._tell(loop, other, self._give_place)
                if asyncio.get_running_loop().time() >= deadline:
                    raise TimeoutError
                await asyncio.sleep(_LOOK)
        except BaseException:
            home.wake(None)  # Let the next task ask.
            raise
        finally:
            home.asks = False

    def _collect_long_idle(self) -> None:
        """Have other event loops give up long idle connections, which makes room for later callers."""
        before = time.monotonic() - _LONG_IDLE
        for loop, other in self._homes.elsewhere():
            if other.idle and other.idle[0][0] < before:
                self._tell(loop, other, self._give_long_idle)

    def _tell(self, loop: asyncio.AbstractEventLoop, home: _Home, give: Callable[[_Home, bool], None]) -> None:
        """Have an event loop give up connections; take those of a stopped loop."""
        if not loop.is_running():
            give(home, True)
            return
        with contextlib.suppress(RuntimeError):  # It was just closed.
            loop.call_soon_threadsafe(give, home, False)

    def _give_place(self, home: _Home, stopped: bool) -> None:
        if home.idle and self._is_wanted_elsewhere() and (connection := home.take_idle()) is not None:
            self._drop(home, connection, stopped)

    def _give_long_idle(self, home: _Home, stopped: bool) -> None:
        before = time.monotonic() - _LONG_IDLE
        while home.idle and home.idle[0][0] < before:
            self._drop(home, home.idle.pop(0)[1], stopped)

    def _is_wanted_elsewhere(self) -> bool:
        """Return True if an event loop without a connection waits for a place; it gets the next free one."""
        while self._homeless:
            with contextlib.suppress(IndexError):
                if self._homeless.popleft().asks:
                    return True
        return False


class GivenPool:
    """The caller's pool, which is never closed here and keeps its own reset after each call.

    Only the event loop that created it may use it.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._out = 0
        self._all_back: asyncio.Future[None] | None = None

    @step("pool")
    async def acquire(self, deadline: float) -> Connection:
        """Take a connection from the pool."""
        timeout = max(0.0, deadline - asyncio.get_running_loop().time())
        connection = await self._pool.acquire(timeout=timeout)
        self._out += 1
        return connection

    async def release(self, connection: Connection, *, broken: bool) -> None:
        """Give a connection back; a broken one is terminated first, so that the pool opens another."""
        self._out -= 1
        # asyncpg takes back a lost connection by itself, and then raises for every call on it.
        with contextlib.suppress(asyncpg.InterfaceError):
            if broken or connection.is_closed() or connection.is_in_transaction():
                connection.terminate()
        await self._pool.release(connection)
        if self._all_back is not None and not self._all_back.done() and not self._out:
            self._all_back.set_result(None)

    async def renew(self) -> None:
        """Have the pool replace its connections."""
        await self._pool.expire_connections()

    def gauges(self) -> dict[str, int]:
        """Return how many connections this store has taken."""
        return {"pool.used": self._out}

    async def close(self, timeout: float) -> None:
        """Wait until our connections are released."""
        await run_in(self._loop, lambda: self._back(timeout))

    async def _back(self, timeout: float) -> None:
        if self._out:
            self._all_back = asyncio.get_running_loop().create_future()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._all_back
