"""The index of terms, for scopes that are too large to be ranked as a whole.

It is created once a database has more items than that. From then on, triggers note the number of every item that is
written in ``memory_unindexed``. Batches then compute the terms, write an entry for each item into ``memory_terms`` and
remove the notes. An entry counts only for the version of the item that it was made from. So at every moment, and on
every replica, an item has an entry that counts or it is noted, and a ranked search reads the few items that have none.

An advisory lock lets only one process at a time fill the index of a schema. It is held within one call of a function of
the server: a process that stops in the middle of a batch keeps no other waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from memoranda.store.backend import Filter
from memoranda_backend.sql import Parameters
from memoranda_backend.sql.candidates import WHOLE_SCOPE, Sought
from memoranda_postgres.dialect import SEQUENCE, PostgresStatements
from memoranda_postgres.schema import add_terms
from memoranda_postgres.server import Server
from memoranda_postgres.terms import has_term, keys_text

Entry = tuple[int, int, str]
"""The number of an item, its version, and the keys of its terms."""


class TermIndex:
    """The index of terms of one store."""

    def __init__(self, server: Server, statements: PostgresStatements) -> None:
        self._server = server
        self._statements = statements
        dialect = statements.dialect
        self._same = f"item = {SEQUENCE} AND item_version = version"
        self._has_entry = f"EXISTS (SELECT FROM {dialect.terms} WHERE {self._same})"
        self._noted = f"SELECT DISTINCT unnest(items) AS noted FROM {dialect.unindexed}"

    def matches(self, parameters: Parameters, columns: str, term: Sought, scope: Filter) -> str:
        """Return the query of the items of a scope whose entries have the term."""
        dialect = self._statements.dialect
        where = self._statements.conditions(parameters, scope)
        return (
            f"SELECT {columns} FROM {dialect.terms} JOIN {dialect.table} ON {self._same} "
            f"WHERE {has_term(parameters, term, scope)} AND {where}"
        )

    def unindexed(self, parameters: Parameters, columns: str, scope: Filter) -> str:
        """Return the query of the items of a scope that wait for the index."""
        where = self._statements.conditions(parameters, scope)
        table = self._statements.dialect.table
        return (
            # Joined by a comma, which leaves the server's own columns visible.
            f"SELECT {columns} FROM ({self._noted}) AS waiting, {table} "
            f"WHERE {SEQUENCE} = noted AND {where} AND NOT {self._has_entry}"
        )

    async def exists(self) -> bool:
        """Return True if there is an index."""
        return bool((await self._server.fetch(f"SELECT {self._statements.dialect.has_terms}", ()))[0][0])

    async def create_if_needed(self) -> bool:
        """Return True if there is an index, after creating it where a scope may be too large without one."""
        dialect = self._statements.dialect
        few = f"SELECT FROM {dialect.table} LIMIT {WHOLE_SCOPE + 1}"
        counted = f"(SELECT count(*) > {WHOLE_SCOPE} FROM ({few}) AS few)"
        # No more items exist than numbers were drawn, which takes less time to see.
        needed = f"CASE WHEN last_value > {WHOLE_SCOPE} THEN {counted} ELSE false END"
        ((exists, is_needed),) = await self._server.fetch(
            f"SELECT {dialect.has_terms}, {needed} FROM {dialect.numbers}", ()
        )
        if is_needed and not exists:
            await self._server.run(lambda connection: add_terms(self._server, connection, dialect))
        return bool(exists or is_needed)

    async def backlog(self) -> int:
        """Return about how many items wait."""
        text = f"SELECT coalesce(sum(cardinality(items)), 0) FROM {self._statements.dialect.unindexed}"
        return int((await self._server.fetch(text, ()))[0][0])

    async def fill(self, size: int) -> int | None:
        """Index about ``size`` items and return how many notes that has settled; None if another process is at it."""
        rows = await self._server.fetch(self._batch(size), ())
        entries = await made_entries([row for row in rows if row["content"] is not None])
        notes = {row["place"]: row["writer"] for row in rows}
        return 0 if not notes else len(rows) if await self.write(entries, notes) else None

    async def write(self, entries: Sequence[Entry], notes: Mapping[str, str]) -> bool:
        """Write entries and remove notes; return False if another process is at it. Changed items get no entry."""
        columns = [list(column) for column in zip(*entries, strict=True)] or [[], [], []]
        written = await self._server.fetch(
            f"SELECT {self._statements.dialect.fill_terms}($1, $2, $3, $4, $5)",
            [*columns, list(notes), [f"{place} {writer}" for place, writer in notes.items()]],
        )
        return bool(written[0][0])

    def _batch(self, size: int) -> str:
        """Return the query of the first notes, of about so many items, and of what those items are made from."""
        dialect = self._statements.dialect
        first = f"SELECT ctid AS place, xmin AS writer, items FROM {dialect.unindexed} LIMIT {size}"
        count = "cardinality(items)"
        summed = f"SELECT *, sum({count}) OVER (ORDER BY place) - {count} AS before FROM ({first}) AS first"
        return (
            f"SELECT place::text, writer::text, number, version, content, user_id FROM ({summed}) AS summed "
            f"CROSS JOIN LATERAL unnest(items) AS number "
            f"LEFT JOIN {dialect.table} ON {SEQUENCE} = number AND NOT {self._has_entry} WHERE before < {size}"
        )


async def made_entries(rows: Sequence[Any]) -> list[Entry]:
    """Return the entries of rows with a number, version, content and user."""
    return await asyncio.to_thread(_entries, rows)


def _entries(rows: Sequence[Any]) -> list[Entry]:
    return [(row["number"], row["version"], keys_text(row["content"], row["user_id"])) for row in rows]
