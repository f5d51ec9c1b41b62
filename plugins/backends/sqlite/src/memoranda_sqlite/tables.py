"""The table of items: ten columns that every program may write, and further ones that searches need.

The further columns are derived from the ten. The store writes them itself; triggers fill them in for programs that
write the ten columns alone. ``created_us`` is the creation time as a number, which takes a quarter of the space of its
text in each index. How an item becomes a row stands here, too.
"""

from __future__ import annotations

import sqlite3
from calendar import monthrange
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from json.encoder import encode_basestring as _quoted
from typing import Any

from memoranda.items import SCOPE_FIELDS, MemoryItem, ids_of, utc_text
from memoranda.shapes import json_text
from memoranda.store import namespace_key
from memoranda_backend.sql import Row, further_text, pack

TABLE = "memory_items"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400_000_000

OLDEST = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND - 1
"""Stands for an unreadable time: it comes before all others."""

LATEST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND

SEED_COLUMNS = (
    "id",
    "content",
    "memory_type",
    "status",
    "metadata",
    "extra_json",
    "created_at",
    "updated_at",
    "deleted",
    "version",
)

SHOWN, ARCHIVED, DELETED = 0, 1, 2
"""The values of the column ``state``: shown by searches, replaced by a summary, deleted."""

STAYING = "memory_type IN ('system', 'summary')"
"""The condition on what every window of a session shows. SQLite finds its index by this very text."""

_CREATE_TABLE = """
CREATE TABLE {name} (
    id TEXT PRIMARY KEY NOT NULL,
    content TEXT NOT NULL,
    memory_type TEXT NOT NULL,
    status TEXT NOT NULL,
    metadata TEXT NOT NULL,
    extra_json TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    deleted INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 1,
    created_us INTEGER,
    user_id TEXT,
    session_id TEXT,
    task_id TEXT,
    agent_id TEXT,
    namespace TEXT,
    archived_by TEXT,
    expires_at TEXT,
    state INTEGER NOT NULL DEFAULT 0
)
"""

# Within a scope and a state, rows are in order of time, and rows of equal time in the order of adding: every index ends
# with the row number. by_added has no time before it.
_INDEXES = {
    "by_time": "(state, created_us)",
    "by_user": "(user_id, state, created_us)",
    "by_session": "(session_id, state, created_us)",
    "by_added": "(session_id, state) WHERE session_id IS NOT NULL",
    "by_task": "(task_id, state, created_us) WHERE task_id IS NOT NULL",
    "by_agent": "(agent_id, state, created_us) WHERE agent_id IS NOT NULL",
    "by_namespace": "(namespace, state, created_us) WHERE namespace IS NOT NULL",
    "by_user_namespace": "(user_id, namespace, state, created_us) WHERE namespace IS NOT NULL",
    "by_expiry": "(expires_at) WHERE expires_at IS NOT NULL",
}


def create_table(connection: sqlite3.Connection, name: str = TABLE) -> None:
    """Create the table of items under a name, without indexes and triggers."""
    connection.execute(_CREATE_TABLE.format(name=name))


def derive_columns(connection: sqlite3.Connection, name: str) -> None:
    """Fill in the further columns of all rows of a table that has the ten."""
    assignments = ", ".join(f"{column} = {value}" for column, value in _derived("").items())
    connection.execute(f"UPDATE {name} SET {assignments}")


def create_indexes(connection: sqlite3.Connection) -> None:
    """Create the indexes of the table and the triggers that fill in the further columns."""
    for name, columns in _INDEXES.items():
        connection.execute(f"CREATE INDEX {TABLE}_{name} ON {TABLE} {columns}")
    for name, action in _triggers().items():
        connection.execute(f"CREATE TRIGGER {TABLE}_{name} {action}")


def index_staying(connection: sqlite3.Connection) -> None:
    """Create the index of the system items and summaries of each session, which are few."""
    connection.execute(f"CREATE INDEX {TABLE}_by_staying ON {TABLE} (session_id, state) WHERE {STAYING}")


def _derived(row: str) -> dict[str, str]:
    """Return the expressions of the further columns; ``row`` qualifies the ten, as in ``new.``.

    json_valid() guards each: one unreadable row must not make whole statements fail.
    """
    metadata, further = f"{row}metadata", f"{row}extra_json"
    derived = {"created_us": _microseconds(f"{row}created_at")}
    for field in SCOPE_FIELDS:
        derived[field] = f"CASE WHEN json_valid({metadata}) THEN json_extract({metadata}, '$.{field}') END"
    derived["namespace"] = (
        f"CASE WHEN json_valid({metadata}) THEN (SELECT group_concat(replace(replace(value, '~', '~0'), '/', '~1') "
        f"|| '/', '') FROM json_each({metadata}, '$.namespace')) END"
    )
    for field in ("archived_by", "expires_at"):
        derived[field] = (
            f"CASE WHEN {further} <> '{{}}' AND json_valid({further}) THEN json_extract({further}, '$.{field}') END"
        )
    derived["state"] = (
        f"CASE WHEN {row}deleted THEN {DELETED} "
        f"WHEN {derived['archived_by']} IS NOT NULL THEN {ARCHIVED} ELSE {SHOWN} END"
    )
    return derived


