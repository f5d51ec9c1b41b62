"""How an item becomes a row and a row an item.

The ten columns: ``id, content, memory_type, status, metadata, extra_json, created_at, updated_at, deleted, version``.
``metadata`` and ``extra_json`` are JSON text; ``extra_json`` holds every field that is not a column. An engine may add
columns of its own after these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from memoranda.errors import CorruptStoreError
from memoranda.items import BUILTIN_TYPES, SCOPE_FIELDS, AIMemory, MemoryItem, MemoryMetadata, MemoryStatus
from memoranda.shapes import json_text
from memoranda.store.codec import bare_item, dump_metadata, further_values, make_item, make_metadata
from memoranda.store.fields import TRUSTED

ITEM_COLUMNS = (
    "id",
    "content",
    "memory_type",
    "status",
    "metadata",
    "extra_json",
    "created_at",
    "updated_at",
    "version",
)
"""The columns that :func:`unpack` reads, in its order; statements that return items select exactly these."""


_BLANK = {cls: fields.blank for cls, fields in TRUSTED.items() if fields.blank is not None}
"""The fields of a row without ``extra_json``, for classes of which items can share them."""

_USUAL: dict[type[MemoryItem], str] = {AIMemory: json_text(further_values(AIMemory(content="")))}
"""What ``extra_json`` is in most rows of a class: there is nothing to take apart, but lists are each item's own."""

_decoded = json.JSONDecoder().decode
_scope_of = itemgetter(*SCOPE_FIELDS)
_STATUSES = {status.value: status for status in MemoryStatus}


class Row(NamedTuple):
    """An item as columns, in the order in which the upsert binds them."""

    id: str
    content: str
    memory_type: str
    status: str
    metadata: str
    extra_json: str
    created_at: str
    updated_at: str


def pack(item: MemoryItem) -> Row:
    """Return the row of an item that :func:`memoranda.store.check_item` has passed."""
    further = further_values(item)
    metadata = item.metadata
    if metadata.extra or metadata.namespace:
        metadata_text = json_text(dump_metadata(metadata))
    else:
        metadata_text = _plain_text(*_scope_of(metadata.__dict__))
    return Row(
        item.id,
        item.content,
        item.memory_type,
        item.status.value,
        metadata_text,
        json_text(further) if further else "{}",
        item.created_at,
        item.updated_at,
    )


@lru_cache(maxsize=1024)
def _plain_text(*scope: str | None) -> str:
    """Return the JSON of metadata without ``extra``, made once for all the items of a conversation."""
    return json_text({**dict(zip(SCOPE_FIELDS, scope, strict=True)), "extra": {}})


def unpack(row: Sequence[Any], types: Mapping[str, type[MemoryItem]] = BUILTIN_TYPES) -> MemoryItem:
    """Return the item of a row of ``ITEM_COLUMNS``. Raises CorruptStoreError, naming the id, if it cannot be read."""
    item_id, content, memory_type, status, metadata, extra_json, created_at, updated_at, version = row
    try:
        # One by one: this is done for every row that is read.
        if (
            type(content) is not str
            or type(version) is not int
            or type(created_at) is not str
            or type(updated_at) is not str
            or type(item_id) is not str
            or type(memory_type) is not str
        ):
            raise TypeError("a column holds a value of the wrong type")
        cls = types.get(memory_type, MemoryItem)
        if extra_json == "{}" and cls in _BLANK:
            # Most rows of a conversation are of this kind, and there is nothing to take apart.
            fields = {
                "id": item_id,
                "content": content,
                "memory_type": memory_type,
                "status": _STATUSES[status],
                "metadata": _metadata(metadata),
                "created_at": created_at,
                "updated_at": updated_at,
                "version": version,
                **_BLANK[cls],
            }
            return bare_item(cls, fields, {})
        base = {
            "id": item_id,
            "content": content,
            "memory_type": memory_type,
            "status": status,
            "metadata": _metadata(metadata),
            "created_at": created_at,
            "updated_at": updated_at,
            "version": version,
        }
        if cls in TRUSTED and extra_json == _USUAL.get(cls):
            base["status"] = _STATUSES[status]
            TRUSTED[cls].fill(base, {})
            return bare_item(cls, base, {})
        further = {} if extra_json == "{}" else _decoded(extra_json)
        if type(further) is not dict:
            raise TypeError("extra_json is no object")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptStoreError(f"The stored item {item_id!r} cannot be read as a memory item.") from error
    return make_item(base, further, types)


def _metadata(text: str) -> MemoryMetadata:
    scope = _plain_scope(text)
    if scope is None:
        fields = json.loads(text)
        extra = fields.get("extra") or {}
        values = [fields.get(name) for name in SCOPE_FIELDS]
        namespace = fields.get("namespace") or ()
        if (
            type(extra) is not dict
            or not all(value is None or type(value) is str for value in values)
            or not all(type(element) is str for element in namespace)
        ):
            raise TypeError("metadata has a value of the wrong type")
        return make_metadata({**dict(zip(SCOPE_FIELDS, values, strict=True)), "namespace": namespace, "extra": extra})
    return make_metadata({**scope, "namespace": (), "extra": {}})


@lru_cache(maxsize=1024)
def _plain_scope(text: str) -> dict[str, str | None] | None:
    """Return the scope of metadata without ``extra``, parsed once for all the items of a conversation."""
    fields = json.loads(text)
    if fields.get("extra") or fields.get("namespace") or len(text) > 1000:
        return None
    values = {name: fields.get(name) for name in SCOPE_FIELDS}
    if not all(value is None or type(value) is str for value in values.values()):
        raise TypeError("metadata has a value of the wrong type")
    return values
