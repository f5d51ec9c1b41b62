"""Reading without a ranking: by id, by filter, page by page, and listing owners."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from memoranda.items import MemoryItem, Payload, PayloadChanges, utc_text
from memoranda.store import Order, Owner, namespace_of
from memoranda.store.backend import Filter, Listing, Page, readable
from memoranda_backend.sql import PAYLOAD_COLUMNS, unpack_payload
from memoranda_postgres.dialect import PostgresStatements
from memoranda_postgres.payload_changes import payload_changes
from memoranda_postgres.rows import READ_COLUMNS, item_of, moment_of
from memoranda_postgres.schema import Layout
from memoranda_postgres.server import Server
from memoranda_postgres.terms import user_of

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

    async def payloads(self, wanted: Filter, page: Page) -> list[Payload]:
        """Return a page of the payloads of the items that match."""
        return readable(unpack_payload, await self._matching(wanted, page, PAYLOAD_COLUMNS))

    async def payload_changes(self, wanted: Filter, since: object) -> PayloadChanges:
        """Return how the payloads that match differ from what they were."""
        with self._server.reading(users_of(wanted)):
            return await payload_changes(self._server, self._statements, wanted, since)

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
        return readable(partial(item_of, types=self.item_types()), rows)


def users_of(wanted: Filter) -> tuple[str | None, ...] | None:
    """Return the only user whose items a filter can match, as a tuple; None if the filter names no user."""
    user = user_of(wanted)
    return None if user is None else (user,)
