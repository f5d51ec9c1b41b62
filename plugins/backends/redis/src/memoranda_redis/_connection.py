"""Connections to a Redis server or cluster, on every event loop, bounded in number and time.

Driver exceptions end here: callers see those of :mod:`memoranda.errors`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from redis import exceptions as driver
from redis.asyncio import RedisCluster
from redis.asyncio.connection import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import EqualJitterBackoff, NoBackoff

from memoranda.errors import CorruptStoreError, StoreClosedError, StoreError, StoreUnavailableError
from memoranda.per_loop import PerLoop, hang_up
from memoranda.shapes import seconds, whole_number
from memoranda.store.backend import step
from memoranda.urls import together
from memoranda_redis._address import Address

_RETRIES = 3
_NEVER_THERE = "\0never there"
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0
_LOST = (driver.ConnectionError, driver.TimeoutError)
# The command was not done, or may be repeated, as all of ours may. When the driver learns of a new cluster layout, it
# closes connections that are in use, and their calls raise AttributeError.
_UNSETTLED = (*_LOST, driver.ClusterError, driver.RedisClusterException, driver.TryAgainError, AttributeError)
_REFUSAL_TYPES = (driver.NoPermissionError, driver.OutOfMemoryError, driver.ReadOnlyError)
# Errors inside a script arrive as plain text.
_REFUSALS = (
    "OOM",
    "NOPERM",
    "READONLY",
    "MISCONF",
    "LOADING",
    "BUSY",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "NOAUTH",
    "can't run",
    "can't access",
)


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script, and the hash by which Redis knows it once loaded."""

    source: str
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha", hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest())


Run = Callable[[Script, Sequence[Any]], Awaitable[Any]]
"""Runs a script with these arguments."""


class _RefusedError(Exception):
    """The server refused the user name or password; retrying could lock the account."""


class _AbandonedError(Exception):
    """The connections were closed from outside, while this event loop was blocked."""


class _Client(ABC):
    """The driver's connections of one event loop; callers beyond the bound wait."""

    def __init__(self, max_connections: int) -> None:
        self.connecting = asyncio.Lock()
        self.connected = False
        self.closed = False
        self.abandoned = False
        self.active = 0
        self.idle = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._slots = asyncio.Semaphore(max_connections)
        self._retry = Retry(EqualJitterBackoff(cap=_LONGEST_PAUSE, base=_FIRST_PAUSE), _RETRIES)

    @abstractmethod
    async def execute(self, *words: Any) -> Any:
        """Run one command and return the reply, retrying after a lost connection with growing pauses."""

    async def close(self) -> None:
        """Wait for pending calls, which their deadline bounds, and close every connection."""
        self.closed = True
        while self.active:
            self.idle.clear()
            await self.idle.wait()
        self.connected = False
        await self._disconnect()

    @abstractmethod
    async def _disconnect(self) -> None:
        """Close every connection."""

    def abandon(self) -> None:
        """Close every connection of an event loop that cannot do so; its pending calls end when it resumes."""
        self.closed = self.abandoned = True
        for connection in self._every():
            _hang_up(connection, self._loop)

    @abstractmethod
    def _every(self) -> list[Any]:
        """Return every connection."""


class _ServerClient(_Client):
    """Connections to one server.

    The driver's own pool and client cost as much as the round trip itself, so only its connections and retries are
    used.
    """

    def __init__(self, address: Address, max_connections: int, timeout: float) -> None:
        super().__init__(max_connections)
        self._kind = address.options.get("connection_class", Connection)
        self._settings = {
            "socket_connect_timeout": timeout,
            "protocol": 2,
            **address.connection_options(),
            # The caller's deadline bounds both waiting and retrying.
            "socket_timeout": None,
            "retry": Retry(NoBackoff(), 0),
        }
        self._free: list[Any] = []
        self._busy: set[Any] = set()

    async def execute(self, *words: Any) -> Any:
        request = _packed(words)
        async with self._slots:
            connection = self._free.pop() if self._free else self._kind(**self._settings)
            self._busy.add(connection)

            async def attempt() -> Any:
                if self.abandoned:
                    raise _AbandonedError
                try:
                    await connection.send_packed_command(request)
                    return await connection.read_response(disable_decoding=True)
                except driver.AuthenticationError as error:
                    raise _RefusedError from error
                except Exception as error:
                    if self.abandoned:
                        raise _AbandonedError from error
                    raise

            async def give_up(error: Exception) -> None:
                await connection.disconnect(nowait=True)

            try:
                return await self._retry.call_with_retry(attempt, give_up)
            finally:
                self._busy.discard(connection)
                if self.abandoned:  # The connection may have been opened since.
                    await connection.disconnect(nowait=True)
                elif connection.is_connected:
                    self._free.append(connection)

    async def _disconnect(self) -> None:
        for connection in self._free:  # Each stays in the list until all are closed, in case this is cancelled.
            await connection.disconnect()
        self._free.clear()

    def _every(self) -> list[Any]:
        return [*self._free, *self._busy]


