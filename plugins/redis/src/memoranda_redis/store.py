"""The Redis store."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from memoranda.errors import CorruptStoreError, IdConflictError, InputError, SchemaTooNewError, VersionConflictError
from memoranda.items import BUILTIN_TYPES, MemoryItem, MemoryMetadata
from memoranda.shapes import check_text
from memoranda.store import (
    BASE_CAPABILITIES,
    BaseStore,
    Capability,
    Filter,
    Finding,
    copy_item,
    metadata_matches,
    readable,
)
from memoranda.urls import take_known_options
from memoranda_redis._address import DEFAULT_URL, Address
from memoranda_redis._connection import RedisConnection, Script
from memoranda_redis._filters import names_scope_only, told
from memoranda_redis._records import Row, body, folded, header, read_row, scope_arguments, unreadable
from memoranda_redis._store_scripts import COUNT, FIND, MOVE_ALL, MOVE_SOME, OPEN, PUT
from memoranda_redis.episodic import EpisodicMemory
from memoranda_redis.health import examine

logger = logging.getLogger(__name__)

SCHEMA = 1

Family = Literal["live", "hidden"]
Action = Literal["hide", "restore", "purge"]

_PAGE = 500
"""The most items that one answer holds, so that no call keeps others waiting for long."""

_EFFORT = 2000
"""The most items that one call looks at on the server, for the same reason."""

_MOST_AT_ONCE = 100_000
"""The most items of one atomic write."""


class RedisMemoryStore(BaseStore):
    """Memories in Redis; ``redis://``, ``rediss://`` with TLS, ``redis+cluster://`` and ``rediss+cluster://``.

    ``namespace`` keeps several stores in one Redis apart. All keys of a namespace lie in one slot of a cluster, which
    is what makes every write atomic there; use several namespaces to spread over its nodes. What is acknowledged
    survives the end of this process; whether it survives that of the server is the server's configuration
    (``appendonly``, ``appendfsync``). Items may have a time to live: ``add(item, ttl=seconds)``; ``update`` keeps what
    is left of it.

    ``timeout`` bounds every call, in seconds (10 unless given), with all its retries, and grows by one for every
    thousand items that are added at once; at most ``max_connections`` (32) are open in an event loop, and further
    callers wait for a free one. Both may stand in the URL instead. A write whose answer is lost is tried again and done
    once. Redis does nothing else while a batch is written, about 0.1 ms for an item. Calls may come from any event
    loop, each of which has connections of its own.
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
    thread_safe = True

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
        return f"{type(self).__name__}({self._address.shown!r}, namespace={self._namespace!r})"

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        namespace: str | None = None,
        timeout: float | None = None,
        max_connections: int | None = None,
    ) -> RedisMemoryStore:
        """Return the store of a URL. The options may stand in its query, and so may the driver's own (``ssl_…``).

        Raises InputError for an option that neither knows, and for one that has one value there and another as a
        keyword.
        """
        known = {"namespace": str, "timeout": float, "max_connections": int}
        given = {"namespace": namespace, "timeout": timeout, "max_connections": max_connections}
        rest, options = take_known_options(url, known, given)
        return cls(rest, **options)

    # Lifecycle

    async def _init(self) -> None:
        try:
            await self._connection.connect()
            found = self._schema(await self._connection.run(OPEN, [self._base], [SCHEMA]))
            if found > SCHEMA:
                raise SchemaTooNewError(repr(self), found, SCHEMA)
        except BaseException:
            await self._connection.close()
            raise

    async def _close(self) -> None:
        await self._connection.close()

    def _schema(self, written: bytes) -> int:
        try:
            return int(written)
        except ValueError:
            raise CorruptStoreError(
                f"{self!r} has a schema version that is no number. Another program uses the key {self._base}schema; "
                f"choose another namespace, or restore a backup."
            ) from None

    async def _run(self, script: Script, arguments: Sequence[Any], *, patience: float = 0.0) -> Any:
        """Run a script on the store's keys. Raises StoreClosedError when the store was closed between two of a call."""
        self._ensure_open()
        return await self._connection.run(script, [self._base], arguments, patience=patience)

    # Writing

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await self._put([item], within, None, compare=False)

    async def _add_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None, ttl: float | None) -> None:
        await self._put(items, within, ttl, compare=False)

    async def _add_deleted(
        self, items: Sequence[MemoryItem], within: MemoryMetadata | None, deleted: frozenset[str]
    ) -> None:
        await self._put(items, within, None, compare=False, deleted=deleted)

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        kept = [copy_item(item) for item in items]
        versions = await self._put(items, within, None, compare=True)
        for item, version in zip(kept, versions, strict=True):
            item.__dict__["version"] = version
        return kept

    async def _put(
        self,
        items: Sequence[MemoryItem],
        within: MemoryMetadata | None,
        ttl: float | None,
        *,
        compare: bool,
        deleted: frozenset[str] = frozenset(),
    ) -> list[int]:
        """Store all items or none, and return their versions."""
        if len(items) > _MOST_AT_ONCE:
            raise InputError(f"At most {_MOST_AT_ONCE} items can be written at once.", field="items")
        arguments: list[Any] = [
            uuid.uuid4().hex,
            "" if ttl is None else max(1, round(ttl * 1000)),
            *scope_arguments(within),
        ]
        for item in items:
            arguments += [
                header(item, item.version if compare else None, hidden=item.id in deleted),
                body(item),
                item.content,
                folded(item.content),
            ]
        if within is not None and within.extra:
            await self._check_extra(items, within, compare=compare)
        answer = await self._run(PUT, arguments, patience=len(items) / 1000)
        if answer[0] == b"done":
            return [int(version) for version in answer[1:]]
        refused = items[answer[1] - 1]
        if answer[0] == b"taken":
            raise IdConflictError(refused.id)
        raise VersionConflictError(refused.id, refused.version, None if answer[2] < 0 else answer[2])

    async def _check_extra(self, items: Sequence[MemoryItem], within: MemoryMetadata, *, compare: bool) -> None:
        """Refuse ids outside ``within.extra``, which only Python can compare."""
        before: dict[str, MemoryMetadata] = {}
        for item in items:
            if item.id not in before:
                # A comparison with a version has nothing to do with hidden items.
                row = await self._row(item.id, hidden=not (compare and item.version))
                before[item.id] = within if row is None else row.item.metadata
            if not metadata_matches(within, before[item.id]):
                raise IdConflictError(item.id)
            before[item.id] = item.metadata

    # Reading

    async def _get(self, item_id: str) -> MemoryItem | None:
        row = await self._row(item_id)
        return None if row is None else row.item

    async def _row(self, item_id: str, *, hidden: bool = False) -> Row | None:
        key = f"{self._base}i:{item_id}"
        *parts, is_hidden = await self._connection.command("HMGET", key, "m", "v", "j", "c", "h")
        if all(part is None for part in parts) or (is_hidden is not None and not hidden):
            return None
        if parts[0] is None:
            raise unreadable(item_id)
        return read_row(b"\0".join(part or b"" for part in parts), self.item_types)

    async def _search(self, wanted: Filter, limit: int) -> list[MemoryItem]:
        found: list[MemoryItem] = []
        async for row in self._rows(wanted, "live", "newest", limit):
            found.append(row.item)
            if len(found) == limit:
                break
        return found

    async def _rows(
        self, wanted: Filter, family: Family, order: Literal["newest", "oldest"], limit: int
    ) -> AsyncGenerator[Row, None]:
        """Yield the matching rows of a family in order; at least ``limit`` of them if there are so many."""
        asked, sifted = told(wanted)
        filters = [*asked.scope, asked.memory_type, asked.status, asked.archived]
        page = _PAGE if sifted else min(limit, _PAGE)
        cursor = b""
        while True:
            arguments = [family, order, *filters, page, cursor, _EFFORT, asked.folded]
            cursor, *rows = await self._run(FIND, arguments)
            for row in readable(partial(read_row, types=self.item_types), rows):
                if not sifted or wanted.matches(row.item):
                    yield row
            if not cursor:
                return

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        families: list[Family] = ["live", "hidden"] if include_deleted else ["live"]
        total = 0
        for family in families:
            if not names_scope_only(wanted):
                total += sum([1 async for _ in self._rows(wanted, family, "oldest", _PAGE)])
            else:
                total += await self._run(COUNT, [family, *scope_arguments(wanted.metadata)])
        return total

    async def _scan(self, wanted: Filter, include_deleted: bool) -> AsyncGenerator[MemoryItem, None]:
        live = self._rows(wanted, "live", "oldest", _PAGE)
        if not include_deleted:
            async for row in live:
                yield row.item
            return
        async for row in _merged(live, self._rows(wanted, "hidden", "oldest", _PAGE)):
            yield row.item

    # Health

    async def doctor(self, repair: bool = False) -> list[Finding]:
        """Return how the server keeps what it is given, whether every item can be read, and whether the indexes agree.

        With ``repair``, items are put into the indexes that they are missing from, and index members without an item
        are taken out. A server may forbid its own description; that is said, and is no fault.
        """
        self._ensure_open()
        return await examine(self._run, self._base, self.item_types, repair=repair)

    # Removing

    async def _clear(self, wanted: Filter) -> int:
        return await self._move("hide", "live", None, wanted)

    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        return await self._move("hide", "live", item_id, Filter(metadata=within, archived=None)) > 0

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        return await self._move("restore", "hidden", item_id, wanted)

    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        purged = await self._move("purge", "hidden", item_id, wanted)
        if not deleted_only:
            purged += await self._move("purge", "live", item_id, wanted)
        return purged

    async def _move(self, action: Action, family: Family, item_id: str | None, wanted: Filter) -> int:
        """Hide, restore or purge one item, or all of a family that match, and return how many."""
        if not names_scope_only(wanted):
            return await self._move_sifted(action, family, item_id, wanted)
        if item_id is not None:
            return await self._move_some(action, family, wanted, [(item_id, "")])
        moved = 0
        cursor = b""
        while True:
            arguments = [uuid.uuid4().hex, action, family, *scope_arguments(wanted.metadata), cursor, _EFFORT]
            count, cursor = await self._run(MOVE_ALL, arguments)
            moved += int(count)
            if not cursor:
                return moved

    async def _move_sifted(self, action: Action, family: Family, item_id: str | None, wanted: Filter) -> int:
        """Move what matches a filter that only Python can read; an item that changes meanwhile is looked at again."""
        moved = 0
        while True:
            if item_id is not None:
                row = await self._row(item_id, hidden=family == "hidden")
                rows = [row] if row is not None and wanted.matches(row.item) else []
            else:
                rows = [row async for row in self._rows(wanted, family, "oldest", _PAGE)]
            chosen = [(row.item.id, str(row.item.version)) for row in rows]
            count = sum(
                [
                    await self._move_some(action, family, wanted, chosen[first : first + _PAGE])
                    for first in range(0, len(chosen), _PAGE)
                ]
            )
            moved += count
            if count == len(chosen) or not count:
                return moved

    async def _move_some(self, action: Action, family: Family, wanted: Filter, chosen: list[tuple[str, str]]) -> int:
        arguments: list[Any] = [uuid.uuid4().hex, action, family, *scope_arguments(wanted.metadata)]
        for pair in chosen:
            arguments += pair
        count: int = (await self._run(MOVE_SOME, arguments))[0]
        return count


async def _merged(left: AsyncGenerator[Row, None], right: AsyncGenerator[Row, None]) -> AsyncGenerator[Row, None]:
    """Yield the rows of both, which are each in order, in order; an item that changes sides meanwhile comes once."""
    ends = [await anext(left, None), await anext(right, None)]
    last = ""
    while ends[0] is not None or ends[1] is not None:
        take = 0 if ends[1] is None or (ends[0] is not None and ends[0].place <= ends[1].place) else 1
        row = ends[take]
        assert row is not None
        if row.place != last:
            yield row
        last = row.place
        ends[take] = await anext((left, right)[take], None)
