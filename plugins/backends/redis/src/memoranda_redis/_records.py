"""How the store keeps an item in Redis.

An item is a hash under ``<base>i:<id>``. Its field ``c`` is the content and ``j`` JSON with everything that has no
field of its own; the others are what scripts compare and keep: ``f`` the content as searches compare it, where that is
not plain ASCII, ``v`` version, ``m`` the item's member in the indexes, ``u s t a`` the ids of the scope and ``n`` the
key of the namespace, ``k`` type, ``w`` status, ``r`` set if archived, ``h`` set if hidden, ``o`` the token of the write
that it comes from, ``l`` its ttl, ``x`` its member in ``ends``, which begins with the time of expiry.

An index is a sorted set whose members all have the score 0 and so are sorted as text: the time, the number in the order
of adding in sixteen digits, the id.

* ``live`` holds all items, ``live:user_id:…`` those of a value of a scope's id.
* ``live:place:…`` holds the items of a namespace, ``live:namespace:…`` also those below it.
* ``said`` and ``said:…`` hold the same members with their number as score, ``said:none:…`` those without a user or a
  session.
* ``hidden`` and ``hidden:…`` hold hidden items, by time alone.
* ``values:…`` lists the values of each id, ``ends`` the items that expire, the soonest first.

The stream ``changes`` says which items were changed last, as ranges of their numbers, each a pair of the first and the
last one. It holds neither ids nor content, and only the last few thousand writes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from memoranda.errors import CorruptStoreError
from memoranda.items import SCOPE_FIELDS, MemoryItem, utc_text
from memoranda.shapes import checked_json, json_text, json_value
from memoranda.store import namespace_key
from memoranda.store.backend import bare_metadata, fold, further_values, make_item
from memoranda.trust import trust_of

SEPARATOR = "\0"
"""Separates the parts of a header; a store accepts no text that contains it."""

_SEPARATOR = SEPARATOR.encode()

_PLACE = 48
"""The length of an item's place within its member: its time and its number in the order of adding."""

TIME = 32
"""The length of a time."""

_LIFE = ("ttl", "expires_at")


class StoredItem(NamedTuple):
    """An item and its place: its time and its number in the order of adding."""

    place: str
    item: MemoryItem

    @property
    def number(self) -> str:
        """Its number in the order of adding, in sixteen digits."""
        return self.place[TIME:]


def optional(text: str | None) -> str:
    """Encode an optional text so that None differs from the empty text."""
    return "" if text is None else f"={text}"


def milliseconds(now: str, ends: str | None) -> str:
    """Return the milliseconds until an item expires, as text; empty if it does not."""
    if ends is None:
        return ""
    left = datetime.fromisoformat(ends) - datetime.fromisoformat(now)
    return str(max(1, math.ceil(left.total_seconds() * 1000)))


def item_header(item: MemoryItem, expected: int | None, now: str, *, hidden: bool = False) -> str:
    """Return what a script needs to know of an item to store it.

    ``expected`` is the version to replace, None for any; a ``hidden`` item is stored as a deleted one.
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
            trust_of(item),
            _approved(item),
        ]
    )


def _approved(item: MemoryItem) -> str:
    """Return the version that an item approves, as text; empty if it approves none."""
    approval = (item.__pydantic_extra__ or {}).get("approval")
    version = approval.get("version") if isinstance(approval, dict) else None
    return str(version) if type(version) is int else ""


def item_body(item: MemoryItem) -> str:
    """Return the item as JSON, without its id, content, version, time and lifetime.

    The trust comes first: a script may lower it.
    """
    metadata = item.metadata
    further = further_values(item)
    for name in _LIFE:
        further.pop(name, None)
    fields = {
        "trust": further.pop("trust", None),
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
    """Return the content as a substring search compares it; empty for ASCII, which scripts fold themselves."""
    return "" if content.isascii() else fold(content)


def read_stored(row: bytes, types: Mapping[str, type[MemoryItem]]) -> StoredItem:
    """Return the item of a row: its member in the indexes, version, expiry, ttl, JSON and content.

    Raises CorruptStoreError, naming the id, for anything that this store cannot have written.
    """
    try:
        member, version, ends, ttl, written, content = row.decode().split(SEPARATOR, 5)
        created = member[:TIME]
        further: dict[str, Any] = json_value(written)
        user_id, session_id, task_id, agent_id, extra, *place = further.pop("metadata")
        if type(extra) is not dict or len(place) > 1:
            raise TypeError("a part is of the wrong type")
        metadata = _scope_and_place(user_id, session_id, task_id, agent_id, *(place[0] if place else ())).copy()
        metadata["extra"] = extra
        base: dict[str, Any] = {
            "id": member[_PLACE:],
            "content": content,
            "memory_type": further.pop("memory_type"),
            "status": further.pop("status"),
            "metadata": bare_metadata(metadata),
            "created_at": created,
            "updated_at": (updated := further.pop("updated_at")),
            "version": int(version),
        }
        if type(base["memory_type"]) is not str:
            raise TypeError("a part is of the wrong type")
        if utc_text(created) != created or (updated != created and utc_text(updated) != updated):
            raise ValueError("a time is not in the form in which times are stored")
        if further.get("trust") is None:
            further.pop("trust", None)
        if ends:
            further["expires_at"] = utc_text(ends)
        if ttl:
            further["ttl"] = json.loads(ttl)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise unreadable_item(id_of_member(row.split(_SEPARATOR, 1)[0])) from error
    return StoredItem(member[:_PLACE], make_item(base, further, types))


@lru_cache(maxsize=1024)
def _scope_and_place(*values: str | None) -> dict[str, Any]:
    """Return the metadata of these ids and this namespace without its ``extra``, the same for a whole conversation.

    Raises TypeError for values that they cannot have.
    """
    scope, place = values[: len(SCOPE_FIELDS)], values[len(SCOPE_FIELDS) :]
    if not all(value is None or type(value) is str for value in scope) or not all(type(each) is str for each in place):
        raise TypeError("a part is of the wrong type")
    return {**dict(zip(SCOPE_FIELDS, scope, strict=True)), "namespace": place}


def id_of_member(member: bytes) -> str:
    """Return the id of the item that an index member belongs to."""
    return member[_PLACE:].decode(errors="backslashreplace")


def unreadable_item(item_id: str) -> CorruptStoreError:
    """Return the error for an item that cannot be read."""
    return CorruptStoreError(f"The stored item {item_id!r} cannot be read as a memory item.")
