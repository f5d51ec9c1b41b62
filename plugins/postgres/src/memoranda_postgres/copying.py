"""Rows in PostgreSQL's binary form for COPY.

The driver would ask of every number in an array whether it is an array itself, which takes longer than all the rest of
a row; and most columns of most rows are the same few bytes. A time is said here to the ends of the calendar, where the
driver takes the first and the last that Python knows for no beginning and no end.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from struct import Struct

from memoranda_postgres.additions import Addition
from memoranda_postgres.rows import owner_of
from memoranda_postgres.terms import Kept, kept_folding, term_key, user_key
from memoranda_ranking import index_terms

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"

_NULL = b"\xff\xff\xff\xff"
_JSONB = b"\1"  # The version of its form.
_FALSE, _TRUE = b"\0\0\0\1\0", b"\0\0\0\1\1"
_USUAL_END = b"\0\0\0\4" + bytes(4) + b"\0\0\0\4\0\0\0\1"

_length = Struct(">i").pack
_fields = Struct(">h").pack
_numbers = Struct(">iqiqiq").pack
_end = Struct(">iiii").pack
_array = Struct(">iiiiii").pack
_element = Struct(">ii").pack

_EPOCH = datetime(2000, 1, 1)  # noqa: DTZ001 - PostgreSQL's own, of timestamps without a zone, which are in UTC here
_INTEGER = 23  # The type of the elements.
_LENGTHS = tuple(map(_length, range(2048)))

_element_of = Kept(lambda term: _element(4, term_key(term))).__getitem__
"""Returns a term as an element of an array."""


def copied(addition: Addition, *, partitioned: bool) -> bytes:
    """Return the row of an item, with the insert columns in their order."""
    row = addition.row
    user_id, session_id, task_id, agent_id, namespace, archived, expires_at, exact = addition.further
    metadata = _JSONB + row.metadata.encode()
    parts = [
        *(_BEGINNING[partitioned], _text(row.id), _text(row.content), _text(row.memory_type), _text(row.status)),
        *(_size(len(metadata)), metadata, _text(row.extra_json), _text(row.created_at)),
        *(_NULL if row.updated_at == row.created_at else _text(row.updated_at), _text(user_id), _text(session_id)),
        *(_text(task_id), _text(agent_id), _text(namespace), _TRUE if archived else _FALSE, _text(expires_at)),
        *(_text(exact), _text(kept_folding(row.content)), _keys(index_terms(row.content), user_id)),
        _numbers(8, addition.token, 8, addition.number or 0, 8, _moment(row.created_at)),
    ]
    if partitioned:
        parts.append(_text(owner_of(user_id)))
    usual = not addition.deleted and addition.times == 1
    parts.append(_USUAL_END if usual else _end(4, int(addition.deleted), 4, addition.times))
    return b"".join(parts)


_BEGINNING = {False: _fields(23), True: _fields(24)}


def _size(length: int) -> bytes:
    return _LENGTHS[length] if length < 2048 else _length(length)


def _text(text: str | None) -> bytes:
    if text is None:
        return _NULL
    data = text.encode()
    return _size(len(data)) + data


def _keys(terms: Sequence[str], user_id: str | None) -> bytes:
    """Return the numbers of an item's terms and of its user, each once, as an array."""
    elements = set(map(_element_of, terms))
    if user_id is not None:
        elements.add(_element(4, user_key(user_id)))
    if not elements:
        return b"\0\0\0\x0c" + bytes(8) + _length(_INTEGER)
    return _array(20 + 8 * len(elements), 1, 0, _INTEGER, len(elements), 1) + b"".join(elements)


def _moment(created_at: str) -> int:
    """Return the microseconds from the epoch to the time of an item."""
    since = datetime.fromisoformat(created_at[: len("2023-05-08T13:56:00.000000")]) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