def _microseconds(time: str) -> str:
    """Return the expression of the microseconds since 1970, from the text of a time in any form of ISO-8601.

    SQLite's own dates have milliseconds, so the fraction of the second is read separately. The pattern excludes texts
    that only SQLite takes for times, such as 'now'.
    """
    whole = (
        f"CASE WHEN substr({time}, 20, 1) = '.' "
        f"THEN substr({time}, 1, 19) || ltrim(substr({time}, 21), '0123456789') ELSE {time} END"
    )
    fraction = (
        f"CASE WHEN substr({time}, 20, 1) = '.' "
        f"THEN CAST(round(CAST('0' || substr({time}, 20, 7) AS REAL) * 1000000) AS INTEGER) ELSE 0 END"
    )
    return (
        f"ifnull(CASE WHEN {time} GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' "
        f"THEN CAST(strftime('%s', {whole}) AS INTEGER) * 1000000 + {fraction} END, {OLDEST})"
    )


FURTHER_COLUMNS = tuple(_derived(""))
"""The columns beyond the ten: the creation time in microseconds, the ids of the scope, the key of the namespace (NULL
is the root), two fields of the item, and the state that ``deleted`` and ``archived_by`` make."""


def _triggers() -> dict[str, str]:
    derived = _derived("new.")
    assignments = ", ".join(f"{column} = {value}" for column, value in derived.items())
    differs = " OR ".join(f"{column} IS NOT {value}" for column, value in derived.items())
    write = f"UPDATE {TABLE} SET {assignments} WHERE rowid = new.rowid AND ({differs})"
    changed = (
        f"old.metadata IS NOT new.metadata OR old.extra_json IS NOT new.extra_json "
        f"OR (new.deleted <> 0) IS NOT (new.state = {DELETED}) "
        f"OR (old.created_at IS NOT new.created_at AND old.created_us IS new.created_us)"
    )
    columns = "metadata, extra_json, deleted, created_at"
    return {
        "inserted": f"AFTER INSERT ON {TABLE} WHEN new.created_us IS NULL BEGIN {write}; END",
        "updated": f"AFTER UPDATE OF {columns} ON {TABLE} WHEN {changed} BEGIN {write}; END",
    }


def microseconds(time: str) -> int:
    """Return the number of a time in the form that items have; another form is converted first."""
    if len(time) != 32 or not time.endswith("+00:00"):
        time = utc_text(time)  # Raises ValueError for what is none.
    # Items of a conversation are made within a few seconds: the common part is parsed once.
    return second_of(time[:19]) + int(time[20:26])


@lru_cache(maxsize=1024)
def second_of(text: str) -> int:
    """Return the microseconds of a time that ends with its second, in UTC."""
    return (datetime.fromisoformat(f"{text}+00:00") - _EPOCH) // _MICROSECOND


def text_of(number: int) -> str:
    """Return the time of a number in the form that items have; the earliest one for ``OLDEST``."""
    moment = _EPOCH + timedelta(microseconds=max(number, OLDEST + 1))
    return moment.isoformat(timespec="microseconds")


def span(day: str) -> tuple[int, int]:
    """Return the first number of a day (``2023-05-08``) or a month (``2023-05``), and the first one after it.

    A day that does not exist has no numbers.
    """
    try:
        first = date.fromisoformat(day if len(day) > len("2023-05") else f"{day}-01")
    except ValueError:
        return 0, 0
    days = 1 if len(day) > len("2023-05") else monthrange(first.year, first.month)[1]
    start = (first.toordinal() - _EPOCH.toordinal()) * _DAY
    return start, start + days * _DAY


BoundRow = Sequence[Any]
"""A row as it is bound: the fields of :class:`memoranda_backend.sql.Row`, then ``FURTHER_COLUMNS``."""

ID, CONTENT, CREATED_AT = (Row._fields.index(field) for field in ("id", "content", "created_at"))
CREATED_US = len(Row._fields)
SCOPE_COLUMNS = {name: CREATED_US + 1 + number for number, name in enumerate(SCOPE_FIELDS)}
"""Where a row has the fields of its scope."""
EXPIRES_AT, STATE = -2, -1

_SCOPE_NAMES = tuple(map(json_text, SCOPE_FIELDS))


def packed(item: MemoryItem) -> BoundRow:
    """Return the values of an item that was checked."""
    held = item.__dict__
    metadata = held["metadata"].__dict__
    scope = ids_of(metadata)
    if metadata["extra"] or metadata["namespace"]:
        row = pack(item)
        text, further = row.metadata, row.extra_json
        place = namespace_key(metadata["namespace"]) or None
    else:
        # Most items are of this kind, and bulk loading spends a quarter of its time here.
        text, further = _plain_text(scope), further_text(item)
        place = None
    created_at, archived_by = held["created_at"], held["archived_by"]
    return (
        held["id"],
        held["content"],
        held["memory_type"],
        held["status"].value,
        text,
        further,
        created_at,
        held["updated_at"],
        second_of(created_at[:19]) + int(created_at[20:26]),
        *scope,
        place,
        archived_by,
        held["expires_at"],
        SHOWN if archived_by is None else ARCHIVED,
    )


def all_packed(items: Sequence[MemoryItem]) -> list[BoundRow]:
    """Return the values of items that were checked."""
    return [packed(item) for item in items]


@lru_cache(maxsize=1024)
def _plain_text(scope: tuple[str | None, ...]) -> str:
    """Return the JSON of metadata that has nothing but ids, without those that are None."""
    ids = [f"{name}:{_quoted(value)}" for name, value in zip(_SCOPE_NAMES, scope, strict=True) if value is not None]
    return f"{{{','.join(ids)}}}"


def with_created(values: BoundRow, created_at: str, created_us: int) -> BoundRow:
    """Return a row with another time of creation, as text and as a number."""
    between = values[CREATED_AT + 1 : CREATED_US]
    return (*values[:CREATED_AT], created_at, *between, created_us, *values[CREATED_US + 1 :])


def as_hidden(values: BoundRow) -> BoundRow:
    """Return the row of an item that is added as deleted."""
    return (*values[:STATE], DELETED)
