"""Converting items to rows and back.

The ids of the scope have columns of their own, and most items have no other metadata: theirs is empty then. Otherwise
``metadata`` is complete, in the form that JSONB compares.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from memoranda.items import BUILTIN_TYPES, SCOPE_FIELDS, AIMemory, MemoryItem, MemoryMetadata, utc_text
from memoranda.shapes import json_text
from memoranda.store import namespace_key
from memoranda.store.backend import bare_metadata, further_values
from memoranda_sql import ITEM_COLUMNS, Row, pack, unpack

READ_COLUMNS = (*ITEM_COLUMNS, *SCOPE_FIELDS)
"""The columns that :func:`item_of` reads, in its order; statements that return items select these first."""

CALENDAR_ENDS = ("0001-01-01T00:00:00.000000+00:00", "9999-12-31T23:59:59.999999+00:00")
"""Times that the driver would encode as infinite ones; a statement takes them as text, and COPY cannot."""

_WITHOUT_CALLS = json_text(further_values(AIMemory(content="")))

# JSONB would return a float that is written with an exponent as a whole number.
_EXPONENT = re.compile(r"\d[eE][+-]?\d")


class Addition(NamedTuple):
    """An item to be written: its columns so far, and the scope fields in which a row of the same id must equal it.

    ``within`` is set only where fields cannot express the scope. ``times`` is how often the batch has the item. A
    ``deleted`` item is hidden from the start. ``moment`` is the item's time where ``created_at`` is not in the stored
    form.
    """

    row: Row
    further: tuple[Any, ...]
    token: int
    fields: tuple[str, ...]
    within: MemoryMetadata | None
    vectors: Sequence[Sequence[float]] | None = None
    times: int = 1
    number: int | None = None
    deleted: bool = False
    moment: str | None = None


def jsonb_text(text: str) -> str:
    """Return JSON text as JSONB keeps it without loss: large floats are written out with their decimal point.

    JSONB stores numbers as decimals. Written out, a float stays a float and equals the same numbers as in Python.
    """
    return _exact(json.loads(text)) if _EXPONENT.search(text) else text


def _exact(value: Any) -> str:
    if isinstance(value, float) and abs(value) >= 1e16:
        return f"{int(value)}.0"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json_text(key)}:{_exact(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_exact, value)) + "]"
    return json_text(value)


def kept_by_jsonb(value: Any) -> bool:
    """Return True if JSONB returns a value unchanged: it sorts the keys of objects, and its zero has no sign."""
    if isinstance(value, float):
        return value != 0 or math.copysign(1, value) > 0
    if isinstance(value, Mapping):
        keys = [key.encode() for key in value]
        return keys == sorted(keys, key=lambda key: (len(key), key)) and all(map(kept_by_jsonb, value.values()))
    return not isinstance(value, list | tuple) or all(map(kept_by_jsonb, value))


def moment_of(created_at: str) -> str:
    """Return the time of a row as the server can read it, even if its text was written by hand."""
    try:
        return created_at if utc_text(created_at) == created_at else "-infinity"
    except ValueError:
        return "-infinity"


def owner_of(user_id: str | None) -> str:
    """Return the partition key of a user; items without a user need one too, since a key cannot be NULL."""
    return "" if user_id is None else f"u{user_id}"


def item_of(row: Sequence[Any], types: Mapping[str, type[MemoryItem]] = BUILTIN_TYPES) -> MemoryItem:
    """Return the item of a row that begins with ``READ_COLUMNS``. Raises CorruptStoreError if it cannot be read."""
    # Unpacked at once, since this runs for every row that is read.
    item_id, content, memory_type, status, text, extra, created, updated, version, user, session, task, agent, *_ = row
    metadata: MemoryMetadata | str = text
    if text == "{}":
        metadata = bare_metadata(
            {
                "user_id": user,
                "session_id": session,
                "task_id": task,
                "agent_id": agent,
                "namespace": (),
                "extra": {},
            }
        )
    return unpack((item_id, content, memory_type, status, metadata, extra, created, updated, version), types)


def packed(item: MemoryItem) -> tuple[Row, tuple[Any, ...]]:
    """Return the row of an item, with metadata in the form that JSONB compares, and further columns.

    These repeat its scope and namespace, whether it is archived, and when it expires. The last one is the exact text of
    the metadata, where JSONB would return another.
    """
    row, metadata = pack(item), item.metadata
    scope = metadata.user_id, metadata.session_id, metadata.task_id, metadata.agent_id
    item_id, content, memory_type, status, exact, extra_json, created_at, updated_at = row
    if type(item) is AIMemory and extra_json == _WITHOUT_CALLS:
        extra_json = "{}"
    text = jsonb_text(exact) if metadata.extra or metadata.namespace else "{}"
    return Row(item_id, content, memory_type, status, text, extra_json, created_at, updated_at), (
        *scope,
        namespace_key(metadata.namespace) if metadata.namespace else "",
        item.archived_by is not None,
        item.expires_at or "",
        None if not metadata.extra or kept_by_jsonb(metadata.extra) else exact,
    )
