"""Reading items: by id, by filter and in order, what has changed, and listing owners."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeVar

from memoranda.errors import StoreClosedError
from memoranda.items import SCOPE_FIELDS, Changes, MemoryItem, Payload
from memoranda.shapes import json_text
from memoranda.store import EVERYTHING, Order, Owner, namespace_of
from memoranda.store.backend import Engine, Filter, Listing, Opening, Page, Query, readable
from memoranda_backend.windows import staying_apart
from memoranda_redis._connection import RedisConnection, Script
from memoranda_redis._reading_scripts import (
    CHANGED,
    COUNT,
    FIND,
    NUMBERED,
    OWNERS,
    ROWS,
    SOONEST,
    ids_of,
    script_filter,
)
from memoranda_redis._records import TIME, StoredItem, read_stored, unreadable_item

T = TypeVar("T")

Family = Literal["live", "hidden"]
First = Literal["newest", "oldest"]
Range = tuple[int, int]
"""The first and the last of some numbers in the order of adding."""

PAGE = 500
"""The most items in one reply, so that no call blocks the server for long."""

EFFORT = 2000
"""The most items that one call looks at on the server, for the same reason."""

MOST_CHANGED = 100_000
"""How many numbers are looked up at most. Where more have changed, all items are read."""

_SORT_KEY: Mapping[Order, Callable[[StoredItem], str]] = {
    "created": lambda row: row.place,
    "added": lambda row: row.number,
    "updated": lambda row: row.item.updated_at + row.number,
}
"""The sort key of each order; no two items share one."""


class _Seen(NamedTuple):
    """The request, the last entry of the log at that moment, and its time."""

    asked: Filter
    entry: str
    now: str


class Reading(Engine):
    """The reading part of the engine."""

    def __init__(self, connection: RedisConnection, base: str) -> None:
        self.connection = connection
        self.base = base
        self._opening: Opening | None = None

    @property
    def item_types(self) -> Mapping[str, type[MemoryItem]]:
        """The classes that stored items are read as."""
        return self._opened().item_types()

    def _opened(self) -> Opening:
        if self._opening is None:
            raise StoreClosedError(f"Redis at {self.connection.address.display}")
        return self._opening

    async def run(self, script: Script, arguments: Sequence[Any], *, patience: float = 0.0) -> Any:
        """Run a script on the keys of this engine, and return the reply.

        Raises StoreClosedError if the engine is closed, be it during a longer call.
        """
        self._opened()
        return await self.connection.run(script, [self.base], arguments, patience=patience)

    async def _get(self, item_id: str) -> list[MemoryItem]:
        row, _, hidden = await self._seen(item_id)
        return [] if row is None or hidden else [row.item]

    async def _seen(self, item_id: str, now: str = "") -> tuple[StoredItem | None, str, bool]:
        """Return the item of an id, the token of the write that it comes from, and whether it is hidden."""
        key = f"{self.base}i:{item_id}"
        found = await self.connection.command("HMGET", key, "m", "v", "x", "l", "j", "c", "h", "o")
        if all(part is None for part in found[:6]):
            return None, "", False
        if found[0] is None:
            raise unreadable_item(item_id)
        parts = [part or b"" for part in found]
        parts[2] = parts[2][:TIME]
        if parts[2] and parts[2].decode() <= now:
            return None, "", False
        return read_stored(b"\0".join(parts[:6]), self.item_types), f"={parts[7].decode()}", found[6] is not None

    async def _get_many(self, ids: Sequence[str]) -> list[MemoryItem]:
        pages = [await self._rows_of(ids[first : first + PAGE]) for first in range(0, len(ids), PAGE)]
        return [row.item for page in pages for row in page]

    async def _rows_of(self, ids: Sequence[str]) -> list[StoredItem]:
        """Return the items of these ids that exist and are not hidden."""
        rows = await self.run(ROWS, ids)
        return list(readable(partial(read_stored, types=self.item_types), rows))

    async def _next_expiry(self) -> str | None:
        """Return when the next item expires; None if none does."""
        soonest = await self.connection.run(SOONEST, [self.base])
        return soonest.decode(errors="replace") or None

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

    async def _window(self, query: Query[Any]) -> list[MemoryItem]:
        """Return a page of the items that match, in the order of adding, and the older ones that stay in a window."""
        asked, incomplete = script_filter(query.wanted)
        if not incomplete and ids_of(query.wanted) is None:
            rows = await self._window_rows(json_text(asked), query.page.end)
            stored = readable(partial(read_stored, types=self.item_types), rows)
            if len(stored) == len(rows):
                return [row.item for row in stored[query.page.offset :]]
        # Only Python can tell where the page ends.
        return await staying_apart(self.read, query)

    async def _window_rows(self, asked: str, size: int) -> list[bytes]:
        """Return the newest rows, so many of them, and the older ones of items that stay in every window."""
        rows: list[bytes] = []
        cursor = b""
        while True:
            left = max(size - len(rows), 0)
            cursor, *more = await self.run(FIND, ["live", "added", "newest", asked, PAGE, cursor, EFFORT, left])
            rows += more
            if not cursor:
                return rows

    async def _ordered(
        self, wanted: Filter, family: Family, order: Order, first: First, limit: int
    ) -> AsyncGenerator[StoredItem, None]:
        """Yield the matching items of a family in order; at least ``limit`` if there are as many.

        No index is ordered by the time of the last change, and none of hidden items by the order of adding: these are
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
            pages = [await self._rows_of(ids[start : start + PAGE]) for start in range(0, len(ids), PAGE)]
            rows = [row for page in pages for row in page if wanted.matches(row.item)]
        for row in sorted(rows, key=_SORT_KEY[order], reverse=first == "newest"):
            yield row

    async def _rows(
        self, wanted: Filter, family: Family, by: Literal["created", "added"], first: First, limit: int
    ) -> AsyncGenerator[StoredItem, None]:
        """Yield the matching items of a family in the order of an index."""
        asked, incomplete = script_filter(wanted)
        page = PAGE if incomplete else min(limit, PAGE)
        cursor = b""
        while True:
            cursor, *rows = await self.run(FIND, [family, by, first, json_text(asked), page, cursor, EFFORT])
            for row in readable(partial(read_stored, types=self.item_types), rows):
                if not incomplete or wanted.matches(row.item):
                    yield row
            if not cursor:
                return

    async def count(self, query: Query[MemoryItem]) -> int:
        """Return how many items match, counted on the server where it can compare all conditions."""
        wanted = query.wanted
        families: list[Family] = ["live", "hidden"] if query.deleted else ["live"]
        asked, incomplete = script_filter(wanted, content=False)
        total = 0
        for family in families:
            if incomplete:
                total += sum([1 async for _ in self._ordered(wanted, family, "created", "oldest", EVERYTHING)])
                continue
            cursor = b""
            while True:
                count, cursor = await self.run(COUNT, [family, json_text(asked), cursor, EFFORT])
                total += count
                if not cursor:
                    break
        return total

    async def stream(self, query: Query[MemoryItem]) -> AsyncGenerator[MemoryItem, None]:
        """Yield all items that match, oldest first, a page of them at a time."""
        wanted, order = query.wanted, query.page.order
        rows = self._ordered(wanted, "live", order, "oldest", EVERYTHING)
        if query.deleted:
            rows = _merged(rows, self._ordered(wanted, "hidden", order, "oldest", EVERYTHING), _SORT_KEY[order])
        async for row in rows:
            yield row.item

    async def changes(self, query: Query[T], since: object) -> Changes[T]:
        """Return how items or payloads differ from what they were at an earlier call, as the log of changes tells."""
        wanted = query.wanted
        asked, now = wanted.timeless()
        before = (
            since if isinstance(since, _Seen) and since.asked == asked and since.now <= now else _Seen(asked, "", now)
        )
        writes = "0" if self._opened().access == "read" else "1"
        entry, known, *changed = await self.run(CHANGED, [before.entry, before.now, now, writes])
        state = _Seen(asked, entry.decode(), now) if entry else None
        ranges = _joined_ranges(changed)
        if known == b"all" or sum([last - first + 1 for first, last in ranges]) > MOST_CHANGED:
            ordered = self._ordered(wanted, "live", "added", "oldest", EVERYTHING)
            return Changes(state, _numbered([row async for row in ordered], query), None)
        gone = list(chain.from_iterable(range(first, last + 1) for first, last in ranges))
        return Changes(state, _numbered(await self._in_ranges(wanted, ranges), query), gone)

    async def _in_ranges(self, wanted: Filter, ranges: list[Range]) -> list[StoredItem]:
        """Return the items of these numbers that match."""
        asked, incomplete = script_filter(wanted, content=False)
        found: list[StoredItem] = []
        while ranges:
            page, ranges = ranges[:PAGE], ranges[PAGE:]
            position, number, *rows = await self.run(NUMBERED, [json_text(asked), PAGE, *chain.from_iterable(page)])
            if number:
                place = int(position) // 2
                ranges = [(int(number), page[place][1]), *page[place + 1 :], *ranges]
            stored = readable(partial(read_stored, types=self.item_types), rows)
            found += [row for row in stored if not incomplete or wanted.matches(row.item)]
        return found

    async def owners(self, listing: Listing, query: Query[MemoryItem]) -> AsyncGenerator[Owner, None]:
        """Yield the owners of the items that match, in order, from the lists of values where these can tell."""
        wanted = query.wanted
        asked, incomplete = script_filter(wanted, content=False)
        # The lists of values ignore expiry. "~" sorts after every time.
        is_due = "now" in asked and (await self._next_expiry() or "~") <= asked["now"]
        if incomplete or is_due:
            for owner in listing.of([row.item async for row in self._rows(wanted, "live", "created", "oldest", PAGE)]):
                yield owner
            return
        position = (*SCOPE_FIELDS, "namespace").index(listing.by) + 1
        found: dict[str, Owner] = {}
        cursor = b""
        while True:
            cursor, *parts = await self.run(OWNERS, [position, json_text(asked), cursor, PAGE])
            for key, count, first, last in _in_fours(parts):
                value = namespace_of(key) if listing.by == "namespace" else key
                owner = Owner(value, int(count), first, last)
                found[key] = found[key].joined(owner) if key in found else owner
            if not cursor:
                break
        for owner in listing.shown(found[key] for key in sorted(found)):
            yield owner


