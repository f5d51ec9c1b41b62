"""How an item becomes a row of PostgreSQL's: metadata as JSONB compares it, and the columns that repeat facts of it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from memoranda.items import SCOPE_FIELDS, MemoryItem
from memoranda.shapes import json_text
from memoranda.sql import Row, pack
from memoranda.store import namespace_key

# A float that JSON writes with an exponent would come back from JSONB as a whole number.
_EXPONENT = re.compile(r"\d[eE][+-]?\d")


def jsonb_text(text: str) -> str:
    """Return JSON text as JSONB keeps it without loss: large floats are written out with their decimal point.

    JSONB holds numbers as decimals. Written out, a float stays a float and equals only the numbers that Python's float
    equals.
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
    """Whether JSONB gives a value back as it was: it sorts the keys of objects, and its nought has no sign."""
    if isinstance(value, float):
        return value != 0 or math.copysign(1, value) > 0
    if isinstance(value, Mapping):
        keys = [key.encode() for key in value]
        return keys == sorted(keys, key=lambda key: (len(key), key)) and all(map(kept_by_jsonb, value.values()))
    return not isinstance(value, list | tuple) or all(map(kept_by_jsonb, value))


def owner_of(user_id: str | None) -> str:
    """Return the partition key of a user; nobody's items have one too, since a key may not be NULL."""
    return "" if user_id is None else f"u{user_id}"


@lru_cache(maxsize=1024)
def _named(metadata: str) -> str:
    """Return the JSON of metadata whose ``extra`` is empty with the ids alone: JSONB spends as much on a null."""
    ids = json.loads(metadata)
    return json_text({name: ids[name] for name in SCOPE_FIELDS if ids[name] is not None})


def packed(item: MemoryItem) -> tuple[Row, tuple[Any, ...]]:
    """Return the row of an item, with metadata as JSONB compares it, and the columns that stand beside the row.

    These repeat facts of the item's JSON: its scope and namespace, whether it is archived and when it expires. Then
    comes the exact text of the metadata, where JSONB would give back another.
    """
    row, metadata = pack(item), item.metadata
    if not metadata.extra and not metadata.namespace:
        row = row._replace(metadata=_named(row.metadata))
    elif metadata.extra and _EXPONENT.search(row.metadata):
        row = row._replace(metadata=jsonb_text(row.metadata))
    return row, (
        metadata.user_id,
        metadata.session_id,
        metadata.task_id,
        metadata.agent_id,
        namespace_key(metadata.namespace) if metadata.namespace else "",
        item.archived_by is not None,
        item.expires_at,
        None if not metadata.extra or kept_by_jsonb(metadata.extra) else row.metadata,
    )
