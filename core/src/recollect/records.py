"""An item as plain JSON and back, and the one check of what can be stored at all.

Every backend stores what :func:`dump_item` gives, in its own shape. What JSON cannot hold, NUL characters and lone
surrogates are refused here, by the name of the field, so that no two engines differ in what they take.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from recollect.errors import CorruptStoreError, InputError
from recollect.items import BUILTIN_TYPES, AIMemory, MemoryItem, MemoryMetadata, MemoryStatus, utc_text

BASE_FIELDS = ("id", "content", "memory_type", "status", "metadata", "created_at", "updated_at", "version")
"""The fields that every item has under the same name in every backend; all others travel together."""

SCOPE_FIELDS = ("user_id", "session_id", "task_id", "agent_id")

MAX_KEY_BYTES = 1000
"""The most bytes that an id may have, an item's or its owner's: two of them fit into an entry of any engine's index."""

_SURELY_SHORT = MAX_KEY_BYTES // 4
_MAX_DEPTH = 200
_MAX_INTEGER_BITS = 14_000  # Python refuses to read back integers of more than 4,300 digits.
_TRUSTED_CLASSES = frozenset({MemoryItem, *BUILTIN_TYPES.values()})
_STATUSES = {status.value: status for status in MemoryStatus}
_scope_of = itemgetter(*SCOPE_FIELDS)
_ATOMS = frozenset({str, int, float, bool, type(None)})
_new = object.__new__
# The slots of a model, set directly: reading twenty items sets them a hundred and sixty times.
_slots: dict[str, Any] = dict(vars(BaseModel))
_set_dict = _slots["__dict__"].__set__
_set_fields_set = _slots["__pydantic_fields_set__"].__set__
_set_extra = _slots["__pydantic_extra__"].__set__
_set_private = _slots["__pydantic_private__"].__set__
ItemT = TypeVar("ItemT", bound=MemoryItem)


# json.dumps would make a new encoder for every call.
_encoded = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def json_text(value: Any) -> str:
    """Return compact JSON; keys keep their order, text stays as it is."""
    return _encoded(value)


def check_text(text: str, field: str) -> str:
    """Return the text, or raise InputError if some engine could not hold it (NUL, lone surrogates)."""
    if not isinstance(text, str):
        raise InputError(f"{field} must be text, not {type(text).__name__}.", field=field)
    if "\0" in text:
        raise InputError(f"{field} contains a NUL character, which no store can hold.", field=field)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{field} contains a lone surrogate, which is half a character and cannot be stored.", field=field
        ) from None
    return text


def check_key(text: str, field: str) -> str:
    """Return an id, or raise InputError if it is no text for an index: see :func:`check_text`, and not too long."""
    check_text(text, field)
    if len(text) * 4 > MAX_KEY_BYTES and len(text.encode()) > MAX_KEY_BYTES:
        raise InputError(f"{field} is longer than {MAX_KEY_BYTES} bytes, which not every index can hold.", field=field)
    return text


