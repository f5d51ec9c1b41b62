"""What has changed among the payloads of a scope since they were last read, by the marks of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from memoranda.errors import CorruptStoreError
from memoranda.items import Payload, PayloadChanges
from memoranda.store.backend import Filter, left_out
from memoranda_backend.sql import PAYLOAD_COLUMNS, unpack_payload
from memoranda_postgres.dialect import PostgresStatements
from memoranda_postgres.marks import SNAPSHOT, lists_open_transactions, read_marked, read_marks
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
    asked, now = wanted.timeless()
    before = since if isinstance(since, _Seen) and since.asked == asked else None
    ((snapshot,),) = await server.fetch(f"SELECT {SNAPSHOT}", ())
    if before is not None and before.holds(snapshot, now):
        return PayloadChanges(before, {}, ())
    marks, until = await read_marks(server, statements, wanted)
    known: Mapping[int, int] = {} if before is None else before.marks
    changed = [number for number, mark in marks.items() if known.get(number) != mark]
    gone = known.keys() - marks.keys()
    chosen = None if before is None else changed
    found = await read_marked(
        server, statements, wanted, chosen, lambda _: statements.dialect.selected(PAYLOAD_COLUMNS)
    )
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
