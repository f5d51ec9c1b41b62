"""The Redis store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import MappingProxyType

from memoranda.errors import CorruptStoreError, InputError, SchemaTooNewError
from memoranda.items import BUILTIN_TYPES
from memoranda.shapes import check_text
from memoranda.store import Capability, Finding
from memoranda.store.backend import BASE_CAPABILITIES
from memoranda.urls import take_known_options
from memoranda_redis._address import DEFAULT_URL, Address
from memoranda_redis._connection import RedisConnection, Run, Script
from memoranda_redis._removing import Removing
from memoranda_redis._writing import Writing
from memoranda_redis.episodic import EpisodicMemory
from memoranda_redis.health import examine

MIGRATIONS: tuple[Callable[[Run], Awaitable[None]], ...] = ()
"""Migration n leads from schema version n + 1 to n + 2. Several processes may run one at once, and one that was
interrupted runs again, so each must be idempotent. A released migration never changes."""

_OPEN = Script(
    """
local found = redis.call('GET', KEYS[1] .. 'schema')
if found then return found end
redis.call('SET', KEYS[1] .. 'schema', ARGV[1])
return ARGV[1]
"""
)
"""Keys: the base. Arguments: the schema version of this release. Returns the version of the data."""

_MIGRATED = Script(
    """
local key = KEYS[1] .. 'schema'
if tonumber(redis.call('GET', key)) < tonumber(ARGV[1]) then redis.call('SET', key, ARGV[1]) end
"""
)
"""Keys: the base. Arguments: the schema version that the data has now."""

_READ_MARK = Script("return redis.call('GET', KEYS[1] .. 'wrapper')")
"""Keys: the base. Returns what a wrapper, such as encryption, has noted in the store."""

_WRITE_MARK = Script(
    """
if ARGV[1] == '' then redis.call('DEL', KEYS[1] .. 'wrapper') else redis.call('SET', KEYS[1] .. 'wrapper', ARGV[1]) end
"""
)
"""Keys: the base. Arguments: the text to note; an empty one removes it."""


class RedisMemoryStore(Writing, Removing):
    """Memories in Redis; ``redis://``, ``rediss://`` with TLS, ``redis+cluster://`` and ``rediss+cluster://``.

    * ``namespace`` separates several stores in one Redis. All keys of a namespace lie in one slot of a cluster, which
      makes every write atomic; several namespaces spread over the nodes.
    * ``timeout`` bounds every call with all its retries, in seconds (10 unless given), and grows by one for every
      hundred items that are added at once.
    * At most ``max_connections`` (32) are open in each event loop; further callers wait. The URL may hold both options.

    Calls may come from any event loop; each has its own connections. A write whose answer is lost is repeated and done
    once. Acknowledged writes survive the end of this process; whether they survive the end of the server depends on its
    configuration (``appendonly``, ``appendfsync``). Redis confirms a write before its replicas have it, so a dying
    master may lose it. In a cluster, calls wait while their slot is moved or its master is replaced.

    Ids, namespaces, times and the order of adding have indexes. Types, statuses and substrings are compared on the
    server, other conditions here, over the items of the scope. ``search(mode="text")`` has no index and reads every
    item of the scope, tens of milliseconds or more for a thousand of them: name a user or a session. Redis does nothing
    else while it writes a batch, about 0.2 ms for each item. Items may have a time to live, judged by ``clock``;
    ``update`` of an item keeps the rest of its lifetime.
    """

    capabilities = BASE_CAPABILITIES | {
        Capability.PERSISTENT,
        Capability.ATOMIC,
        Capability.DELETE,
        Capability.ADD_DELETED,
        Capability.PURGE,
        Capability.TTL,
    }
    item_types = MappingProxyType({**BUILTIN_TYPES, "episodic": EpisodicMemory})

    def __init__(
        self,
        redis_url: str = DEFAULT_URL,
        *,
        namespace: str = "default",
        timeout: float | None = None,
        max_connections: int | None = None,
    ) -> None:
        super().__init__()
        if not check_text(namespace, "namespace") or "{" in namespace or "}" in namespace:
            raise InputError("namespace must be text without braces, and not empty.", field="namespace")
        self._address = Address.of(redis_url)
        self._namespace = namespace
        self._base = f"memoranda:{{{namespace}}}:"
        self._connection = RedisConnection(
            self._address, timeout=timeout, max_connections=max_connections, default_timeout=10.0
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.display!r}, namespace={self._namespace!r})"

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        namespace: str | None = None,
        timeout: float | None = None,
        max_connections: int | None = None,
    ) -> RedisMemoryStore:
        """Return the store of a URL, whose query may hold these options and the driver's own (``ssl_…``).

        Raises InputError for an unknown option, and for one with different values in the URL and as a keyword.
        """
        known = {"namespace": str, "timeout": float, "max_connections": int}
        given = {"namespace": namespace, "timeout": timeout, "max_connections": max_connections}
        rest, options = take_known_options(url, known, given)
        return cls(rest, **options)

    # Lifecycle

    async def _init(self) -> None:
        try:
            await self._connection.connect()
            latest = len(MIGRATIONS) + 1
            found = self._schema(await self._run_opening(_OPEN, [latest]))
            if found > latest:
                raise SchemaTooNewError(self.label, found, latest)
            for version, migration in enumerate(MIGRATIONS[found - 1 :], found + 1):
                await migration(self._run_opening)
                await self._run_opening(_MIGRATED, [version])
        except BaseException:
            await self._connection.close()
            raise

    async def _close(self) -> None:
        await self._connection.close()

    async def _read_mark(self) -> str | None:
        found = await self._run_opening(_READ_MARK, [])
        return None if found is None else found.decode()

    async def _write_mark(self, text: str | None) -> None:
        await self._run_opening(_WRITE_MARK, [text or ""])

    def _schema(self, written: bytes) -> int:
        try:
            version = int(written)
        except ValueError:
            version = 0
        if version < 1:
            raise CorruptStoreError(
                f"{self.label} has a schema version that is no number from 1 on. Another program uses the key "
                f"{self._base}schema; choose another namespace, or restore a backup."
            )
        return version

    # What telemetry reads

    def gauges(self) -> dict[str, int]:
        """Return how many connections are in use, in any thread."""
        return self._connection.gauges()

    # Health

    async def doctor(self, repair: bool = False) -> list[Finding]:
        """Return how the server persists data, whether every item can be read, and whether the indexes agree.

        With ``repair``, missing index members are added, and those without an item are removed. A server that hides its
        settings from this user is reported as such, and not as a fault.
        """
        self._ensure_open()
        return await examine(self._run, self._base, self.item_types, repair=repair)
