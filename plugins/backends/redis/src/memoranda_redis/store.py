"""The Redis store and its engine: requests become scripts, each of which does all of its work or nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from memoranda.errors import CorruptStoreError, InputError, SchemaTooNewError, UnsupportedError
from memoranda.items import BUILTIN_TYPES, Payload
from memoranda.loops import CallsUnderWay, import_in_thread
from memoranda.shapes import check_text
from memoranda.store import Capability, Finding, RankedItem, Store
from memoranda.store.backend import BASE_CAPABILITIES, Change, Opened, Opening, Query, Write, Written
from memoranda.urls import take_known_options
from memoranda_redis._address import DEFAULT_URL, Address
from memoranda_redis._connection import RedisConnection, Run, Script
from memoranda_redis._writing import Writing
from memoranda_redis.episodic import EpisodicMemory
from memoranda_redis.health import examine

if TYPE_CHECKING:
    from memoranda_backend.ranking import RankedScopes


MIGRATIONS: tuple[Callable[[Run], Awaitable[None]], ...] = ()
"""Migration n leads from schema version n + 1 to n + 2. Several processes may run one at once, and one that was
interrupted runs again, so each must be idempotent. A released migration never changes."""

_OPEN = Script(
    """
local found = redis.call('GET', KEYS[1] .. 'schema')
if found then return found end
if ARGV[2] ~= 'read' then redis.call('SET', KEYS[1] .. 'schema', ARGV[1]) end
return ARGV[1]
"""
)
"""Keys: the base. Arguments: the schema version of this release, and what the store is opened for. Returns the version
of the data."""

_MIGRATED = Script(
    """
local key = KEYS[1] .. 'schema'
if tonumber(redis.call('GET', key)) < tonumber(ARGV[1]) then redis.call('SET', key, ARGV[1]) end
"""
)
"""Keys: the base. Arguments: the schema version that the data has now."""

READ_MARK = Script("return redis.call('GET', KEYS[1] .. 'wrapper')")
"""Keys: the base. Returns what a wrapper, such as encryption, has noted in the store."""

WRITE_MARK = Script(
    """
