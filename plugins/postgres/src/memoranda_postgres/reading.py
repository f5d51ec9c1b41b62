"""Reading without a ranking: by id, by filter, page by page, and listing owners."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any

from memoranda.items import MemoryItem, Payload, utc_text
from memoranda.store import BaseStore, Order, Owner, namespace_of
from memoranda.store.backend import Filter, Listing, Page, readable
from memoranda_postgres.dialect import PostgresStatements
from memoranda_postgres.rows import READ_COLUMNS, item_of, moment_of
from memoranda_postgres.server import Server
from memoranda_postgres.terms import user_of
from memoranda_sql import PAYLOAD_COLUMNS, unpack_payload

_PAGE = 500
_ITEM_WIDTH = len(READ_COLUMNS)


class ReadingStore(BaseStore):
    """The reading half of the PostgreSQL store."""

    _server: Server
    _statements: PostgresStatements

    async def _get(self, item_id: str) -> MemoryItem | None:
        text, values = self._statements.get(item_id)
        with self._server.reading(None):
            rows = await self._server.fetch(text, values)
        return item_of(rows[0], self.item_types) if rows else None

    async def _get_many(self, ids: Sequence[str]) -> list[MemoryItem]:
        text, values = self._statements.get_many(ids)
        with self._server.reading(None):
            rows = await self._server.fetch(text, values)
        return [item_of(row, self.item_types) for row in rows]

    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        return self._items(await self._matching(wanted, page))

    async def _payloads(self, wanted: Filter, page: Page) -> list[Payload]:
        return readable(unpack_payload, await self._matching(wanted, page, PAYLOAD_COLUMNS))

    async def _matching(self, wanted: Filter, page: Page, columns: Sequence[str] = ()) -> list[Any]:
        """Return a page of the rows that match: these columns of each, or all columns of an item."""
        wanted = await self._with_past(wanted)
        text, values = self._statements.search(wanted, page, columns)
        with self._server.reading(users_of(wanted)):
            return await self._server.fetch(text, values)

    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        wanted = await self._with_past(wanted)
        text, values = self._statements.count(wanted, include_deleted=include_deleted)
        with self._server.reading(users_of(wanted)):
            rows = await self._server.fetch(text, values)
        return int(rows[0][0])

    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        after: tuple[str, int] | None = None
        wanted = await self._with_past(wanted)
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

    async def _owners(self, listing: Listing, wanted: Filter) -> AsyncGenerator[Owner, None]:
        after: str | None = None
        pending: Owner | None = None
        while True:
            text, values = self._statements.owners_page(listing, wanted, after, _PAGE)
            rows = await self._server.fetch(text, values)
            found = (
                Owner(namespace_of(name) if listing.by == "namespace" else name, count, utc_text(first), utc_text(last))
                for name, count, first, last in rows
            )
            for owner in listing.shown(found):
                # Namespaces that are cut off at a depth may continue on the next page.
                if pending is not None and pending.value == owner.value:
                    pending = pending.joined(owner)
                    continue
                if pending is not None:
                    yield pending
                pending = owner
            if len(rows) < _PAGE:
                break
            after = rows[-1][0]
        if pending is not None:
            yield pending

    async def _place(self, item_id: str) -> int | None:
        rows = await self._server.fetch(*self._statements.place(item_id))
        return int(rows[0][0]) if rows else None

    def _items(self, rows: Sequence[Any]) -> list[MemoryItem]:
        """Return the items of rows; a row that cannot be read is left out and named in the log."""
        return readable(partial(item_of, types=self.item_types), rows)


def users_of(wanted: Filter) -> tuple[str | None, ...] | None:
    """Return the only user whose items a filter can match, as a tuple; None if the filter names no user."""
    user = user_of(wanted)
    return None if user is None else (user,)
