"""The Redis store."""

from __future__ import annotations

from types import MappingProxyType

from memoranda.errors import InputError
from memoranda.items import BUILTIN_TYPES
from memoranda.shapes import check_text
from memoranda.store import Finding, Store
from memoranda.urls import take_known_options
from memoranda_redis._address import DEFAULT_URL, Address
from memoranda_redis.engine import RedisEngine
from memoranda_redis.episodic import EpisodicMemory


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