if ARGV[1] == '' then redis.call('DEL', KEYS[1] .. 'wrapper') else redis.call('SET', KEYS[1] .. 'wrapper', ARGV[1]) end
"""
)
"""Keys: the base. Arguments: the text to note; an empty one removes it."""


async def bring_up_to_date(run: Run, opening: Opening, base: str) -> None:
    """Note the schema version in a new store, and migrate one of an earlier release.

    Raises SchemaTooNewError for one of a later release, and CorruptStoreError if another program uses the key.
    """
    latest = len(MIGRATIONS) + 1
    found = _version(await run(_OPEN, [latest, opening.access]), opening.label, base)
    if found > latest:
        raise SchemaTooNewError(opening.label, found, latest)
    for version, migration in enumerate(MIGRATIONS[found - 1 :], found + 1):
        await migration(run)
        await run(_MIGRATED, [version])


def _version(written: bytes, label: str, base: str) -> int:
    try:
        version = int(written)
    except ValueError:
        version = 0
    if version < 1:
        raise CorruptStoreError(
            f"{label} has a schema version that is not a positive number. Another program uses the key "
            f"{base}schema; choose another namespace, or restore a backup."
        )
    return version


T = TypeVar("T")


class RedisEngine(Writing):
    """Keeps items in Redis, under keys of one namespace: see :class:`memoranda_redis.RedisMemoryStore`."""

    capabilities = BASE_CAPABILITIES | {
        Capability.PERSISTENT,
        Capability.ATOMIC,
        Capability.DELETE,
        Capability.ADD_DELETED,
        Capability.PURGE,
        Capability.TTL,
    }
    reads_staying = True

    def __init__(
        self, address: Address, namespace: str, *, timeout: float | None = None, max_connections: int | None = None
    ) -> None:
        connection = RedisConnection(address, timeout=timeout, max_connections=max_connections, default_timeout=10.0)
        super().__init__(connection, f"memoranda:{{{namespace}}}:")
        self._calls = CallsUnderWay()
        self._scopes: RankedScopes | None = None

    async def open(self, opening: Opening) -> Opened:
        """Connect, and bring the schema up to date."""
        self._opening = opening
        try:
            await self.connection.connect()
            await bring_up_to_date(self.run, opening, self.base)
            mark = await self.run(READ_MARK, [])
            return Opened(None if mark is None else mark.decode(), await self._next_expiry())
        except BaseException:
            if self._opening is opening:  # One whose loop was closed may end after another has opened the engine.
                self._opening = None
            await self.connection.close()
            raise

    async def close(self) -> None:
        """Wait for calls under way, then close the connections of every event loop."""
        await self._calls.ended()
        self._opening = None
        self._forget_scopes()
        await self.connection.close()

    async def write(self, write: Write) -> Written:
        """Carry out a write. One whose answer is lost is repeated, and done once."""
        with self._calls.call():
            if write.change is not None:
                return await self._changed(write.change)
            written = await self._put(write)
            if write.purge:
                self._forget_scopes()
            return written

    async def _changed(self, change: Change) -> Written:
        wanted, ids = change.wanted, change.ids
        match change.action:
            case "delete":
                return Written(await self._move("hide", "live", ids, wanted))
            case "restore":
                return Written(await self._move("restore", "hidden", ids, wanted))
            case "purge":
                purged = await self._purge(ids, wanted, change.deleted_only)
                self._forget_scopes()
                return Written(purged)
            case "sweep":
                return Written(await self._sweep(wanted), next_expiry=await self._next_expiry())
            case "pop":
                popped = await self._pop(wanted, change.purge)
                if change.purge:
                    self._forget_scopes()
                return popped
            case "touch":
                return Written(await self._touch(change))
            case "mark":
                await self.run(WRITE_MARK, [change.text or ""])
                return Written()

    async def read(self, query: Query[T]) -> list[T]:
        """Return what a query asks for."""
        found: Any
        ids = query.ids
        if ids is not None:
            found = await (self._get(ids[0]) if len(ids) == 1 else self._get_many(ids))
        elif query.ranking is not None:
            found = await self._ranked(query)
        elif query.staying:
            found = await self._window(query)
        else:
            found = await self._search(query.wanted, query.page)
            if query.form == "payloads":
                found = list(map(Payload.of, found))
        return found  # type: ignore[no-any-return]  # The form of the query says what it is.

    async def _ranked(self, query: Query[Any]) -> list[RankedItem]:
        if query.ranking is not None and query.ranking.mode != "text":
            raise UnsupportedError(self._opened().label, f"search mode {query.ranking.mode!r}")
        if self._scopes is None:
            await import_in_thread("memoranda_backend.ranking.ranked_scopes")
            from memoranda_backend.ranking import RankedScopes  # Most programs never rank.

            self._scopes = RankedScopes(self, lambda: self._opened().ranker())
        return await self._scopes.rank(query)

    def _forget_scopes(self) -> None:
        if self._scopes is not None:
            self._scopes.forget()

    async def examine(self, *, repair: bool) -> list[Finding]:
        """Return what ``memoranda doctor`` finds: see :meth:`memoranda_redis.RedisMemoryStore.doctor`."""
        return await examine(self.run, self.base, self.item_types, repair=repair)


class RedisMemoryStore(Store):
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
    server, other conditions here, over the items of the scope. ``search(mode="text")`` has no index. The first search
    of a scope reads all of its items and keeps them in memory; later ones read what has changed since. So name a user
    or a session. Redis does nothing else while it writes a batch, about 0.2 ms for each item. Items may have a time to
    live, judged by ``clock``; ``update`` of an item keeps the rest of its lifetime.
    """

    capabilities = RedisEngine.capabilities
    item_types = MappingProxyType({**BUILTIN_TYPES, "episodic": EpisodicMemory})

    def __init__(
        self,
        redis_url: str = DEFAULT_URL,
        *,
        namespace: str = "default",
        timeout: float | None = None,
        max_connections: int | None = None,
    ) -> None:
        if not check_text(namespace, "namespace") or "{" in namespace or "}" in namespace:
            raise InputError("namespace must be text without braces, and not empty.", field="namespace")
        self._address = Address.of(redis_url)
        self._namespace = namespace
        self._redis = RedisEngine(self._address, namespace, timeout=timeout, max_connections=max_connections)
        super().__init__(self._redis)

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

    # What telemetry reads

    def gauges(self) -> dict[str, int]:
        """Return how many connections are in use, in any thread."""
        return self._redis.connection.gauges()

    # Health

    async def doctor(self, repair: bool = False) -> list[Finding]:
        """Return how the server persists data, whether every item can be read, and whether the indexes agree.

        With ``repair``, missing index members are added, and those without an item are removed. A server that hides its
        settings from this user is reported as such, and not as a fault.
        """
        return await self._redis.examine(repair=repair)
