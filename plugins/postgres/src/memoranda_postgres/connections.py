"""Connections: a small pool of our own, or one that was given."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import asyncpg

Connection = Any  # asyncpg ships no types


class Connections(Protocol):
    """Where connections come from and go back to."""

    async def acquire(self, deadline: float) -> Connection:
        """Return a connection for one call; raises TimeoutError at the deadline (of the loop's clock)."""

    async def release(self, connection: Connection, *, broken: bool) -> None:
        """Give a connection back; a broken one is dropped."""

    async def renew(self) -> None:
        """Drop the idle connections: the server that they lead to is gone or not the right one any more."""

    async def close(self, timeout: float) -> None:
        """Wait for calls under way, no longer than this, and release what is ours."""


class OwnPool:
    """At most ``max_size`` connections, opened when they are needed and kept.

    It does less than asyncpg's pool. There is no reset query between calls: a call of ours leaves nothing behind but
    possibly an open transaction, and a connection that has one is dropped. Nor is there a task for each release and a
    proxy for each connection. Measured in one process and in turns, with the pool of asyncpg 0.32 and a ``reset`` that
    does nothing, a ``get`` takes 1.9 times as long (1.6 times in sixteen coroutines), a mixture with adds and searches
    1.2 to 1.4 times, and adds that are gathered about the same.
    """

    def __init__(self, connect: Callable[[float], Awaitable[Connection]], max_size: int) -> None:
        self._connect = connect
        self._max_size = max_size
        self._size = 0
        self._idle: list[Connection] = []
        self._waiters: deque[asyncio.Future[Connection | None]] = deque()
        self._all_back: asyncio.Future[None] | None = None

    async def fill(self, count: int, deadline: float) -> None:
        """Open connections until there are this many."""
        while self._size < count:
            connection = await self._opened(deadline)
            self._idle.append(connection)

    async def acquire(self, deadline: float) -> Connection:
        """Return an idle connection, a new one, or the next that comes back."""
        while True:
            while self._idle:
                connection = self._idle.pop()
                if not connection.is_closed():
                    return connection
                self._size -= 1
            if self._size < self._max_size:
                return await self._opened(deadline)
            handed = await self._handed(deadline)
            if handed is not None:
                return handed

    async def release(self, connection: Connection, *, broken: bool) -> None:
        """Hand the connection to who waits longest, or keep it."""
        if broken or connection.is_closed() or connection.is_in_transaction():
            connection.terminate()
            self._size -= 1
            self._wake(None)
        elif not self._wake(connection):
            self._idle.append(connection)
        self._check_all_back()

    async def renew(self) -> None:
        """Drop the idle connections."""
        idle, self._idle = self._idle, []
        self._size -= len(idle)
        for connection in idle:
            connection.terminate()

    async def close(self, timeout: float) -> None:
        """Wait until all connections are back, then close them; what does not come back in time is left to itself."""
        deadline = time.monotonic() + timeout
        if self._size > len(self._idle):
            self._all_back = asyncio.get_running_loop().create_future()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._all_back
        idle, self._idle = self._idle, []
        self._size -= len(idle)
        for connection in idle:
            try:
                await connection.close(timeout=max(0.05, min(2.0, deadline - time.monotonic())))
            except Exception:  # noqa: BLE001  # a server that is gone needs no goodbye
                connection.terminate()

    async def _opened(self, deadline: float) -> Connection:
        self._size += 1
        try:
            return await self._connect(deadline)
        except BaseException:
            self._size -= 1
            self._wake(None)
            self._check_all_back()
            raise

    async def _handed(self, deadline: float) -> Connection | None:
        waiter: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout_at(deadline):
                return await waiter
        except BaseException:
            # What was handed over in the moment of giving up goes to the next one.
            if waiter.done() and not waiter.cancelled():
                if waiter.result() is None:
                    self._wake(None)
                else:
                    await self.release(waiter.result(), broken=False)
            raise

    def _wake(self, connection: Connection | None) -> bool:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return True
        return False

    def _check_all_back(self) -> None:
        if self._all_back is not None and not self._all_back.done() and self._size == len(self._idle):
            self._all_back.set_result(None)


class GivenPool:
    """A pool that the caller owns. It is never closed here, and its own reset after each call is left to it."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._out = 0
        self._all_back: asyncio.Future[None] | None = None

    async def acquire(self, deadline: float) -> Connection:
        """Take a connection from the pool."""
        timeout = max(0.0, deadline - asyncio.get_running_loop().time())
        connection = await self._pool.acquire(timeout=timeout)
        self._out += 1
        return connection

    async def release(self, connection: Connection, *, broken: bool) -> None:
        """Give it back; a broken connection is terminated first, so that the pool opens another one."""
        self._out -= 1
        # asyncpg takes a connection that was lost back by itself, and then refuses every question about it.
        with contextlib.suppress(asyncpg.InterfaceError):
            if broken or connection.is_closed() or connection.is_in_transaction():
                connection.terminate()
        await self._pool.release(connection)
        if self._all_back is not None and not self._all_back.done() and not self._out:
            self._all_back.set_result(None)

    async def renew(self) -> None:
        """Have the pool open new connections instead of those that it has."""
        await self._pool.expire_connections()

    async def close(self, timeout: float) -> None:
        """Wait until our connections are back."""
        if self._out:
            self._all_back = asyncio.get_running_loop().create_future()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._all_back