async def _merged(
    left: AsyncGenerator[StoredItem, None], right: AsyncGenerator[StoredItem, None], key: Callable[[StoredItem], str]
) -> AsyncGenerator[StoredItem, None]:
    """Merge two sorted streams; an item that moves from one to the other meanwhile comes once."""
    ends = [await anext(left, None), await anext(right, None)]
    last = ""
    while ends[0] is not None or ends[1] is not None:
        take = 0 if ends[1] is None or (ends[0] is not None and key(ends[0]) <= key(ends[1])) else 1
        row = ends[take]
        assert row is not None
        if key(row) != last:
            yield row
        last = key(row)
        ends[take] = await anext((left, right)[take], None)


def _in_fours(parts: Sequence[bytes | int]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the parts of a reply as texts, four at a time."""
    texts = [part.decode() if isinstance(part, bytes) else str(part) for part in parts]
    for first in range(0, len(texts), 4):
        yield texts[first], texts[first + 1], texts[first + 2], texts[first + 3]


def _joined_ranges(texts: Iterable[bytes]) -> list[Range]:
    """Return the ranges that entries of the log name, in order, without overlap."""
    numbers = [int(number) for text in texts for number in text.split()]
    ranges: list[Range] = []
    for first, last in sorted(zip(numbers[::2], numbers[1::2], strict=True)):
        if ranges and first <= ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], max(last, ranges[-1][1])
        else:
            ranges.append((first, last))
    return ranges


def _numbered(rows: Iterable[StoredItem], query: Query[T]) -> dict[int, T]:
    """Return what a query asks for of these items, by their numbers."""
    found: dict[int, Any] = {int(row.number): row.item for row in rows}
    if query.form == "payloads":
        found = {number: Payload.of(item) for number, item in found.items()}
    return found
