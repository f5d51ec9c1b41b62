"""Convert items to rows of the table: the shared row, then further columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from json.encoder import encode_basestring as _quoted
from typing import Any

from memoranda.items import SCOPE_FIELDS, MemoryItem, ids_of
from memoranda.shapes import json_text
from memoranda.store import namespace_key
from memoranda_backend.sql import Row, further_text, pack
from memoranda_sqlite.tables import ARCHIVED, DELETED, SHOWN, second_of

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
