"""What has changed among the payloads of a scope since they were last read, by the marks of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from memoranda.errors import CorruptStoreError
from memoranda.items import Payload, PayloadChanges
from memoranda.store.backend import Expiry, Filter, left_out
from memoranda_backend.sql import PAYLOAD_COLUMNS, Parameters, unpack_payload
from memoranda_postgres.dialect import SEQUENCE, PostgresStatements
from memoranda_postgres.marks import MARK, SNAPSHOT, lists_open_transactions
from memoranda_postgres.server import Server


class _Seen(NamedTuple):
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


async def payload_changes(
    server: Server, statements: PostgresStatements, wanted: Filter, since: object
) -> PayloadChanges:
    """Return how the payloads that match differ from what they were; all of them if there is no earlier state."""
    now = next((each.now for each in wanted.further if isinstance(each, Expiry)), "")
    asked = replace(wanted, further=tuple(each for each in wanted.further if not isinstance(each, Expiry)))
    before = since if isinstance(since, _Seen) and since.asked == asked else None
    ((snapshot,),) = await server.fetch(f"SELECT {SNAPSHOT}", ())
    if before is not None and before.holds(snapshot, now):
        return PayloadChanges(before, {}, ())
    marks, until = await _marks(server, statements, wanted)
    known: Mapping[int, int] = {} if before is None else before.marks
    changed = [number for number, mark in marks.items() if known.get(number) != mark]
    gone = known.keys() - marks.keys()
    found = await _rows(server, statements, wanted, None if before is None else changed)
    rows: dict[int, Payload] = {}
    held = {number: mark for number, mark in marks.items() if known.get(number) == mark}
    for number, mark, *row in found:
        held[number] = mark
        try:
            rows[number] = unpack_payload(row)
        except CorruptStoreError as error:
            left_out(error)
    state = _Seen(asked, snapshot, held, now, until)
    return PayloadChanges(state, rows, None if before is None else {*gone, *changed})


async def _marks(
    server: Server, statements: PostgresStatements, wanted: Filter
) -> tuple[Mapping[int, int], str | None]:
    """Return the marks of all rows that match by their numbers, and when the next one expires."""
    parameters = Parameters(statements.dialect)
    where = statements.conditions(parameters, wanted)
    columns = f"array_agg({SEQUENCE}), array_agg({MARK}), min(nullif(expires_at, ''))"
    text = f"SELECT {columns} FROM {statements.dialect.table} WHERE {where}"
    ((numbers, marks, until),) = await server.fetch(text, parameters.values)
    return dict(zip(numbers or (), marks or (), strict=True)), until


async def _rows(server: Server, statements: PostgresStatements, wanted: Filter, chosen: list[int] | None) -> list[Any]:
    """Return number, mark and payload of the rows that match, or of the chosen ones of them."""
    if chosen is not None and not chosen:
        return []
    parameters = Parameters(statements.dialect)
    where = statements.conditions(parameters, wanted)
    also = "" if chosen is None else f"AND {SEQUENCE} = ANY({parameters.add(chosen)}::bigint[])"
    columns = statements.dialect.selected(PAYLOAD_COLUMNS)
    text = f"SELECT {SEQUENCE}, {MARK}, {columns} FROM {statements.dialect.table} WHERE {where} {also} ORDER BY 1"
    return await server.fetch(text, parameters.values)
