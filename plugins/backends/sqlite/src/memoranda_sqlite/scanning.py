"""Scanning items and listing owners, a page at a time; a scan merges streams that each follow an index."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from typing import Any

from memoranda.errors import CorruptStoreError
from memoranda.store import Order, Owner, namespace_of
from memoranda.store.backend import Filter, Listing
from memoranda_backend.sql import ITEM_COLUMNS, Statements
from memoranda_sqlite.connections import Connections
from memoranda_sqlite.statements import SQLiteStatements, kinds_of, lists_places
from memoranda_sqlite.tables import text_of

FIRST_ROWS = 500
"""How many rows are read at first: most scans of a user or a session end there."""

CHUNK_ROWS = 5_000
"""How many are read at a time when there are more."""

_TIMES: dict[Order, int] = {
    "created": -2,  # The time as a number, and then that of the row, come last in each.
    "updated": ITEM_COLUMNS.index("updated_at"),
    "added": -1,
}

Opened = Callable[[], Connections]
"""Returns the connections of the store. Raises StoreClosedError once it is closed."""

Place = tuple[Any, int]
"""The position of a row in an order: its time, or its number again, and its number."""


class _Stream:
    """The rows of one kind (shown, archived or deleted, of one session of a branch), oldest first, a page at a time."""

    def __init__(
        self,
        statements: Statements,
        opened: Opened,
        wanted: Filter,
        order: Order,
        *,
        deleted: bool,
    ) -> None:
        self._statements = statements
        self._opened = opened
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
        size = FIRST_ROWS if self._last is None else CHUNK_ROWS
        text, values = self._statements.page(
            self._wanted, after=self._last, size=size, deleted_only=self._deleted, order=self._order
        )
        if self._last is None:
            self._page, complete = await self._opened().rows(text, values), True
        else:
            self._page, complete = await self._opened().chunk(text, values)
        self._more = len(self._page) == size or not complete
        if self._more:
            self._end_at_a_time()
        self._page.reverse()

    def _end_at_a_time(self) -> None:
        """End the page with a row whose time can be read: the next page starts after it."""
        read = len(self._page)
        time = _TIMES[self._order]
        while self._page and not isinstance(self._page[-1][time], str | int):
            self._page.pop()
        if not self._page:
            raise CorruptStoreError(
                f"{read:,} consecutive items have a stored time that is not text, so the scan cannot continue."
            )

    def _place(self, row: Sequence[Any]) -> Place:
        time = row[_TIMES[self._order]]
        return "" if self._order == "updated" and not isinstance(time, str) else time, row[-1]


async def scanned(
    statements: Statements,
    opened: Opened,
    wanted: Filter,
    include_deleted: bool,
    order: Order,
) -> AsyncGenerator[Sequence[Any], None]:
    """Yield the matching rows in an order, the first one first."""
    streams = [_Stream(statements, opened, kind, order, deleted=False) for kind in kinds_of(wanted)]
    if include_deleted:
        streams.append(_Stream(statements, opened, wanted, order, deleted=True))
    while True:
        heads = [(head, number) for number, stream in enumerate(streams) if (head := await stream.head()) is not None]
        if not heads:
            return
        yield streams[min(heads)[1]].take()[: len(ITEM_COLUMNS)]


_ASKED_WHILE_LISTING = 32
"""The ``most_asked`` of a read in the event loop that lists namespaces: each takes fifty short instructions."""

OWNERS_PAGE = 500
"""How many owners are read at a time."""

FIRST_NAMESPACES = 250
"""How many namespaces are listed without counts in the event loop, in less than a millisecond."""


def listed(
    statements: SQLiteStatements, opened: Opened, listing: Listing, wanted: Filter
) -> AsyncGenerator[Owner, None]:
    """Yield the owners of what matches, in order."""
    return listing.shown_by_page(_owner_pages(statements, opened, listing, wanted))


async def _owner_pages(
    statements: SQLiteStatements, opened: Opened, listing: Listing, wanted: Filter
) -> AsyncGenerator[Iterable[Owner], None]:
    select, size = statements.owners_after, OWNERS_PAGE
    if not listing.counts and lists_places(listing, wanted):
        select, size = statements.namespaces_after, FIRST_NAMESPACES
    last: bytes | None = None
    while True:
        statement = select(listing, wanted, last, size)
        rows = opened().rows_at_once(*statement, _ASKED_WHILE_LISTING) if size == FIRST_NAMESPACES else None
        if rows is None:
            rows = await opened().rows(*statement)
        yield _owners(listing, rows)
        if len(rows) < size:
            return
        last, size = rows[-1][0], OWNERS_PAGE


def _owners(listing: Listing, rows: Sequence[Sequence[Any]]) -> Iterator[Owner]:
    for name, number, first, last in rows:
        try:
            key = name.decode()
        except UnicodeDecodeError:
            continue  # Its items cannot be read either; the doctor names them.
        yield Owner(namespace_of(key) if listing.by == "namespace" else key, number, *map(_time, (first, last)))


def _time(number: int | None) -> str:
    return "" if number is None else text_of(number)
