"""Listing who has something, a page of owners at a time, from an index alone where the filter allows it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any

from memoranda.store import Filter, Listing, Owner, namespace_of
from memoranda_sqlite.scanning import Fetch
from memoranda_sqlite.statements import SQLiteStatements, lists_places
from memoranda_sqlite.times import text_of

PAGE = 500
"""How many owners are read at a time."""

FIRST = 250
"""How many namespaces that nobody counts are read in the event loop: so many it reads in less than a millisecond."""


async def listed(
    statements: SQLiteStatements, at_once: Fetch, fetch: Fetch, listing: Listing, wanted: Filter
) -> AsyncGenerator[Owner, None]:
    """Yield the owners of what matches, in order. ``at_once`` reads in the event loop where it can."""
    select, read, size = statements.owners_after, fetch, PAGE
    if not listing.counts and lists_places(listing, wanted):
        select, read, size = statements.namespaces_after, at_once, FIRST
    last: bytes | None = None
    waiting: Owner | None = None
    while True:
        rows = await read(*select(listing, wanted, last, size))
        for owner in listing.shown(_owners(listing, rows)):
            # Namespaces that the depth makes one may lie on both sides of a page's end.
            if waiting is not None and waiting.value == owner.value:
                waiting = waiting.joined(owner)
                continue
            if waiting is not None:
                yield waiting
            waiting = owner
        if len(rows) < size:
            break
        last, read, size = rows[-1][0], fetch, PAGE
    if waiting is not None:
        yield waiting


def _owners(listing: Listing, rows: Sequence[Sequence[Any]]) -> Iterator[Owner]:
    for name, number, first, last in rows:
        try:
            key = name.decode()
        except UnicodeDecodeError:
            continue  # Its items cannot be read either; the doctor names them.
        yield Owner(namespace_of(key) if listing.by == "namespace" else key, number, *map(_time, (first, last)))


def _time(number: int | None) -> str:
    return "" if number is None else text_of(number)