def checked_json(value: Any, field: str, depth: int = 0) -> Any:
    """Return a deep copy of a JSON value, or raise InputError with the path to what JSON cannot hold."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return _plain_text(check_text(value, field))
    if isinstance(value, int):
        if value.bit_length() > _MAX_INTEGER_BITS:
            raise InputError(
                f"{field} is an integer of more than 4,000 digits, which JSON readers refuse.", field=field
            )
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"{field} is {value}, which JSON cannot hold; use null or a text.", field=field)
        return float(value)
    if depth >= _MAX_DEPTH:
        raise InputError(f"{field} is nested more than {_MAX_DEPTH} levels deep.", field=field)
    if isinstance(value, Mapping):
        copied = {}
        for key, inner in value.items():
            if not isinstance(key, str):
                raise InputError(f"{field} has a key of type {type(key).__name__}; JSON keys are text.", field=field)
            copied[_plain_text(check_text(key, f"{field} key"))] = checked_json(inner, f"{field}.{key}", depth + 1)
        return copied
    if isinstance(value, (list, tuple)):
        return [checked_json(inner, f"{field}[{position}]", depth + 1) for position, inner in enumerate(value)]
    raise InputError(f"{field} is of type {type(value).__name__}, which JSON cannot hold.", field=field)


def _plain_text(text: str) -> str:
    """Return a text of a class of its own, such as a member of an enumeration, as every engine gives it back."""
    return text if type(text) is str else str.__str__(text)


def check_metadata(metadata: MemoryMetadata, field: str = "metadata") -> None:
    """Raise InputError if the metadata holds what no store can hold."""
    for name in SCOPE_FIELDS:
        text = getattr(metadata, name)
        if text is not None:
            check_key(text, f"{field}.{name}")
    if not isinstance(metadata.extra, dict):
        raise InputError(f"{field}.extra must be a dict, not {type(metadata.extra).__name__}.", field=f"{field}.extra")
    if metadata.extra:
        checked_json(metadata.extra, f"{field}.extra")


def validated(item: MemoryItem) -> MemoryItem:
    """Return the item, or one that is validated anew where pydantic was passed over, as ``model_copy(update=…)`` does.

    Raises InputError, naming the field, for what cannot be an item.
    """
    if not isinstance(item, MemoryItem):
        raise InputError(f"A store takes memory items, not {type(item).__name__}.", field="item")
    values = item.__dict__
    try:
        sound = (
            type(item.status) is MemoryStatus
            and type(item.version) is int
            and item.version >= 0
            and isinstance(item.metadata, MemoryMetadata)
            and utc_text(item.created_at) == item.created_at
            and utc_text(item.updated_at) == item.updated_at
            and (type(item) is not AIMemory or type(item.tool_calls) is list)
        )
    except (AttributeError, ValueError):
        sound = False
    return item if sound else type(item)(**{**values, **(item.model_extra or {})})


def check_item(item: MemoryItem) -> None:
    """Raise InputError, naming the field, if the item cannot be stored. Every store calls this before it adds."""
    if _needs_no_closer_look(item):
        return
    if not isinstance(item, MemoryItem):
        raise InputError(f"A store takes memory items, not {type(item).__name__}.", field="item")
    check_key(item.id, "id")
    check_text(item.content, "content")
    check_text(item.memory_type, "memory_type")
    check_metadata(item.metadata)
    if item.name is not None:
        check_text(item.name, "name")
    if item.archived_by is not None:
        check_text(item.archived_by, "archived_by")
    own_values(item)


def storable(item: MemoryItem) -> MemoryItem:
    """Return the item as a store may take it: :func:`validated`, and passed by :func:`check_item`."""
    if _needs_no_closer_look(item):
        return item
    item = validated(item)
    check_item(item)
    return item


def _needs_no_closer_look(item: MemoryItem) -> bool:
    """Whether the item is like most: sound, of a type of this package, in plain ASCII, without anything nested.

    One look at all of its text together is several times faster than one at each field.
    """
    cls = type(item)
    if cls not in _TRUSTED_CLASSES or item.__pydantic_extra__:
        return False
    fields = item.__dict__
    try:
        scope = fields["metadata"].__dict__
        if scope["extra"] != {} or (cls.own_fields and any(fields[name] != [] for name in cls.own_fields)):
            return False
        content, created, updated = fields["content"], fields["created_at"], fields["updated_at"]
        others = (fields["id"], fields["memory_type"], fields["name"], fields["archived_by"], *_scope_of(scope))
        together = "".join([content, *[text for text in others if text is not None]])
        return (
            together.isascii()
            and "\0" not in together
            and len(together) - len(content) <= _SURELY_SHORT
            and type(fields["status"]) is MemoryStatus
            and type(fields["version"]) is int
            and fields["version"] >= 0
            and utc_text(created) == created
            and (updated == created or utc_text(updated) == updated)
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


def own_values(item: MemoryItem) -> dict[str, Any]:
    """Return a checked JSON copy of the fields beyond those that all items have: the subclass's and unknown ones."""
    cls = type(item)
    values: Mapping[str, Any]
    if cls in _TRUSTED_CLASSES:
        values = {name: item.__dict__[name] for name in cls.own_fields}
    else:
        values = item.model_dump(mode="json", include=set(cls.own_fields))
    own = {name: checked_json(value, name) for name, value in values.items()}
    for name, value in (item.model_extra or {}).items():
        own[name] = checked_json(value, name)
    return own


