"""The Redis store."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from memoranda.errors import CorruptStoreError, IdConflictError, InputError, SchemaTooNewError, VersionConflictError
from memoranda.items import BUILTIN_TYPES, SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.shapes import check_text, json_text
from memoranda.store import (
    BASE_CAPABILITIES,
    EVERYTHING,
    BaseStore,
    Capability,
    Expiry,
    Filter,
    Finding,
    Listing,
    Order,
    Owner,
    Page,
    Write,
    copy_item,
    end_of_life,
    metadata_matches,
    namespace_of,
    readable,
)
from memoranda.urls import take_known_options
from memoranda_redis._address import DEFAULT_URL, Address
from memoranda_redis._connection import RedisConnection, Script
from memoranda_redis._filters import Asked, ids_of, scope_told, told
from memoranda_redis._migration import migrate
from memoranda_redis._ordering import PLACE, batched, merged
from memoranda_redis._records import TIME, Row, body, folded, header, milliseconds, read_row, unreadable
from memoranda_redis._store_scripts import (
    COUNT,
    FIND,
    MOVE_ALL,
    MOVE_SOME,
    OPEN,
    OWNERS,
    PUT,
    ROWS,
    SOONEST,
    SWEEP,
    TAKE,
    TOUCH,
)
from memoranda_redis.episodic import EpisodicMemory
from memoranda_redis.health import examine

logger = logging.getLogger(__name__)

SCHEMA = 2

Family = Literal["live", "hidden"]
First = Literal["newest", "oldest"]
Action = Literal["hide", "restore", "purge"]

FAMILIES: tuple[Family, ...] = ("live", "hidden")

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
            if found < SCHEMA:
                await migrate(self._run_opening, SCHEMA)
            _, clock = await self._run_opening(SOONEST, [])
            if len(clock) == TIME:
                self._lifetimes.latest = max(self._lifetimes.latest, clock.decode(errors="replace"))
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

    async def _run_opening(self, script: Script, arguments: Sequence[Any]) -> Any:
        return await self._connection.run(script, [self._base], arguments)

    async def _run(self, script: Script, arguments: Sequence[Any], *, patience: float = 0.0) -> Any:
        """Run a script on the store's keys. Raises StoreClosedError when the store was closed between two of a call."""
        self._ensure_open()
        return await self._connection.run(script, [self._base], arguments, patience=patience)

    # Writing

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await self._put(Write([item], within))

    async def _apply(self, write: Write) -> int:
        return (await self._put(write))[0]

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        kept = [copy_item(item) for item in items]
        _, versions = await self._put(Write(items, within), compare=True)
        for item, version in zip(kept, versions, strict=True):
            item.__dict__["version"] = version
        return kept

    async def _put(self, write: Write, *, compare: bool = False) -> tuple[int, list[int]]:
        """Do all of a write or nothing, and return how many items were deleted, and the versions of the others."""
        items = write.adds
        if len(items) + len(write.deletes) > _MOST_AT_ONCE:
            raise InputError(f"At most {_MOST_AT_ONCE} items can be written at once.", field="items")
        now = self._lifetimes.now(self.clock)
        written: list[str] = []
        for item in items:
            written += [
                header(item, item.version if compare else None, now, hidden=item.id in write.hidden),
                body(item),
                item.content,
                folded(item.content),
            ]
        while True:
            asked = await self._told_write(write, now, compare=compare)
            arguments = [uuid.uuid4().hex, json_text(asked), *written]
            answer = await self._run(PUT, arguments, patience=len(items) / 1000)
            if answer[0] == b"done":
                return int(answer[1]), [int(version) for version in answer[2:]]
            if answer[0] == b"head" and write.expected is not None and not told(write.expected.conversation)[1]:
                write.expected.check(answer[1].decode() or None)
            if answer[0] in (b"again", b"head"):
                continue
            refused = items[answer[1] - 1]
            if answer[0] == b"taken":
                raise IdConflictError(refused.id)
            expected = 0 if write.fresh else refused.version
            raise VersionConflictError(refused.id, expected, None if answer[2] < 0 else answer[2])

    async def _told_write(self, write: Write, now: str, *, compare: bool) -> dict[str, Any]:
        """Return what a script is told of a write, after Python has compared what only Python can."""
        asked = {
            **scope_told(write.within),
            "now": now,
            "keep": write.keep_created,
            "purge": write.purge,
            "fresh": write.fresh,
            "memo": bool(write.deletes or write.fresh or write.expected),
        }
        if write.deletes:
            asked["deletes"] = list(write.deletes)
        if write.within is not None and write.within.extra:
            asked |= await self._check_extra(write, write.within, now, compare=compare)
        if write.expected is not None:
            conversation, sifted = told(write.expected.conversation, content=False)
            head = write.expected.head
            if sifted:
                # What the script can tell of the end must still be the same when it writes; then so is the rest.
                last = await self._run(TAKE, ["", json_text(conversation), "hide", "", ""])
                head = read_row(last[1], self.item_types).item.id if last[0] == b"found" else None
                newest = await self._search(write.expected.conversation, Page(1, order="added"))
                write.expected.check(newest[0].id if newest else None)
            asked |= {"expected": conversation, "head": head or ""}
        return asked

    async def _check_extra(
        self, write: Write, within: MemoryMetadata, now: str, *, compare: bool
    ) -> dict[str, dict[str, Any]]:
        """Refuse ids outside ``within.extra``, which only Python can compare; return what was seen of each id."""
        before: dict[str, MemoryMetadata] = {}
        seen: dict[str, str] = {}
        outside: dict[str, bool] = {}
        for item in write.adds:
            if item.id not in before:
                row, seen[item.id], hidden = await self._seen(item.id, now)
                # A comparison with a version has nothing to do with hidden items.
                mine = row is None or (hidden and compare and item.version)
                before[item.id] = within if mine or row is None else row.item.metadata
            if not metadata_matches(within, before[item.id]):
                raise IdConflictError(item.id)
            before[item.id] = item.metadata
        for item_id in write.deletes:
            row, seen[item_id], _ = await self._seen(item_id, now)
            if row is None or not metadata_matches(within, row.item.metadata):
                outside[item_id] = True
        return {"seen": seen, "outside": outside}

    async def _touch(self, ids: Sequence[str], ttl: float | None, now: str, within: MemoryMetadata | None) -> int:
        touched = 0
        waiting = list(dict.fromkeys(ids))
        while waiting:
            arguments: list[Any] = [now]
            for row in await self._rows_of(waiting[:_PAGE]):
                life = row.item.ttl if ttl is None else ttl
                if life is not None and metadata_matches(within, row.item.metadata):
                    ends = end_of_life(now, life)
                    lasting = "" if ends is None else json_text(life)
                    arguments += [row.item.id, row.item.version, ends or "", milliseconds(now, ends), lasting]
            waiting = waiting[_PAGE:]
            if len(arguments) > 1:
                count, *again = await self._run(TOUCH, arguments)
                touched += count
                waiting += [item_id.decode() for item_id in again]
        return touched

    # Reading

    async def _get(self, item_id: str) -> MemoryItem | None:
        row, _, hidden = await self._seen(item_id)
        if row is None or hidden:
            return None
        self._lifetimes.note(row.item.expires_at)
        return row.item

    async def _seen(self, item_id: str, now: str = "") -> tuple[Row | None, str, bool]:
        """Return what is held under an id, what tells it from what may come later, and whether it is hidden."""
        key = f"{self._base}i:{item_id}"
        found = await self._connection.command("HMGET", key, "m", "v", "x", "l", "j", "c", "h", "o")
        if all(part is None for part in found[:6]):
            return None, "", False
        if found[0] is None:
            raise unreadable(item_id)
        parts = [part or b"" for part in found]
        parts[2] = parts[2][:TIME]
        if parts[2] and parts[2].decode() <= now:
            return None, "", False
        return read_row(b"\0".join(parts[:6]), self.item_types), f"={parts[7].decode()}", found[6] is not None

    async def _get_many(self, ids: Sequence[str]) -> list[MemoryItem]:
        found = [
            row.item for first in range(0, len(ids), _PAGE) for row in await self._rows_of(ids[first : first + _PAGE])
        ]
        for item in found:
            self._lifetimes.note(item.expires_at)
        return found

    async def _rows_of(self, ids: Sequence[str]) -> list[Row]:
        """Return the rows of those of the ids that are there and not hidden."""
        rows = await self._run(ROWS, ids)
        return list(readable(partial(read_row, types=self.item_types), rows))

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        found: list[MemoryItem] = []
        position = 0
        async for row in self._ordered(wanted, "live", page.order, "newest", page.end):
            position += 1
            if position > page.offset:
                found.append(row.item)
            if position >= page.end:
                break
        return found

    async def _ordered(
        self, wanted: Filter, family: Family, order: Order, first: First, limit: int
    ) -> AsyncGenerator[Row, None]:
        """Yield the matching rows of a family in order; at least ``limit`` of them if there are so many.

        There is no index by the time of the last change, and of hidden items none by the order of adding: these are
        read and then sorted.
        """
        ids = ids_of(wanted) if family == "live" else None
        if ids is None and (order == "created" or (order == "added" and family == "live")):
            async for row in self._rows(wanted, family, order, first, limit):
                yield row
            return
        if ids is None:
            rows = [row async for row in self._rows(wanted, family, "created", "oldest", EVERYTHING)]
        else:
            pages = [await self._rows_of(ids[start : start + _PAGE]) for start in range(0, len(ids), _PAGE)]
            rows = [row for page in pages for row in page if wanted.matches(row.item)]
        for row in sorted(rows, key=PLACE[order], reverse=first == "newest"):
            yield row

    async def _rows(
        self, wanted: Filter, family: Family, by: Literal["created", "added"], first: First, limit: int
    ) -> AsyncGenerator[Row, None]:
        """Yield the matching rows of a family as an index has them."""
        asked, sifted = told(wanted)
        page = _PAGE if sifted else min(limit, _PAGE)
        cursor = b""
        while True:
            cursor, *rows = await self._run(FIND, [family, by, first, json_text(asked), page, cursor, _EFFORT])
            for row in readable(partial(read_row, types=self.item_types), rows):
                if not sifted or wanted.matches(row.item):
                    yield row
            if not cursor:
                return

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        families: list[Family] = ["live", "hidden"] if include_deleted else ["live"]
        asked, sifted = told(wanted, content=False)
        total = 0
        for family in families:
            if sifted:
                total += sum([1 async for _ in self._ordered(wanted, family, "created", "oldest", EVERYTHING)])
                continue
            cursor = b""
            while True:
                count, cursor = await self._run(COUNT, [family, json_text(asked), cursor, _EFFORT])
                total += count
                if not cursor:
                    break
        return total

    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        rows = self._ordered(wanted, "live", order, "oldest", EVERYTHING)
        if include_deleted:
            rows = merged(rows, self._ordered(wanted, "hidden", order, "oldest", EVERYTHING), PLACE[order])
        async for row in rows:
            yield row.item

    async def _owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        asked, sifted = told(wanted, content=False)
        if sifted:
            for owner in listing.of([row.item async for row in self._rows(wanted, "live", "created", "oldest", _PAGE)]):
                yield owner
            return
        if "now" in asked:
            # The lists of values know nothing of time.
            await self._sweep(Filter(archived=None, further=(Expiry(asked["now"], expired=True),)))
        position = (*SCOPE_FIELDS, "namespace").index(listing.by) + 1
        found: dict[str, Owner] = {}
        cursor = b""
        while True:
            cursor, *parts = await self._run(OWNERS, [position, json_text(asked), cursor, _PAGE])
            for key, count, first, last in batched(parts):
                value = namespace_of(key) if listing.by == "namespace" else key
                owner = Owner(value, int(count), first, last)
                found[key] = found[key].joined(owner) if key in found else owner
            if not cursor:
                break
        for owner in listing.shown(found[key] for key in sorted(found)):
            yield owner

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

    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        asked, sifted = told(wanted, content=False)
        action: Action = "purge" if purge else "hide"
        token, candidate, origin = uuid.uuid4().hex, None, b""
        try:
            while not sifted:
                named = candidate.id if candidate else ""
                answer = await self._run(TAKE, [token, json_text(asked), action, named, origin])
                if answer[0] != b"found":
                    return candidate if answer[0] == b"done" else None
                candidate, origin = read_row(answer[1], self.item_types).item, answer[2]
        except CorruptStoreError:
            logger.debug("An item that cannot be read is passed over.")
        while newest := await self._search(wanted, Page(1, order="added")):
            if await self._move_some(action, "live", asked, [(newest[0].id, str(newest[0].version))]):
                return newest[0]
        return None

    async def _sweep(self, wanted: Filter) -> int:
        ids = ids_of(wanted)
        asked, sifted = told(wanted, content=False)
        if ids is not None and asked == {"now": asked.get("now"), "over": True}:
            chosen = [(item_id, "") for item_id in ids]
            return sum([await self._move_some("purge", family, asked, chosen) for family in FAMILIES])
        if sifted or set(asked) - {*SCOPE_FIELDS, "place", "now", "over"}:
            return await self._purge(None, wanted, False)
        swept = 0
        cursor = b""
        while True:
            count, cursor = await self._run(SWEEP, [json_text(asked), cursor, _EFFORT])
            swept += int(count)
            if not cursor:
                return swept

    async def _soonest_expiry(self) -> str | None:
        soonest, _ = await self._run_opening(SOONEST, [])
        return soonest.decode(errors="replace") or None

    async def _move(self, action: Action, family: Family, item_id: str | None, wanted: Filter) -> int:
        """Hide, restore or purge one item, or all of a family that match, and return how many."""
        asked, sifted = told(wanted, content=False)
        if sifted:
            return await self._move_sifted(action, family, item_id, wanted)
        if item_id is not None:
            return await self._move_some(action, family, asked, [(item_id, "")])
        moved = 0
        cursor = b""
        while True:
            count, cursor = await self._run(
                MOVE_ALL, [uuid.uuid4().hex, action, family, json_text(asked), cursor, _EFFORT]
            )
            moved += int(count)
            if not cursor:
                return moved

    async def _move_sifted(self, action: Action, family: Family, item_id: str | None, wanted: Filter) -> int:
        """Move what matches a filter that only Python can read; an item that changes meanwhile is looked at again."""
        asked, _ = told(wanted, content=False)
        moved = 0
        while True:
            if item_id is not None:
                row, _, hidden = await self._seen(item_id)
                there = row is not None and hidden == (family == "hidden") and wanted.matches(row.item)
                rows = [row] if row is not None and there else []
            else:
                rows = [row async for row in self._ordered(wanted, family, "created", "oldest", EVERYTHING)]
            chosen = [(row.item.id, str(row.item.version)) for row in rows]
            count = sum(
                [
                    await self._move_some(action, family, asked, chosen[first : first + _PAGE])
                    for first in range(0, len(chosen), _PAGE)
                ]
            )
            moved += count
            if count == len(chosen) or not count:
                return moved

    async def _move_some(self, action: Action, family: Family, asked: Asked, chosen: list[tuple[str, str]]) -> int:
        arguments: list[Any] = [uuid.uuid4().hex, action, family, json_text(asked)]
        for pair in chosen:
            arguments += pair
        count: int = (await self._run(MOVE_SOME, arguments))[0]
        return count
