"""Listing owners: page by page, from the indexes."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from memoranda.items import utc_text
from memoranda.store import Filter, Listing, Owner, namespace_of
from memoranda_postgres.dialect import PostgresStatements
from memoranda_postgres.server import Server

_PAGE = 500


async def owners(
    server: Server, statements: PostgresStatements, listing: Listing, wanted: Filter
) -> AsyncGenerator[Owner, None]:
    """Yield the owners of the items that match, in order."""
    after: str | None = None
    waiting: Owner | None = None
    while True:
        text, values = statements.owners_page(listing, wanted, after, _PAGE)
        rows = await server.fetch(text, values)
        found = (
            Owner(namespace_of(name) if listing.by == "namespace" else name, count, utc_text(first), utc_text(last))
            for name, count, first, last in rows
        )
        for owner in listing.shown(found):
            # Namespaces that are cut off may go on in the next page.
            if waiting is not None and waiting.value == owner.value:
                waiting = waiting.joined(owner)
                continue
            if waiting is not None:
                yield waiting
            waiting = owner
        if len(rows) < _PAGE:
            break
        after = rows[-1][0]
    if waiting is not None:
        yield waiting
