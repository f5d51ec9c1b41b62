"""Scanning: pages in the order that is asked for, merged from streams that each follow an index."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

from memoranda.errors import CorruptStoreError
from memoranda.sql import ITEM_COLUMNS, Statements
from memoranda.store import Filter, Order
from memoranda_sqlite.statements import kinds_of

PAGE = 500
"""How many rows are read at first: most scans of a user or a session end there."""

STRETCH = 5_000
"""How many are read at a time when there are more."""

_TIMES: dict[Order, int] = {
    "created": -2,  # The time as a number, and then that of the row, come last in each.
    "updated": ITEM_COLUMNS.index("updated_at"),
    "added": -1,
}

Fetch = Callable[[str, Sequence[Any]], Awaitable[list[Any]]]
"""Returns all rows of a statement."""

FetchSome = Callable[[str, Sequence[Any]], Awaitable[tuple[list[Any], bool]]]
"""Returns the first rows of a statement, and whether these are all."""

Place = tuple[Any, int]
"""Where a row stands in an order: its time, or its number again, and its number."""


class _Stream:
    """The rows of one kind (shown, archived or deleted, of one session of a branch), oldest first, a page at a time."""

    def __init__(
        self,
        statements: Statements,
        fetch: Fetch,
        fetch_some: FetchSome,
        wanted: Filter,
        order: Order,
        *,
        deleted: bool,
    ) -> None:
        self._statements = statements
        self._fetch = fetch
        self._fetch_some = fetch_some
        self._wanted = wanted
        self._order: Order = order
        self._deleted = deleted
        self._page: list[Any] = []
        self._more = True
        self._last: Place | None = None

    async def head(self) -> Place | None:
        """Return the place of the next row, or None at the end."""
        if not self._page and self._more:
            await self._turn()
        return self._place(self._page[-1]) if self._page else None

    def take(self) -> Any:
        """Return the next row."""
        row = self._page.pop()
        self._last = self._place(row)
        return row

    async def _turn(self) -> None:
        size = PAGE if self._last is None else STRETCH
        text, values = self._statements.page(
            self._wanted, after=self._last, size=size, deleted_only=self._deleted, order=self._order
        )
        if self._last is None:
            self._page, complete = await self._fetch(text, values), True
        else:
            self._page, complete = await self._fetch_some(text, values)
        self._more = len(self._page) == size or not complete
        if self._more:
            self._end_at_a_time()
        self._page.reverse()

    def _end_at_a_time(self) -> None:
        """Cut the page behind its last row whose time can be read: the next one begins behind that."""
        read = len(self._page)
        time = _TIMES[self._order]
        while self._page and not isinstance(self._page[-1][time], str | int):
            self._page.pop()
        if not self._page:
            raise CorruptStoreError(
                f"{read:,} stored items in a row have a time that is no text; nothing leads past them."
            )

    def _place(self, row: Sequence[Any]) -> Place:
        time = row[_TIMES[self._order]]
        return "" if self._order == "updated" and not isinstance(time, str) else time, row[-1]


async def scanned(
    statements: Statements,
    fetch: Fetch,
    fetch_some: FetchSome,
    wanted: Filter,
    include_deleted: bool,
    order: Order,
) -> AsyncGenerator[Sequence[Any], None]:
    """Yield the matching rows in an order, the first one first."""
    streams = [_Stream(statements, fetch, fetch_some, kind, order, deleted=False) for kind in kinds_of(wanted)]
    if include_deleted:
        streams.append(_Stream(statements, fetch, fetch_some, wanted, order, deleted=True))
    while True:
        heads = [(head, number) for number, stream in enumerate(streams) if (head := await stream.head()) is not None]
        if not heads:
            return
        yield streams[min(heads)[1]].take()[: len(ITEM_COLUMNS)]