class _ClusterClient(_Client):
    """Connections to the nodes of a cluster, which the driver's own client finds by the key."""

    def __init__(self, address: Address, max_connections: int, timeout: float) -> None:
        super().__init__(max_connections)
        settings = {"socket_timeout": timeout, "socket_connect_timeout": timeout, **address.connection_options()}
        if address.options.get("connection_class") is SSLConnection:
            settings["ssl"] = True
        self._ending: asyncio.Task[None] | None = None
        # Callers wait for a slot here. The driver would refuse them, and some releases miscount cancelled calls.
        self._driver: Any = RedisCluster(
            max_connections=2**31,
            retry=self._retry,
            retry_on_error=list(_LOST),
            # A moved slot is noted anyway. Reinitialising would break off other calls.
            reinitialize_steps=0,
            **settings,
        )

    async def execute(self, *words: Any) -> Any:
        """Return the reply of the node that holds the key, retrying until the caller's deadline.

        While a slot is moved or a master is replaced, nodes refuse commands and connections break.
        """
        pause = _FIRST_PAUSE
        async with self._slots:
            try:
                while not self.abandoned:
                    try:
                        return await self._driver.execute_command(*words)
                    except driver.AuthenticationError:
                        raise
                    except _UNSETTLED:
                        if words == ("PING",):
                            raise  # Connecting fails at once where no server answers.
                        await asyncio.sleep(pause)
                        pause = min(2 * pause, _LONGEST_PAUSE)
                raise _AbandonedError
            finally:
                if self.abandoned:  # Connections may have been opened since.
                    await self._disconnect()

    def abandon(self) -> None:
        """Close every connection; a loop that still runs also closes the driver's client."""
        super().abandon()

        def disconnect() -> None:
            self._ending = self._loop.create_task(self._disconnect())

        if self._loop.is_running():
            self._loop.call_soon_threadsafe(disconnect)

    async def _disconnect(self) -> None:
        await self._driver.aclose()
        # The driver counts as closed from the start of aclose(), even if that was cancelled.
        await asyncio.gather(*(node.disconnect() for node in self._nodes()))

    def _every(self) -> list[Any]:
        # The driver has no public access to them.
        return [connection for node in self._nodes() for connection in getattr(node, "_connections", ())]

    def _nodes(self) -> list[Any]:
        """Return the nodes of the cluster, and those that were asked for its layout."""
        manager = self._driver.nodes_manager
        return [*manager.nodes_cache.values(), *manager.startup_nodes.values()]


def _hang_up(connection: Any, loop: asyncio.AbstractEventLoop) -> None:
    """Close a connection whose event loop is closed, stopped or blocked, and so cannot do it."""

    def disconnect() -> None:
        with contextlib.suppress(StopIteration, RuntimeError):  # Nothing to wait for; its loop may be closed.
            connection.disconnect(nowait=True).send(None)

    writer = getattr(connection, "_writer", None)
    if writer is not None:
        hang_up(writer.transport, loop)
        if loop.is_running():
            loop.call_soon_threadsafe(disconnect)
        else:
            disconnect()


