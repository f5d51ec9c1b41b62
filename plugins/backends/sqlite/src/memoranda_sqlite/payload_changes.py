"""What has changed among the payloads of a scope since they were last read, as the journal of the file tells."""

from __future__ import annotations

import json
import sqlite3
from typing import NamedTuple

from memoranda.errors import CorruptStoreError
from memoranda.items import Payload, PayloadChanges
from memoranda.store.backend import Filter, left_out
from memoranda_backend.sql import PAYLOAD_COLUMNS, Parameters, unpack_payload
from memoranda_sqlite import journal
from memoranda_sqlite.reading import one_snapshot
from memoranda_sqlite.statements import SQLiteStatements
from memoranda_sqlite.tables import TABLE

_CHOSEN = "rowid IN (SELECT value FROM json_each(?))"
_NEXT_EXPIRY = f"SELECT min(expires_at) FROM {TABLE} WHERE expires_at > ?"


_FEW_ADDED = 10_000
"""Up to how many new rows of all scopes are looked at for those of one."""


class _Seen(NamedTuple):
    """The request, the state of the file, and the times between which nothing expires."""

    asked: Filter
    position: journal.Position
    since: str
    until: str | None


def payload_changes(
    connection: sqlite3.Connection, statements: SQLiteStatements, wanted: Filter, since: object
) -> PayloadChanges:
    """Return how the payloads that match differ from what they were; all of them if the journal does not tell."""
    asked, now = wanted.timeless()
    with one_snapshot(connection):
        position = journal.position(connection)
        (until,) = connection.execute(_NEXT_EXPIRY, (now,)).fetchone() if now else (None,)
        state = _Seen(asked, position, now, until)
        changes = None
        if isinstance(since, _Seen) and since.asked == asked and since.since <= now < (since.until or "~"):
            changes = journal.changed_between(connection, since.position, position)
        if changes is None:
            return PayloadChanges(state, _rows(connection, statements, wanted), None)
        rows: dict[int, Payload] = {}
        if changes.old:
            rows |= _rows(connection, statements, wanted, f"AND {_CHOSEN}", json.dumps(list(changes.old)))
        if changes.added:
            # The plus keeps the planner from reading what all scopes have added, where that is much.
            few = changes.added <= _FEW_ADDED
            rows |= _rows(connection, statements, wanted, f"AND {'' if few else '+'}rowid > ?", changes.after)
        return PayloadChanges(state, rows, changes.old)


def _rows(
    connection: sqlite3.Connection, statements: SQLiteStatements, wanted: Filter, also: str = "", *values: object
) -> dict[int, Payload]:
    """Return the payloads that match, and meet a further condition, by the numbers of their rows.

    Those that cannot be read are left out.
    """
    parameters = Parameters(statements.dialect)
    where = statements.conditions(parameters, wanted)
    # NOT INDEXED leaves the row number as the only way in.
    among = "NOT INDEXED" if also.startswith("AND rowid") else ""
    columns = statements.dialect.selected(PAYLOAD_COLUMNS)
    text = f"SELECT rowid, {columns} FROM {TABLE} {among} WHERE {where} {also} ORDER BY rowid"
    found: dict[int, Payload] = {}
    for number, *row in connection.execute(text, (*parameters.values, *values)):
        try:
            found[number] = unpack_payload(row)
        except CorruptStoreError as error:
            left_out(error)
    return found
