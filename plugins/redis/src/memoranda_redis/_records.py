"""How an item lies in Redis, for the store.

An item is a hash under ``<base>i:<id>``. Its field ``c`` is the content and ``j`` JSON with everything that has no
field of its own; the others are what scripts compare and keep: ``f`` the content as searches compare it, where that is
not plain ASCII, ``v`` version, ``m`` the item's member in the indexes, ``u s t a`` the ids of the scope and ``n`` the
key of the namespace, ``k`` type, ``w`` status, ``r`` whether it is archived, ``h`` whether it is hidden, ``o`` which
write it comes from, ``l`` its ttl, ``x`` its member among those that expire, which begins with the time.

An index is a sorted set whose members all have the score 0, so that they lie in the order of their text: the time, the
number of the adding in sixteen digits, the id. There is one of all items (``live``), one for each value of each id of a
scope (``live:user_id:…``), one for each namespace (``live:place:…``) and for what lies in it and below
(``live:namespace:…``). ``said`` and ``said:…`` hold the same members by the number of their adding, and
``said:none:…`` those without a user or a session. Hidden items have indexes of their own, by time alone.
``values:…`` are the values that there are of each, and ``ends`` is what expires, the soonest first.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from memoranda.errors import CorruptStoreError
from memoranda.items import SCOPE_FIELDS, MemoryItem, utc_text
from memoranda.shapes import checked_json, json_text
from memoranda.store import fold, further_values, make_item, make_metadata, namespace_key

SEPARATOR = "\0"
"""Between the parts of a header; no text that a store takes contains it."""

_SEPARATOR = SEPARATOR.encode()

_PLACE = 48
"""How many characters of a member say where the item stands: its time and the number of its adding."""

TIME = 32
"""How many characters a time has."""

_BASE = ("memory_type", "status", "updated_at")
_LIFE = ("ttl", "expires_at")


class Row(NamedTuple):
    """An item with its place: its time and the number of its adding."""

    place: str
    item: MemoryItem

    @property
    def number(self) -> str:
        """The number of its adding."""
        return self.place[TIME:]


def optional(text: str | None) -> str:
    """Return a text that may be absent in a form that tells None from the empty text."""
    return "" if text is None else f"={text}"


def milliseconds(now: str, ends: str | None) -> str:
    """Return how long it is until an end, for the server's own clock; nothing where there is none."""
    if ends is None:
        return ""
    left = datetime.fromisoformat(ends) - datetime.fromisoformat(now)
    return str(max(1, math.ceil(left.total_seconds() * 1000)))


def header(item: MemoryItem, expected: int | None, now: str, *, hidden: bool = False) -> str:
    """Return what a script must know of an item to store it.

    ``expected`` is the version to replace, None for any; a ``hidden`` one is stored as if it had been deleted.
    """
    return SEPARATOR.join(
        [
            item.id,
            item.created_at,
            item.memory_type,
            item.status.value,
            "" if item.archived_by is None else "1",
            "" if expected is None else str(expected),
            *(optional(getattr(item.metadata, name)) for name in SCOPE_FIELDS),
            namespace_key(item.metadata.namespace),
            "1" if hidden else "",
            item.expires_at or "",
            milliseconds(now, item.expires_at),
            "" if item.ttl is None else json.dumps(item.ttl),
        ]
    )


def body(item: MemoryItem) -> str:
    """Return the item as JSON, without its id, content, version, time and lifetime."""
    metadata = item.metadata
    further = further_values(item)
    for name in _LIFE:
        further.pop(name, None)
    fields = {
        "memory_type": item.memory_type,
        "status": item.status.value,
        "updated_at": item.updated_at,
        "metadata": [
            *(getattr(metadata, name) for name in SCOPE_FIELDS),
            checked_json(metadata.extra, "metadata.extra") if metadata.extra else {},
            *([list(metadata.namespace)] if metadata.namespace else []),
        ],
        **further,
    }
    return json_text(fields)


def folded(content: str) -> str:
    """Return the content as a substring search compares it; nothing for ASCII, which a script folds by itself."""
    return "" if content.isascii() else fold(content)


def read_row(row: bytes, types: Mapping[str, type[MemoryItem]]) -> Row:
    """Return the item of a row: its member in the indexes, version, end, ttl, JSON and content.

    Raises CorruptStoreError, naming the id, for whatever is no item that this store has written.
    """
    parts = row.split(_SEPARATOR, 5)
    item_id = named_id(parts[0])
    try:
        member, version, ends, ttl, written, content = (part.decode() for part in parts)
        further: dict[str, Any] = json.loads(written)
        metadata = further.pop("metadata")
        scope, (extra, *place) = metadata[: len(SCOPE_FIELDS)], metadata[len(SCOPE_FIELDS) :]
        (namespace,) = place or [[]]
        base: dict[str, Any] = {name: further.pop(name) for name in _BASE}
        fields = {**dict(zip(SCOPE_FIELDS, scope, strict=True)), "namespace": namespace, "extra": extra}
        base["metadata"] = make_metadata(fields)
        if ends:
            further["expires_at"] = utc_text(ends)
        if ttl:
            further["ttl"] = json.loads(ttl)
        base["id"] = item_id
        base["content"] = content
        base["created_at"] = member[:TIME]
        base["version"] = int(version)
        _check_types(base, [*scope, *namespace], extra)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise unreadable(item_id) from error
    return Row(member[:_PLACE], make_item(base, further, types))


def named_id(member: bytes) -> str:
    """Return the id of the item that a member of an index stands for."""
    return member[_PLACE:].decode(errors="backslashreplace")


def unreadable(item_id: str) -> CorruptStoreError:
    """Return the error for an item that is none."""
    return CorruptStoreError(f"The stored item {item_id!r} cannot be read as a memory item.")


def _check_types(base: dict[str, Any], scope: list[Any], extra: Any) -> None:
    """Raise TypeError or ValueError for values that only another program could have written."""
    created, updated = base["created_at"], base["updated_at"]
    if (
        type(extra) is not dict
        or type(base["memory_type"]) is not str
        or not all(text is None or type(text) is str for text in scope)
    ):
        raise TypeError("a part is of the wrong type")
    if utc_text(created) != created or (updated != created and utc_text(updated) != updated):
        raise ValueError("a time is not in the form in which times are stored")