def _packed(words: Sequence[Any]) -> bytes:
    """Return a command in the Redis protocol."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        if type(word) is str:
            word = word.encode()
        elif type(word) is not bytes:
            word = str(word).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(word), word))
    return b"".join(parts)


class RedisConnection:
    """Runs scripts and commands on the Redis that an address names.

    Each event loop has a client of its own, so one object serves all of them. Waiting for a connection, retrying and
    the reply itself take at most ``timeout`` seconds together. When a server comes back, the same object works again.
    Both options may be in the URL instead.
    """

    def __init__(
        self,
        address: Address,
        *,
        timeout: float | None = None,
        max_connections: int | None = None,
        default_timeout: float,
    ) -> None:
        in_url: dict[str, Any] = {
            name: address.options[name] for name in ("timeout", "max_connections") if name in address.options
        }
        options = together(in_url, {"timeout": timeout, "max_connections": max_connections})
        self.address = address
        self.timeout = seconds(options.get("timeout", default_timeout), "timeout")
        self._max_connections = whole_number(options.get("max_connections", 32), "max_connections", least=1)
        kind = _ClusterClient if address.cluster else _ServerClient
        self._clients: PerLoop[_Client] = PerLoop(
            lambda: kind(address, self._max_connections, self.timeout),
            end=lambda client: client.close(),
            abandon=lambda client: client.abandon(),
        )

    def gauges(self) -> dict[str, int]:
        """Return how many calls are under way, and how many may have a connection at once; in any thread."""
        clients = self._clients.values()
        active, most = sum(client.active for client in clients), self._max_connections * len(clients)
        used = min(active, most)
        return {"pool.used": used, "pool.max": most, "pool.pending": active - used}

    async def connect(self) -> None:
        """Make sure that the server answers. Does nothing on an event loop that is already connected."""
        await self._connected()

    async def close(self) -> None:
        """Wait for pending calls and close the connections of every event loop; the next use opens new ones.

        Connections of a blocked loop are cut off, and its pending calls raise StoreClosedError when it resumes.
        """
        await self._clients.close()

    @step("statement")
    async def run(
        self, script: Script, keys: Sequence[str], arguments: Sequence[Any] = (), *, patience: float = 0.0
    ) -> Any:
        """Run a script, sending its source to a server that does not know it, and return the reply.

        ``patience`` is added to the timeout, for a call that carries much.
        """
        client = await self._connected()
        return await self._within(client, self._evaluate(client, script, keys, arguments), patience)

    @step("statement")
    async def command(self, *words: Any) -> Any:
        """Run one command and return the reply."""
        client = await self._connected()
        return await self._within(client, client.execute(*words))

    async def _connected(self) -> _Client:
        """Return this event loop's client, connected."""
        while not (client := self._clients.here()).connected:
            async with client.connecting:
                # Another task may have connected or closed it meanwhile; if closed, the next round gets a new one.
                if client.abandoned:
                    raise StoreClosedError(f"Redis at {self.address.display}")
                if not client.connected and not client.closed:
                    await self._within(client, client.execute("PING"))
                    client.connected = True
        return client

    async def _evaluate(self, client: _Client, script: Script, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        if self.address.cluster:
            # A script uses further keys of its slot. While the slot moves, each node has some of them; a command that
            # names two keys, one of them missing, is told to try again later.
            keys = [*keys, f"{keys[0]}{_NEVER_THERE}"]
        try:
            return await client.execute("EVALSHA", script.sha, len(keys), *keys, *arguments)
        except driver.NoScriptError:
            return await client.execute("EVAL", script.source, len(keys), *keys, *arguments)

    async def _within(self, client: _Client, call: Any, patience: float = 0.0) -> Any:
        """Await a call of the driver within the deadline, translating its exceptions."""
        client.active += 1
        seconds = self.timeout + patience
        try:
            async with asyncio.timeout(seconds):
                return await call
        except (_AbandonedError, _RefusedError, driver.RedisError, driver.RedisClusterException, OSError) as error:
            raise self._translated(client, error, seconds) from error
        finally:
            client.active -= 1
            if not client.active:
                client.idle.set()

    def _unavailable(self, what: str) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"Redis at {self.address.display} {what}. Check that the server runs and that the URL is right; "
            f"unacknowledged writes may or may not have been stored."
        )

    def _translated(self, client: _Client, error: Exception, seconds: float) -> StoreError:
        if client.abandoned:
            return StoreClosedError(f"Redis at {self.address.display}")
        if isinstance(error, TimeoutError):
            return self._unavailable(f"did not answer within {seconds:g} seconds")
        if isinstance(error, (_RefusedError, driver.AuthenticationError)):
            return self._unavailable("refused the user name or password")
        if isinstance(error, (*_LOST, driver.RedisClusterException, driver.ClusterError, OSError)):
            client.connected = False
            return self._unavailable(f"cannot be reached ({type(error).__name__})")
        text = str(error)
        if isinstance(error, _REFUSAL_TYPES) or any(refusal in text for refusal in _REFUSALS):
            return self._unavailable(f"refused the command: {text}")
        if "WRONGTYPE" in text:
            return CorruptStoreError(
                f"A key of this memory at {self.address.display} holds something else; another program uses its name."
            )
        return StoreError(f"Redis at {self.address.display} answered with an error: {text}")
