"""Reading without a ranking: by id, by filter, page by page, what has changed, and listing owners.

A row's *mark* is a hash of its number and of the transaction that wrote it: every change of a row gives it another one.
If the server's snapshot is the one of an earlier look, nothing was written at all.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from memoranda.errors import CorruptStoreError
from memoranda.items import MemoryItem, Payload, PayloadChanges, utc_text
from memoranda.store import Order, Owner, namespace_of
from memoranda.store.backend import Filter, Listing, Page, left_out, readable
from memoranda_backend.sql import PAYLOAD_COLUMNS, Parameters, unpack_payload
from memoranda_postgres.dialect import SEQUENCE, PostgresStatements
from memoranda_postgres.rows import READ_COLUMNS, item_of, moment_of, readable_items
from memoranda_postgres.schema import Layout
from memoranda_postgres.server import Server
from memoranda_postgres.terms import user_of

MARK = f"hashint8extended({SEQUENCE}, xmin::text::bigint)"
SNAPSHOT = "pg_current_snapshot()::text || ' ' || pg_postmaster_start_time()::text"


def lists_open_transactions(snapshot: str) -> bool:
    """Return True if a snapshot, as text, lists every open transaction; on a standby it lists none."""
    oldest, following, listed = snapshot.split(" ")[0].split(":")
    return oldest == following or listed != ""


async def read_marks(
    server: Server, statements: PostgresStatements, wanted: Filter
) -> tuple[Mapping[int, int], str | None]:
    """Return the marks of all rows that match by their numbers, and when the next one expires."""
    parameters = Parameters(statements.dialect)
    where = statements.conditions(parameters, wanted)
    columns = f"array_agg({SEQUENCE}), array_agg({MARK}), min(nullif(expires_at, ''))"
    text = f"SELECT {columns} FROM {statements.dialect.table} WHERE {where}"
    ((numbers, marks, until),) = await server.fetch(text, parameters.values)
    return dict(zip(numbers or (), marks or (), strict=True)), until


async def read_marked(
    server: Server,
    statements: PostgresStatements,
    wanted: Filter,
    chosen: Collection[int] | None,
    columns: Callable[[Parameters], str],
) -> list[Any]:
    """Return number, mark and columns of the rows that match, or of the chosen ones of them, in order."""
    if chosen is not None and not chosen:
        return []
    parameters = Parameters(statements.dialect)
    where = statements.conditions(parameters, wanted)
    also = "" if chosen is None else f"AND {SEQUENCE} = ANY({parameters.add(list(chosen))}::bigint[])"
    text = (
        f"SELECT {SEQUENCE} AS number, {MARK} AS mark, {columns(parameters)} "
        f"FROM {statements.dialect.table} WHERE {where} {also} ORDER BY {SEQUENCE}"
    )
    return await server.fetch(text, parameters.values)


class _SeenPayloads(NamedTuple):
    """What was asked for, the server's snapshot before, the marks of all rows, and when nothing expires."""

    asked: Filter
    snapshot: str
    marks: Mapping[int, int]
    since: str
    until: str | None

    def holds(self, snapshot: str, now: str) -> bool:
        """Return True if nothing can have changed until a later snapshot and time."""
        settled = lists_open_transactions(snapshot) and snapshot == self.snapshot
        return settled and self.since <= now < (self.until or "~")


_PAGE = 500

NEWEST = (250, 2_000, 16_000)
"""How many of the newest items are searched for a substring before the server chooses another way to find it. With
trigrams it finds a rare one quickly, so one that none of the first contains is left to it."""

_LEAST_READ = 10
"""How many items must be read for each one that is wanted."""

_ITEM_WIDTH = len(READ_COLUMNS)


