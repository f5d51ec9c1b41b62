"""By what changes of rows are noticed, whoever made them.

A row's *mark* is a hash of its number and of the transaction that wrote it: every change of a row gives it another one.
If the server's snapshot is the one of an earlier look, nothing was written at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from memoranda.store.backend import Filter
from memoranda_backend.sql import Parameters
from memoranda_postgres.dialect import SEQUENCE, PostgresStatements
from memoranda_postgres.server import Server

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
