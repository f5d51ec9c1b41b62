"""Convert items to rows and back.

The ten columns: ``id, content, memory_type, status, metadata, extra_json, created_at, updated_at, deleted, version``.
``metadata`` and ``extra_json`` are JSON text; ``extra_json`` holds every field that is not a column. An engine may add
columns of its own after these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from operator import itemgetter
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from memoranda.errors import CorruptStoreError
from memoranda.items import (
    BUILTIN_TYPES,
    SCOPE_FIELDS,
    AIMemory,
    MemoryItem,
    MemoryMetadata,
    MemoryStatus,
    Payload,
    ids_of,
)
from memoranda.shapes import json_text, json_value
from memoranda.store.codec import bare_item, bare_metadata, dump_metadata, further_values, make_item, readable
from memoranda.store.fields import TRUSTED, ItemFields
from memoranda.trust import replacing_trust, trusted_as

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

PAYLOAD_COLUMNS = ("id", "content", "metadata", "extra_json")
"""The columns that :func:`unpack_payload` reads, in its order."""

_USUAL: dict[type[MemoryItem], str] = {AIMemory: json_text(further_values(AIMemory(content="")))}
"""What ``extra_json`` is in most rows of a class: there is nothing to take apart, but lists are each item's own."""

_PAYLOAD = '{"payload":"'
_SEALED = f"{_PAYLOAD}s1."
"""How ``extra_json`` begins in an encrypted store, where a row has nothing but a sealed text."""

_EXTRA = '"extra":'
_LONG = 1000

_NO_TEXT: Any = object()
_NO_OWNER: dict[str, Any] = {}
_TEXT_OR_NONE = frozenset({str, type(None)})
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
    """Return the row of an item that :func:`memoranda.store.backend.check_item` has passed."""
    metadata = item.metadata
    if metadata.extra or metadata.namespace:
        metadata_text = json_text(dump_metadata(metadata))
    else:
        metadata_text = _plain_text(*ids_of(metadata.__dict__))
    return Row(
        item.id,
        item.content,
        item.memory_type,
        item.status.value,
        metadata_text,
        further_text(item),
        item.created_at,
        item.updated_at,
    )


def further_text(item: MemoryItem) -> str:
    """Return ``extra_json`` of an item that was checked."""
    usual = _usual(type(item))
    if usual is not None and not item.__pydantic_extra__:
        values_of, values, text = usual
        if values_of(item.__dict__) == values:
            return text
    try:
        return to_json(further_values(item, checked=True)).decode()  # In a quarter of the time of ``json``.
    except ValueError:  # A mapping that is no dict, or nested deeply.
        return json_text(further_values(item))


@cache
def _usual(cls: type[MemoryItem]) -> tuple[Callable[[dict[str, Any]], tuple[Any, ...]], tuple[Any, ...], str] | None:
    """Return how the fields of a class's items are taken, their values in most items, and the JSON of those."""
    if cls not in TRUSTED:
        return None
    item = cls(content="")
    values_of = itemgetter(*TRUSTED[cls].names)
    return values_of, values_of(item.__dict__), json_text(further_values(item))


@lru_cache(maxsize=1024)
def _plain_text(*scope: str | None) -> str:
    """Return the JSON of metadata without ``extra``, made once for all the items of a conversation."""
    return json_text({**dict(zip(SCOPE_FIELDS, scope, strict=True)), "extra": {}})


class _Kind(NamedTuple):
    """How rows become items of a class."""

    fields: ItemFields | None
    """None if the class validates its items itself."""
    blank: dict[str, Any]
    usual: str


@cache
def _kind(cls: type[MemoryItem]) -> _Kind:
    """Return how rows become items of a class."""
    fields = TRUSTED.get(cls)
    return _Kind(fields, {} if fields is None else fields.blank, _USUAL.get(cls, "{}"))


def unpack(row: Sequence[Any], types: Mapping[str, type[MemoryItem]] = BUILTIN_TYPES) -> MemoryItem:
    """Return the item of a row of ``ITEM_COLUMNS``, as :func:`unpack_all` does."""
    return unpack_all((row,), types)[0]


def unpack_readable(
    rows: Sequence[Sequence[Any]], types: Mapping[str, type[MemoryItem]] = BUILTIN_TYPES
) -> list[MemoryItem]:
    """Return the items of rows of ``ITEM_COLUMNS`` without the unreadable ones, which are logged."""
    try:
        return unpack_all(rows, types)
    except CorruptStoreError:
        return readable(partial(unpack, types=types), rows)