def further_values(item: MemoryItem) -> dict[str, Any]:
    """Return everything that is not one of ``BASE_FIELDS``, as JSON; absent means the field's default."""
    further = own_values(item)
    if item.name is not None:
        further["name"] = item.name
    if item.archived_by is not None:
        further["archived_by"] = item.archived_by
    return further


def dump_metadata(metadata: MemoryMetadata) -> dict[str, Any]:
    """Return the metadata as a JSON object with all five fields."""
    return {
        "user_id": metadata.user_id,
        "session_id": metadata.session_id,
        "task_id": metadata.task_id,
        "agent_id": metadata.agent_id,
        "extra": checked_json(metadata.extra, "metadata.extra"),
    }


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
    """Build metadata from values that a store has checked before, without validating them again."""
    metadata: MemoryMetadata = _new(MemoryMetadata)
    _set_dict(metadata, fields)
    _set_fields_set(metadata, set())
    _set_extra(metadata, None)
    _set_private(metadata, None)
    return metadata


def bare_item(cls: type[ItemT], fields: dict[str, Any], further: dict[str, Any]) -> ItemT:
    """Build an item from all of its class's fields, without validating; ``further`` are those it does not know."""
    item: ItemT = _new(cls)
    _set_dict(item, fields)
    _set_fields_set(item, set())
    _set_extra(item, further)
    _set_private(item, None)
    return item


def make_item(
    base: dict[str, Any],
    further: dict[str, Any],
    types: Mapping[str, type[MemoryItem]] = BUILTIN_TYPES,
) -> MemoryItem:
    """Build an item from values that a store has checked before.

    ``base`` holds all of ``BASE_FIELDS`` with ``metadata`` as a MemoryMetadata; both dicts become the item's own. The
    types of this module are built directly, which is an order of magnitude faster than validation and is what makes
    reading as fast as the engine; a plugin's type is validated by its own class. Raises CorruptStoreError when the
    values cannot be an item.
    """
    cls = types.get(base["memory_type"], MemoryItem)
    try:
        if cls not in _TRUSTED_CLASSES:
            return cls(**base, **further)
        base["status"] = _STATUSES[base["status"]]
        if further:
            base["name"] = further.pop("name", None)
            base["archived_by"] = further.pop("archived_by", None)
        else:
            base["name"] = base["archived_by"] = None
        for name in cls.own_fields:
            base[name] = (
                further.pop(name) if name in further else cls.model_fields[name].get_default(call_default_factory=True)
            )
        return bare_item(cls, base, further)
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise CorruptStoreError(f"The stored item {base.get('id')!r} cannot be read as a memory item.") from error


def _copied(value: Any) -> Any:
    """Copy a JSON value; texts, numbers, true, false and null are immutable and can be shared."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is list:
        return [_copied(inner) for inner in value]
    if kind is dict:
        return {key: _copied(inner) for key, inner in value.items()}
    return checked_json(value, "value")  # Tuples, other mappings and classes of one's own become plain JSON.


def copy_item(item: ItemT) -> ItemT:
    """Return a copy that shares nothing mutable with the item."""
    cls = type(item)
    if cls not in _TRUSTED_CLASSES:
        return item.model_copy(deep=True)
    fields = item.__dict__.copy()
    metadata = fields["metadata"].__dict__
    extra = metadata["extra"]
    fields["metadata"] = make_metadata({**metadata, "extra": _copied(extra) if extra else {}})
    for name in cls.own_fields:
        fields[name] = _copied(fields[name])
    further = item.__pydantic_extra__
    return bare_item(cls, fields, _copied(further) if further else {})
