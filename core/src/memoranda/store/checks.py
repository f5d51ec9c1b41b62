"""Check that an item can be stored, as every store does before it adds.

What JSON cannot hold, NUL characters and lone surrogates are refused here, by the name of the field, so that no two
engines differ in what they take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from operator import itemgetter
from types import NoneType
from typing import Any, NamedTuple

from memoranda.errors import InputError
from memoranda.items import METADATA_FIELDS, SCOPE_FIELDS, MemoryItem, MemoryMetadata, MemoryStatus, ids_of, utc_text
from memoranda.shapes import check_text, checked_json
from memoranda.store.fields import TRUSTED, fields_of
from memoranda.store.owners import namespace_key

MAX_KEY_BYTES = 1000
"""The most bytes that an id may have, an item's or its owner's: two of them fit into an entry of any engine's index."""

_SURELY_SHORT = MAX_KEY_BYTES // 4
_NESTED_AT_A_GLANCE = 8
_SMALL = 2**53


def check_key(text: str, field: str) -> str:
    """Return an id, or raise InputError if :func:`check_text` refuses it or it is too long for an index."""
    check_text(text, field)
    if len(text) * 4 > MAX_KEY_BYTES and len(text.encode()) > MAX_KEY_BYTES:
        raise InputError(f"{field} is longer than {MAX_KEY_BYTES} bytes, which not every index can hold.", field=field)
    return text


def check_metadata(metadata: MemoryMetadata, field: str = "metadata") -> None:
    """Raise InputError if the metadata holds what no store can hold."""
    held = metadata.__dict__
    for name in SCOPE_FIELDS:
        text = held[name]
        if text is None or (type(text) is str and text.isascii() and "\0" not in text and len(text) <= _SURELY_SHORT):
            continue
        check_key(text, f"{field}.{name}")
    if metadata.namespace:
        for element in metadata.namespace:
            check_text(element, f"{field}.namespace")
        check_key(namespace_key(metadata.namespace), f"{field}.namespace")
    if not isinstance(metadata.extra, dict):
        raise InputError(f"{field}.extra must be a dict, not {type(metadata.extra).__name__}.", field=f"{field}.extra")
    if metadata.extra:
        checked_json(metadata.extra, f"{field}.extra")


def validated(item: MemoryItem) -> MemoryItem:
    """Return the item, validated again if pydantic was bypassed, as with ``model_copy(update=…)``.

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
            and (item.expires_at is None or utc_text(item.expires_at) == item.expires_at)
            and type(item.metadata.namespace) is tuple
            and fields_of(type(item)).sound(values)
            and METADATA_FIELDS.isdisjoint(item.__pydantic_extra__ or ())
        )
    except (AttributeError, KeyError, ValueError):
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
    fields_of(type(item)).values(item)


def storable(item: MemoryItem) -> MemoryItem:
    """Return the item as a store may take it: :func:`validated`, and passed by :func:`check_item`."""
    if _needs_no_closer_look(item):
        return item
    item = validated(item)
    check_item(item)
    return item


class _Glance(NamedTuple):
    """Extracts the fields of a class whose values are only texts, flags, lists and None."""

    texts: Callable[[Any], tuple[Any, ...]]
    optional: Callable[[Any], tuple[Any, ...]]
    """Takes the fields that are None in most items."""
    nothing: tuple[None, ...]
    seldom: tuple[str, ...]
    """Those of them that are looked at closely where they are not."""
    others: tuple[tuple[str, type], ...]


_LOOKED_AT_ALONE = ("payload", "group_size")
"""The fields that may be None, and are looked at without the others: a text of any length, and a number."""


@cache
def _glance_of(cls: type[MemoryItem]) -> _Glance | None:
    """Return how to check items of a class quickly; None if each needs a full check."""
    fields = TRUSTED.get(cls)
    if fields is None:
        return None
    texts = [name for name, kinds in fields.kinds.items() if kinds == {str}]
    others = [(name, kind) for name, kinds in fields.kinds.items() for kind in (bool, list) if kinds == {kind}]
    optional = [name for name, kinds in fields.kinds.items() if NoneType in kinds and name not in _LOOKED_AT_ALONE]
    if {*texts, *optional, *dict(others), *_LOOKED_AT_ALONE} != {*fields.names}:
        return None
    return _Glance(
        itemgetter("id", "memory_type", *texts),
        itemgetter(*optional),
        (None,) * len(optional),
        tuple([name for name in optional if fields.kinds[name] != {str, NoneType} or name == "expires_at"]),
        tuple(others),
    )


def _needs_no_closer_look(item: MemoryItem) -> bool:
    """Return True if the item is valid, of a trusted type and in plain ASCII, as most are.

    One look at all of its text together is several times faster than one at each field.
    """
    glance = _glance_of(type(item))
    if glance is None:
        return False
    fields, further = item.__dict__, item.__pydantic_extra__
    if further and not (METADATA_FIELDS.isdisjoint(further) and _is_plain(further, _NESTED_AT_A_GLANCE)):
        return False
    texts_of, optional_of, nothing, seldom, others = glance
    try:
        owner = fields["metadata"].__dict__
        if (owner["namespace"] != () or owner["extra"] != {}) and not _is_plain_beside_ids(owner):
            return False
        texts = [*[text for text in ids_of(owner) if text is not None], *owner["namespace"]]
        texts += texts_of(fields)
        optional = optional_of(fields)
        if optional != nothing:
            if [name for name in seldom if fields[name] is not None]:
                return False
            texts += [text for text in optional if text is not None]
        for name, kind in others:
            value = fields[name]
            if type(value) is not kind or (value and kind is list and not _is_plain(value, _NESTED_AT_A_GLANCE)):
                return False
        payload, size = fields["payload"], fields["group_size"]
        if payload is not None and not (type(payload) is str and _is_plain(payload, 0)):
            return False
        if size is not None and not (type(size) is int and _is_plain(size, 0)):
            return False
        short = "".join(texts)  # What is no text is a TypeError.
        content, created, updated = fields["content"], fields["created_at"], fields["updated_at"]
        return (
            len(short) <= _SURELY_SHORT
            and short.isascii()
            and "\0" not in short
            and isinstance(content, str)
            and content.isascii()
            and "\0" not in content
            and type(fields["status"]) is MemoryStatus
            and type(fields["version"]) is int
            and fields["version"] >= 0
            and utc_text(created) == created
            and (updated == created or utc_text(updated) == updated)
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


def _is_plain_beside_ids(owner: Mapping[str, Any]) -> bool:
    """Return True if the namespace and ``extra`` need no closer look, but for the texts of the namespace."""
    place, extra = owner["namespace"], owner["extra"]
    # The key of a namespace has one character more for each element, and at most twice as many as the texts.
    is_short = type(place) is tuple and len(place) <= _SURELY_SHORT
    return is_short and type(extra) is dict and _is_plain(extra, _NESTED_AT_A_GLANCE)


def _is_plain(value: Any, depth: int) -> bool:
    """Return True if a JSON value has only built-in types, ASCII text and small numbers, and is not deeply nested."""
    kind = type(value)
    if kind is str:
        return bool(value.isascii()) and "\0" not in value
    if kind is bool or value is None:
        return True
    if kind is int:
        return bool(-_SMALL < value < _SMALL)
    if not depth or kind not in (dict, list):
        return False
    if kind is dict:
        for key in value:
            if type(key) is not str or not key.isascii() or "\0" in key:
                return False
        value = value.values()
    for inner in value:  # noqa: SIM110 - a generator would take longer than the checks
        if not _is_plain(inner, depth - 1):
            return False
    return True
