"""The engine of a Redis store: requests become scripts, each of which does all of its work or nothing."""

from __future__ import annotations

from typing import Any, TypeVar

from memoranda.errors import UnsupportedError
from memoranda.items import Payload
from memoranda.loops import CallsUnderWay
from memoranda.offloading import offload, ranking_weight
from memoranda.store import Capability, Finding, RankedItem
from memoranda.store.backend import BASE_CAPABILITIES, Change, Opened, Opening, Page, Query, Write, Written
from memoranda.store.ranked import rank_items
from memoranda_redis._address import Address
from memoranda_redis._connection import RedisConnection
from memoranda_redis._removing import Removing
from memoranda_redis._schema import READ_MARK, WRITE_MARK, bring_up_to_date
from memoranda_redis._writing import Writing
from memoranda_redis.health import examine

T = TypeVar("T")


class RedisEngine(Writing, Removing):
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
        await self.connection.close()

    async def write(self, write: Write) -> Written:
        """Carry out a write. One whose answer is lost is repeated, and done once."""
        with self._calls.call():
            return await (self._put(write) if write.change is None else self._changed(write.change))

    async def _changed(self, change: Change) -> Written:
        wanted, ids = change.wanted, change.ids
        match change.action:
            case "delete":
                return Written(await self._move("hide", "live", ids, wanted))
            case "restore":
                return Written(await self._move("restore", "hidden", ids, wanted))
            case "purge":
                return Written(await self._purge(ids, wanted, change.deleted_only))
            case "sweep":
                return Written(await self._sweep(wanted), next_expiry=await self._next_expiry())
            case "pop":
                return await self._pop(wanted, change.purge)
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
        assert query.ranking is not None, "only asked for a ranking"
        text, mode = query.ranking
        if mode != "text":
            raise UnsupportedError(self._opened().label, f"search mode {mode!r}")
        # Neighbours count whatever their type, so the other filters come after the ranking.
        scope = await self._search(query.wanted.scope(), Page())
        sought = query.wanted.sought()
        chosen = sought if sought.conditions else None
        index = (await self._opened().ranker()).index()
        weight = ranking_weight(len(scope), (item.content for item in scope))
        return await offload(weight, rank_items, index, text, scope, chosen, query.page.limit)

    async def examine(self, *, repair: bool) -> list[Finding]:
        """Return what ``memoranda doctor`` finds: see :meth:`memoranda_redis.RedisMemoryStore.doctor`."""
        return await examine(self.run, self.base, self.item_types, repair=repair)
