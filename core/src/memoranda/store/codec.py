"""An item as plain JSON and back. Every backend stores what :func:`dump_item` gives, in its own shape."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from memoranda.errors import CorruptStoreError, InputError
from memoranda.items import (
    BUILTIN_TYPES,
    SCOPE_FIELDS,
    MemoryItem,
    MemoryMetadata,
    MemoryStatus,
    new_id,
    utc_text,
)
from memoranda.shapes import checked_json
from memoranda.store.checks import check_item, validated
from memoranda.store.fields import TRUSTED, fields_of

_STATUSES = {status.value: status for status in MemoryStatus}

_ATOMS = frozenset({str, int, float, bool, type(None)})

_new = object.__new__
# The slots of a model, set directly: reading twenty items sets them a hundred and sixty times.
_slots: dict[str, Any] = dict(vars(BaseModel))

_set_dict = _slots["__dict__"].__set__
_set_fields_set = _slots["__pydantic_fields_set__"].__set__
_set_extra = _slots["__pydantic_extra__"].__set__
_set_private = _slots["__pydantic_private__"].__set__

# Shared by what is never changed: metadata, which is frozen, and the items that a store keeps in memory.
_NONE_SET: set[str] = set()
_NONE_FURTHER: dict[str, Any] = {}

ItemT = TypeVar("ItemT", bound=MemoryItem)


def further_values(item: MemoryItem, *, checked: bool = False) -> dict[str, Any]:
    """Return everything that is not one of ``BASE_FIELDS``, as JSON; absent means the field's default.

    Of an item that was ``checked`` before, the values are its own and may be of other types than JSON's.
    """
    return fields_of(type(item)).values(item, checked=checked)


def dump_metadata(metadata: MemoryMetadata) -> dict[str, Any]:
    """Return the metadata as a JSON object with all of its fields; the root namespace is left out."""
    held = metadata.__dict__
    fields: dict[str, Any] = {name: held[name] for name in SCOPE_FIELDS}
    if held["namespace"]:
        fields["namespace"] = list(held["namespace"])
    fields["extra"] = checked_json(held["extra"], "metadata.extra")
    return fields


def dump_item(item: MemoryItem) -> dict[str, Any]:
    """Return the item as one flat JSON object; :func:`load_item` gives an equal item back."""
    item = validated(item)
    check_item(item)
    return {
        "id": item.id,
        "content": item.content,
        "memory_type": item.memory_type,
        "status": item.status.value,
        "metadata": dump_metadata(item.metadata),
        "created_at": item.created_at,
        "updated_at": item.updated_at,
        "version": item.version,
        **further_values(item),
    }


def load_item(data: Mapping[str, Any], types: Mapping[str, type[MemoryItem]] = BUILTIN_TYPES) -> MemoryItem:
    """Return the item that a JSON object describes, checked throughout.

    A type that is not in ``types`` becomes a plain MemoryItem that keeps every field. Raises InputError, naming the
    field, when the object is not an item.
    """
    if not isinstance(data, Mapping):
        raise InputError(f"An item is a JSON object, not {type(data).__name__}.", field="item")
    kind = data.get("memory_type", "item")
    return types.get(kind if isinstance(kind, str) else "", MemoryItem)(**{str(key): data[key] for key in data})


def make_metadata(fields: dict[str, Any]) -> MemoryMetadata:
    """Build metadata from values that a store has checked before, without validating them again.

    The namespace may be left out, or a list as JSON has it.
    """
    extra = fields.pop("extra")  # The last of the fields, as in items that were validated.
    fields["namespace"] = tuple(fields.get("namespace") or ())
    fields["extra"] = extra
    return bare_metadata(fields)


def bare_metadata(fields: dict[str, Any]) -> MemoryMetadata:
    """Build metadata from all of its fields, in their order and of their types."""
    metadata: MemoryMetadata = _new(MemoryMetadata)
    _set_dict(metadata, fields)
    _set_fields_set(metadata, _NONE_SET)
    _set_extra(metadata, None)
    _set_private(metadata, None)
    return metadata


def bare_item(cls: type[ItemT], fields: dict[str, Any], further: dict[str, Any]) -> ItemT:
    """Build an item from all fields of its class without validation; ``further`` are unknown fields."""
    item: ItemT = _new(cls)
    _set_dict(item, fields)
    _set_fields_set(item, set())
    _set_extra(item, further)
    _set_private(item, None)
    return item


def make_item(
    base: dict[str, Any], further: dict[str, Any], types: Mapping[str, type[MemoryItem]] = BUILTIN_TYPES
) -> MemoryItem:
    """Build an item from values that a store has checked before.

    ``base`` holds all of ``BASE_FIELDS`` with ``metadata`` as a MemoryMetadata; both dicts become the item's own. The
    types of this module are built directly, which is an order of magnitude faster than validation and is what makes
    reading as fast as the engine; a plugin's type is validated by its own class. Raises CorruptStoreError when the
    values cannot be an item.
    """
    cls = types.get(base["memory_type"], MemoryItem)
    try:
        known = TRUSTED.get(cls)
        if known is None:
            return cls(**base, **further)
        base["status"] = _STATUSES[base["status"]]
        known.fill(base, further)
        return bare_item(cls, base, further)
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise CorruptStoreError(f"The stored item {base.get('id')!r} cannot be read as a memory item.") from error


def new_item(fields: dict[str, Any], metadata: MemoryMetadata, now: str) -> MemoryItem:
    """Return a new item with these fields, ``memory_type`` among them, of the class that has this type.

    It is what the class itself makes of them, in a fifth of the time where they are the usual ones and of the types
    that they should have. The values become its own. It was created ``now`` (see :func:`memoranda.items.now_text`),
    unless the fields say otherwise. Raises InputError, naming the field, as the class does.
    """
    cls = BUILTIN_TYPES.get(fields["memory_type"], MemoryItem)
    if not _is_usual(cls, fields):
        return cls(**{"created_at": now, **fields}, metadata=metadata)
    known = TRUSTED[cls]
    made = known.blank.copy()
    if known.nested:
        known.take(made, {})
    made["created_at"] = now
    made.update(fields)
    made.update(status=MemoryStatus.ACCEPTED, metadata=metadata, updated_at=made["created_at"], version=0)
    made["id"] = made["id"] or new_id()
    return bare_item(cls, made, {})


_TEXTS = ("id", "content", "memory_type", "created_at")
_USUALLY_GIVEN = ("name", "group", "origin", "payload", "payload_format", "tool_calls")
_USUALLY_GIVEN_OF_RESULTS = ("tool_call_id", "tool_name", "is_error")


@cache
def _usual_kinds(cls: type[MemoryItem]) -> dict[str, frozenset[type]]:
    """Return the types of the usual fields of new items of a class."""
    kinds = TRUSTED[cls].kinds
    usual = {name: kinds[name] for name in (*_USUALLY_GIVEN, *_USUALLY_GIVEN_OF_RESULTS) if name in kinds}
    return usual | dict.fromkeys(_TEXTS, frozenset({str}))


def _is_usual(cls: type[MemoryItem], fields: dict[str, Any]) -> bool:
    """Return True if an item of a class can be made of fields as they are."""
    kinds = _usual_kinds(cls)
    for name, value in fields.items():
        if name not in kinds or type(value) not in kinds[name]:
            return False
    for call in fields.get("tool_calls", ()):
        if type(call) is not dict or type(call.get("id")) is not str or not call["id"] or {*map(type, call)} != {str}:
            return False
    if "content" not in fields or fields.get("id") == "":
        return False
    try:
        return "created_at" not in fields or utc_text(fields["created_at"]) == fields["created_at"]
    except ValueError:
        return False


def _copied(value: Any) -> Any:
    """Copy a JSON value; texts, numbers, true, false and null are immutable and can be shared."""
    kind = type(value)
    if kind is dict:
        inside = value.copy()
        for key, inner in value.items():
            if type(inner) not in _ATOMS:
                inside[key] = _copied(inner)
        return inside
    if kind is list:
        return [inner if type(inner) in _ATOMS else _copied(inner) for inner in value]
    # Tuples, other mappings and classes of one's own become plain JSON.
    return value if kind in _ATOMS else checked_json(value, "value")


def copy_item(item: ItemT) -> ItemT:
    """Return a copy that shares nothing mutable with the item."""
    cls = type(item)
    known = TRUSTED.get(cls)
    if known is None:
        return item.model_copy(deep=True)
    # Written out, without make_metadata and bare_item: it is most of what reading from memory costs.
    fields = item.__dict__.copy()
    held = fields["metadata"].__dict__.copy()
    extra = held["extra"]
    held["extra"] = _copied(extra) if extra else {}
    fields["metadata"] = metadata = _new(MemoryMetadata)
    _set_dict(metadata, held)
    _set_fields_set(metadata, _NONE_SET)
    _set_extra(metadata, None)
    _set_private(metadata, None)
    for name in known.nested:
        value = fields[name]
        fields[name] = _copied(value) if value else type(value)()
    further = item.__pydantic_extra__
    copied: ItemT = _new(cls)
    _set_dict(copied, fields)
    _set_fields_set(copied, set())
    _set_extra(copied, _copied(further) if further else {})
    _set_private(copied, None)
    return copied


def copy_items(items: Iterable[ItemT]) -> list[ItemT]:
    """Return copies that share nothing mutable with the items."""
    return [copy_item(item) for item in items]


def stored_metadata(metadata: MemoryMetadata) -> MemoryMetadata:
    """Return a copy for an in-memory store, shared by the items of one owner if it has no ``extra``."""
    held = metadata.__dict__
    return bare_metadata({**held, "extra": _copied(held["extra"])})


def stored_copy(item: ItemT, version: int, metadata: MemoryMetadata) -> ItemT:
    """Return a copy for an in-memory store with this version; ``metadata`` is its :func:`stored_metadata`.

    It is never changed, since readers get a copy of it, so copies share what is empty.
    """
    cls = type(item)
    known = TRUSTED.get(cls)
    if known is None:
        kept = item.model_copy(deep=True)
        kept.__dict__["version"] = version
        return kept
    fields = item.__dict__.copy()
    fields["metadata"] = metadata
    fields["version"] = version
    for name in known.nested:
        value = fields[name]
        fields[name] = _copied(value) if value else type(value)()
    further = item.__pydantic_extra__
    stored: ItemT = _new(cls)
    _set_dict(stored, fields)
    _set_fields_set(stored, _NONE_SET)
    _set_extra(stored, _copied(further) if further else _NONE_FURTHER)
    _set_private(stored, None)
    return stored


logger = logging.getLogger(__name__)

RowT = TypeVar("RowT")
ReadT = TypeVar("ReadT")


def left_out(error: CorruptStoreError, listed_by: str = "'memoranda doctor'") -> None:
    """Log that something was left out. The error names its id; the cause is not logged, since it may quote content."""
    logger.error("%s It was left out; %s lists what cannot be read.", error, listed_by)


def readable(read: Callable[[RowT], ReadT], rows: Sequence[RowT]) -> list[ReadT]:
    """Return what ``read`` makes of the rows, in order, without corrupt ones."""
    try:
        return [read(row) for row in rows]  # Nearly always all of them can be read.
    except CorruptStoreError:
        found = []
    for row in rows:
        try:
            found.append(read(row))
        except CorruptStoreError as error:
            left_out(error)
    return found
