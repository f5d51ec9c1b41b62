"""Listing who has something, a page of owners at a time, from an index alone where the filter allows it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any

from memoranda.store import Filter, Listing, Owner, namespace_of
from memoranda_sqlite.scanning import Fetch
from memoranda_sqlite.statements import SQLiteStatements

PAGE = 500
"""How many owners are read at a time."""


async def listed(
    statements: SQLiteStatements, fetch: Fetch, listing: Listing, wanted: Filter
) -> AsyncGenerator[Owner, None]:
    """Yield the owners of what matches, in order."""
    last: bytes | None = None
    waiting: Owner | None = None
    while True:
        rows = await fetch(*statements.owners_after(listing, wanted, last, PAGE))
        for owner in listing.shown(_owners(listing, rows)):
            # Namespaces that the depth makes one may lie on both sides of a page's end.
            if waiting is not None and waiting.value == owner.value:
                waiting = waiting.joined(owner)
                continue
            if waiting is not None:
                yield waiting
            waiting = owner
        if len(rows) < PAGE:
            break
        last = rows[-1][0]
    if waiting is not None:
        yield waiting


def _owners(listing: Listing, rows: Sequence[Sequence[Any]]) -> Iterator[Owner]:
    for name, number, first, last in rows:
        try:
            key = name.decode()
        except UnicodeDecodeError:
            continue  # Its items cannot be read either; the doctor names them.
        yield Owner(namespace_of(key) if listing.by == "namespace" else key, number, str(first), str(last))
