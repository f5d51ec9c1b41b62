"""What can be stored at all: the one check that every store makes before it adds.

What JSON cannot hold, NUL characters and lone surrogates are refused here, by the name of the field, so that no two
engines differ in what they take.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from types import NoneType
from typing import Any, NamedTuple

from memoranda.errors import InputError
from memoranda.items import METADATA_FIELDS, SCOPE_FIELDS, MemoryItem, MemoryMetadata, MemoryStatus, utc_text
from memoranda.shapes import check_text, checked_json
from memoranda.store.fields import TRUSTED, ItemFields, fields_of
from memoranda.store.namespaces import namespace_key

MAX_KEY_BYTES = 1000
"""The most bytes that an id may have, an item's or its owner's: two of them fit into an entry of any engine's index."""

_SURELY_SHORT = MAX_KEY_BYTES // 4

_scope_of = itemgetter(*SCOPE_FIELDS)


def check_key(text: str, field: str) -> str:
    """Return an id, or raise InputError if it is no text for an index: see :func:`check_text`, and not too long."""
    check_text(text, field)
    if len(text) * 4 > MAX_KEY_BYTES and len(text.encode()) > MAX_KEY_BYTES:
        raise InputError(f"{field} is longer than {MAX_KEY_BYTES} bytes, which not every index can hold.", field=field)
    return text


def check_metadata(metadata: MemoryMetadata, field: str = "metadata") -> None:
    """Raise InputError if the metadata holds what no store can hold."""
    for name in SCOPE_FIELDS:
        text = getattr(metadata, name)
        if text is not None:
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
    """What the texts of a class's items are taken with, where they have no further fields but texts and lists."""

    texts: Callable[[Any], tuple[Any, ...]]
    texts_or_none: tuple[str, ...]
    lists: tuple[str, ...]
    seldom: tuple[str, ...]
    """Fields that are None in most items; one that is not is looked at closely."""


def _glance(fields: ItemFields) -> _Glance | None:
    texts = [name for name, kinds in fields.kinds.items() if kinds == {str}]
    optional = [name for name, kinds in fields.kinds.items() if kinds == {str, NoneType}]
    lists = [name for name, kinds in fields.kinds.items() if kinds == {list}]
    seldom = [name for name, kinds in fields.kinds.items() if NoneType in kinds and name not in optional]
    optional.remove("expires_at")
    seldom.append("expires_at")
    if {*texts, *optional, *lists, *seldom} != {*fields.names}:
        return None
    return _Glance(itemgetter("id", "memory_type", *texts), tuple(optional), tuple(lists), tuple(seldom))


_GLANCES = {cls: glance for cls, fields in TRUSTED.items() if (glance := _glance(fields)) is not None}


def _needs_no_closer_look(item: MemoryItem) -> bool:
    """Whether the item is like most: sound, of a type of this package, in plain ASCII, without anything nested.

    One look at all of its text together is several times faster than one at each field.
    """
    glance = _GLANCES.get(type(item))
    if glance is None or item.__pydantic_extra__:
        return False
    fields = item.__dict__
    try:
        scope = fields["metadata"].__dict__
        if (
            scope["extra"] != {}
            or scope["namespace"] != ()
            or (glance.lists and any(fields[name] != [] for name in glance.lists))
        ):
            return False
        if any(fields[name] is not None for name in glance.seldom):
            return False
        content, created, updated = fields["content"], fields["created_at"], fields["updated_at"]
        others = [fields[name] for name in glance.texts_or_none]
        others += _scope_of(scope)
        together = "".join([content, *glance.texts(fields), *[text for text in others if text is not None]])
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
