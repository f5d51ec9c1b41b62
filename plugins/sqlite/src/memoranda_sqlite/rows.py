"""How an item becomes a row of the table: the shared row, and behind it the columns that we write beside the ten."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

from memoranda.items import SCOPE_FIELDS, MemoryItem
from memoranda.shapes import json_text
from memoranda.sql import Row, pack
from memoranda.store import namespace_key
from memoranda_sqlite.columns import ARCHIVED, DELETED, SHOWN

Values = Sequence[Any]
"""A row as it is bound: the fields of :class:`memoranda.sql.Row`, then ``FURTHER_COLUMNS``."""

ID, CONTENT, CREATED_AT = (Row._fields.index(field) for field in ("id", "content", "created_at"))
EXPIRES_AT, STATE = -2, -1
_METADATA = Row._fields.index("metadata")

_scope_of = itemgetter(*SCOPE_FIELDS)


def packed(item: MemoryItem) -> Values:
    """Return the values of an item that was checked."""
    row = pack(item)
    metadata = item.metadata.__dict__
    namespace = metadata["namespace"]
    scope = _scope_of(metadata)
    held = item.__dict__
    return (
        *row[:_METADATA],
        row.metadata if metadata["extra"] or namespace else _plain_text(*scope),
        *row[_METADATA + 1 :],
        *scope,
        namespace_key(namespace) if namespace else None,
        held["archived_by"],
        held["expires_at"],
        SHOWN if held["archived_by"] is None else ARCHIVED,
    )


@lru_cache(maxsize=1024)
def _plain_text(*scope: str | None) -> str:
    """Return the JSON of metadata that has nothing but ids; those that are None are left out."""
    ids = {name: value for name, value in zip(SCOPE_FIELDS, scope, strict=True) if value is not None}
    return json_text({**ids, "extra": {}})


def with_created(values: Values, created_at: str) -> Values:
    """Return a row with another time of creation."""
    return (*values[:CREATED_AT], created_at, *values[CREATED_AT + 1 :])


def hidden(values: Values) -> Values:
    """Return the row of an item that arrives deleted."""
    return (*values[:STATE], DELETED)
