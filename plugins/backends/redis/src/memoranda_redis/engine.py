"""The engine of a Redis store: requests become scripts, each of which does all of its work or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from memoranda.errors import UnsupportedError
from memoranda.items import Payload
from memoranda.loops import CallsUnderWay
from memoranda.offloading import import_in_thread
from memoranda.store import Capability, Finding, RankedItem
from memoranda.store.backend import BASE_CAPABILITIES, Change, Opened, Opening, Query, Write, Written
from memoranda_redis._address import Address
from memoranda_redis._changes import Following
from memoranda_redis._connection import RedisConnection
from memoranda_redis._removing import Removing
from memoranda_redis._schema import READ_MARK, WRITE_MARK, bring_up_to_date
from memoranda_redis._writing import Writing
from memoranda_redis.health import examine

if TYPE_CHECKING:
    from memoranda_backend.ranking import RankedScopes

T = TypeVar("T")


class RedisEngine(Writing, Removing, Following):
    """Keeps items in Redis, under keys of one namespace: see :class:`memoranda_redis.RedisMemoryStore`."""

    capabilities = BASE_CAPABILITIES | {
        Capability.PERSISTENT,
        Capability.ATOMIC,
        Capability.DELETE,
        Capability.ADD_DELETED,
        Capability.PURGE,
        Capability.TTL,
    }

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