class Reader:
    """Reads the items of one store, as the classes that ``item_types`` returns."""

    def __init__(
        self,
        server: Server,
        layout: Layout,
        statements: PostgresStatements,
        item_types: Callable[[], Mapping[str, type[MemoryItem]]],
    ) -> None:
        self._server = server
        self._layout = layout
        self._statements = statements
        self.item_types = item_types

    async def of_ids(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return those of the live items of these ids that are there, in any order."""
        if not ids:
            return []
        text, values = self._statements.get(ids[0]) if len(ids) == 1 else self._statements.get_many(ids)
        with self._server.reading(None):
            rows = await self._server.fetch(text, values)
        types = self.item_types()
        return [item_of(row, types) for row in rows]

    async def places(self, ids: Sequence[str]) -> list[int]:
        """Return the places of items in the order of adding, deleted or not."""
        return [int(row[0]) for each in ids for row in await self._server.fetch(*self._statements.place(each))]

    async def items(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        """Return a page of the items that match."""
        return self._items(await self._matching(wanted, page))

    async def window(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        """Return a page of the items that match, in the order of adding, and the older ones that stay in a window."""
        with self._server.reading(users_of(wanted)):
            return self._items(await self._server.fetch(*self._statements.window(wanted, page)))

    async def payloads(self, wanted: Filter, page: Page) -> list[Payload]:
        """Return a page of the payloads of the items that match."""
        return readable(unpack_payload, await self._matching(wanted, page, PAYLOAD_COLUMNS))

    async def payload_changes(self, wanted: Filter, since: object) -> PayloadChanges:
        """Return how the payloads that match differ from what they were; all of them if there is no earlier state."""
        with self._server.reading(users_of(wanted)):
            return await self._payload_changes(wanted, since)

    async def _payload_changes(self, wanted: Filter, since: object) -> PayloadChanges:
        asked, now = wanted.timeless()
        before = since if isinstance(since, _SeenPayloads) and since.asked == asked else None
        ((snapshot,),) = await self._server.fetch(f"SELECT {SNAPSHOT}", ())
        if before is not None and before.holds(snapshot, now):
            return PayloadChanges(before, {}, ())
        marks, until = await read_marks(self._server, self._statements, wanted)
        known: Mapping[int, int] = {} if before is None else before.marks
        changed = [number for number, mark in marks.items() if known.get(number) != mark]
        gone = known.keys() - marks.keys()
        chosen = None if before is None else changed
        columns = self._statements.dialect.selected(PAYLOAD_COLUMNS)
        found = await read_marked(self._server, self._statements, wanted, chosen, lambda _: columns)
        rows: dict[int, Payload] = {}
        held = {number: mark for number, mark in marks.items() if known.get(number) == mark}
        for number, mark, *row in found:
            held[number] = mark
            try:
                rows[number] = unpack_payload(row)
            except CorruptStoreError as error:
                left_out(error)
        state = _SeenPayloads(asked, snapshot, held, now, until)
        return PayloadChanges(state, rows, None if before is None else {*gone, *changed})

    async def _matching(self, wanted: Filter, page: Page, columns: Sequence[str] = ()) -> list[Any]:
        """Return a page of the rows that match: these columns of each, or all columns of an item."""
        with self._server.reading(users_of(wanted)):
            if wanted.query and page.order != "updated" and len(wanted.parts()) == 1:
                found = await self._newest_matching(wanted, page, columns)
                if found is not None:
                    return found
            return await self._server.fetch(*self._statements.search(wanted, page, columns))

    async def _newest_matching(self, wanted: Filter, page: Page, columns: Sequence[str]) -> list[Any] | None:
        """Return a page of the rows that contain the query, if reading some of the newest is enough; else None.

        The server does not know how common a substring is. It would read all that contain it, and sort them.
        """
        for size in NEWEST:
            if size < _LEAST_READ * page.end:
                continue
            text, values = self._statements.search_newest(wanted, page, size, columns)
            rows = await self._server.fetch(text, values, one_plan=True)
            hits = [tuple(row)[:-2] for row in rows if row[-1]]
            if len(hits) == page.end or all(row[-2] < size for row in rows):
                return hits[page.offset :]
            if not hits and (self._layout.has_trigrams or size > NEWEST[0]):
                return None
        return None

    async def count(self, wanted: Filter, include_deleted: bool) -> int:
        """Return how many items match."""
        text, values = self._statements.count(wanted, include_deleted=include_deleted)
        with self._server.reading(users_of(wanted)):
            rows = await self._server.fetch(text, values)
        return int(rows[0][0])

    async def stream(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        """Yield all items that match, oldest first."""
        after: tuple[str, int] | None = None
        while True:
            text, values = self._statements.page(
                wanted, after=after, size=_PAGE, include_deleted=include_deleted, order=order
            )
            with self._server.reading(users_of(wanted)):
                rows = await self._server.fetch(text, values)
            for item in self._items(rows):
                yield item
            if len(rows) < _PAGE:
                return
            last = rows[-1]
            time = last["updated_at"] if order == "updated" else moment_of(last["created_at"])
            after = time, last[_ITEM_WIDTH]

    def owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        """Yield the owners of the items that match, in order."""
        return listing.shown_by_page(self._owner_pages(listing, wanted))

    async def _owner_pages(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Iterable[Owner], None]:
        after: str | None = None
        while True:
            text, values = self._statements.owners_page(listing, wanted, after, _PAGE)
            rows = await self._server.fetch(text, values)
            yield (
                Owner(namespace_of(name) if listing.by == "namespace" else name, count, utc_text(first), utc_text(last))
                for name, count, first, last in rows
            )
            if len(rows) < _PAGE:
                return
            after = rows[-1][0]

    def _items(self, rows: Sequence[Any]) -> list[MemoryItem]:
        """Return the items of rows; a row that cannot be read is left out and named in the log."""
        return readable_items(rows, self.item_types())


def users_of(wanted: Filter) -> tuple[str | None, ...] | None:
    """Return the only user whose items a filter can match, as a tuple; None if the filter names no user."""
    user = user_of(wanted)
    return None if user is None else (user,)