def unpack_all(
    rows: Iterable[Sequence[Any]], types: Mapping[str, type[MemoryItem]] = BUILTIN_TYPES
) -> list[MemoryItem]:
    """Return the items of rows of ``ITEM_COLUMNS``, whose metadata may be their own already.

    Raises CorruptStoreError, naming the id, for the first one that cannot be read. Neighbours mostly have the same
    metadata, which is taken apart once; each gets an object of its own, since ``extra`` can be changed in place.
    """
    items: list[MemoryItem] = []
    item_id: Any = None
    last_text, last_owner = _NO_TEXT, _NO_OWNER
    try:
        for item_id, content, memory_type, status, metadata, extra_json, created_at, updated_at, version in rows:
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
            known, blank, usual = _kind(cls)
            fields = blank.copy()
            fields["id"] = item_id
            fields["content"] = content
            fields["memory_type"] = memory_type
            fields["status"] = status if known is None else _STATUSES[status]
            if type(metadata) is MemoryMetadata:
                fields["metadata"] = metadata
            elif metadata == last_text:
                fields["metadata"] = bare_metadata({**last_owner, "extra": {}})
            else:
                fields["metadata"] = owner = _metadata(metadata)
                if not owner.__dict__["extra"]:
                    last_text, last_owner = metadata, owner.__dict__
            fields["created_at"] = created_at
            fields["updated_at"] = updated_at
            fields["version"] = version
            # Most rows of a conversation have nothing to take apart.
            further = {} if extra_json in ("{}", usual) else _taken_apart(extra_json)
            if known is None:
                items.append(make_item(fields, further, types))
                continue
            if further or known.nested:
                known.take(fields, further)
            items.append(bare_item(cls, fields, further))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptStoreError(f"The stored item {item_id!r} cannot be read as a memory item.") from error
    return items


def _taken_apart(extra_json: str) -> dict[str, Any]:
    """Return the fields of ``extra_json``; those of an encrypted store are a payload alone, which takes no parser."""
    if extra_json.startswith(_SEALED) and extra_json.count('"') == 4 and "\\" not in extra_json:
        return {"payload": extra_json[len(_PAYLOAD) : -2]}
    further = json_value(extra_json)
    if type(further) is not dict:
        raise TypeError("extra_json is not an object")
    return further


def unpack_payload(row: Sequence[Any]) -> Payload:
    """Return the payload of a row of ``PAYLOAD_COLUMNS``; of these it checks what :func:`unpack` does."""
    item_id, content, metadata, extra_json = row
    try:
        further = {} if extra_json == "{}" else json_value(extra_json)
        text, in_format, trust = further.get("payload"), further.get("payload_format"), further.get("trust")
        kinds = (type(text), type(in_format), type(trust))
        if not type(item_id) is type(content) is str or not _TEXT_OR_NONE.issuperset(kinds):
            raise TypeError("a column holds a value of the wrong type")
        (_seen_metadata if len(metadata) < _LONG else _metadata)(metadata)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptStoreError(f"The stored item {item_id!r} cannot be read as a memory item.") from error
    return Payload(item_id, content, text, in_format, trust)


def replacing_text(stored: str, stored_type: str, version: int, new: str, new_type: str) -> str:
    """Return ``extra_json`` of an item that replaces one of this version: with its trust, or with that of the old one.

    See :func:`memoranda.trust.replacing_trust`. What cannot be read of the old one leaves the new one as it is.
    """
    if stored_type == new_type and '"trust"' not in stored and '"trust"' not in new:
        return new
    try:
        old, further = json_value(stored), json_value(new)
        trust = trusted_as(new_type, further.get("trust"))
        kept = replacing_trust(trusted_as(stored_type, old.get("trust")), trust, further.get("approval"), version)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return new
    return new if kept is trust else json_text({**further, "trust": str(kept)})


def _metadata(text: str) -> MemoryMetadata:
    """Return the metadata of its JSON, whose beginning is the same for all items of a conversation or a place."""
    beginning, found, rest = text.partition(_EXTRA)
    if len(beginning) < _LONG and (fields := _scope_and_place(beginning + found)):
        held = fields.copy()
        if rest == "{}}" or not found:
            held["extra"] = {}
            return bare_metadata(held)
        try:
            held["extra"] = extra = from_json(rest[:-1], cache_strings="keys")
        except ValueError:
            extra = None  # More follows, or it is written as no backend writes it.
        if type(extra) is dict and rest[-1] == "}":
            return bare_metadata(held)
    return bare_metadata(_checked(json_value(text)))


_seen_metadata = lru_cache(maxsize=1024)(_metadata)


@lru_cache(maxsize=1024)
def _scope_and_place(beginning: str) -> dict[str, Any] | None:
    """Return the metadata that is this text, or that begins so and goes on with ``extra``.

    None is for what has some ``extra`` in it already, or goes on with one that is not its own.
    """
    goes_on = beginning.endswith(_EXTRA)
    try:
        held = json.loads(f"{beginning}{{}}}}" if goes_on else beginning)
    except ValueError:
        return None
    fields = _checked(held)
    return None if fields["extra"] or ("extra" in held) is not goes_on else fields


def _checked(found: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of metadata, in their order. Raises TypeError for values that they cannot have."""
    fields: dict[str, Any] = {name: found.get(name) for name in SCOPE_FIELDS}
    place, extra = found.get("namespace") or (), found.get("extra") or {}
    if (
        not all(value is None or type(value) is str for value in fields.values())
        or not all(type(element) is str for element in place)
        or type(extra) is not dict
    ):
        raise TypeError("metadata has a value of the wrong type")
    return {**fields, "namespace": tuple(place), "extra": extra}
