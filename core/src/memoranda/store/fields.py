"""The fields of an item class, for everything that writes, reads or copies items.

Eight fields have a place of their own in every backend. All others travel together as one JSON object, whichever class
they belong to, so that a field which is added to a class is stored, read, copied and checked without any other
change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import PlainSerializer, WrapSerializer
from pydantic.fields import FieldInfo

from memoranda.errors import InputError
from memoranda.items import BUILTIN_TYPES, MemoryItem
from memoranda.shapes import checked_json

BASE_FIELDS = ("id", "content", "memory_type", "status", "metadata", "created_at", "updated_at", "version")
"""The fields that every item has under the same name in every backend; all others travel together."""

_ATOMS: frozenset[type] = frozenset({str, int, float, bool, NoneType})
_NESTED: frozenset[type] = frozenset({list, dict})
_JSON = _ATOMS | _NESTED
_SERIALIZERS: frozenset[type] = frozenset({PlainSerializer, WrapSerializer})


class ItemFields:
    """What items of one class hold beyond ``BASE_FIELDS``, worked out once from the model.

    ``names`` are those fields. The class is ``plain`` if the values of all of them are what JSON gives back, so that
    items can be built without validation; a field that is a time, an enumeration or a model of its own is not.
    """

    def __init__(self, cls: type[MemoryItem]) -> None:
        model = {name: field for name, field in cls.model_fields.items() if name not in BASE_FIELDS}
        kinds = {name: json_kinds(field.annotation) for name, field in model.items()}
        self.names = tuple(model)
        self.plain = None not in kinds.values()
        self.kinds = {name: found for name, found in kinds.items() if found is not None}
        """The types of a plain field's values, whatever is inside them."""
        self.nested = tuple(name for name in model if not self.kinds.get(name, _NESTED) <= _ATOMS)
        """The fields whose values can be changed in place."""
        self.defaults = tuple((name, _default(field)) for name, field in model.items())
        # Most defaults can be shared by all items; only the others are made for each.
        self._shared = {name: None if _is_made(field) else field.default for name, field in model.items()}
        self.blank: dict[str, Any] = {**dict.fromkeys(BASE_FIELDS), **self._shared}
        """All fields of an item in their order, to be copied; a copy takes a third of the time of putting them in."""
        self._made = tuple((name, default) for name, default in self.defaults if _is_made(model[name]))
        # None is left out of fields that all items have, as most have none. Any other value is written, the default
        # too: a later release may have another one.
        common = [name for name in MemoryItem.model_fields if name in model]
        self._left_out = frozenset(name for name in common if model[name].default is None)
        self._dumped = {name for name in model if name not in self.kinds} | _serialised_otherwise(cls).intersection(
            model
        )
        self._direct = tuple((name, name in self._left_out) for name in model if name not in self._dumped)

    def values(self, item: MemoryItem, *, checked: bool = False) -> dict[str, Any]:
        """Return a checked JSON copy of these fields and of those that the class does not know.

        Absent means None, or the default. Raises InputError, naming the field, for what JSON cannot hold. The values of
        an item that was ``checked`` before are returned as it holds them.
        """
        held, further = item.__dict__, {}
        for name, left_out in self._direct:
            value = held[name]
            if value is not None or not left_out:
                further[name] = value
        if self._dumped:
            dumped = _dumped(item, self._dumped)
            further |= {name: dumped[name] for name in dumped if dumped[name] is not None or name not in self._left_out}
        if item.__pydantic_extra__:
            further.update(item.__pydantic_extra__)
        return further if checked else {name: checked_json(value, name) for name, value in further.items()}

    def fill(self, fields: dict[str, Any], further: dict[str, Any]) -> None:
        """Add all further fields to ``fields``, which holds the base fields: see :meth:`take`."""
        fields.update(self._shared)  # All of them, in their order; what is different is put in its place.
        self.take(fields, further)

    def take(self, fields: dict[str, Any], further: dict[str, Any]) -> None:
        """Move the values of these fields from ``further``, where it has them, to ``fields``; else take the default.

        Raises TypeError for a value that no such field could have.
        """
        for name, default in self._made:
            if name not in further:
                fields[name] = default()
        if further:
            kinds, taken = self.kinds, 0
            for name, value in further.items():
                if name in kinds:
                    if type(value) not in kinds[name]:
                        raise TypeError(f"{name} is of the wrong type")
                    fields[name] = value
                    taken += 1
            if taken == len(further):
                further.clear()  # Nearly always there is nothing that the class does not know.
            elif taken:
                for name in [name for name in further if name in kinds]:
                    del further[name]

    def sound(self, held: Mapping[str, Any]) -> bool:
        """Return True if each plain field has a value of its type."""
        return all(type(held[name]) in kinds for name, kinds in self.kinds.items())


@cache
def fields_of(cls: type[MemoryItem]) -> ItemFields:
    """Return what items of a class hold beyond ``BASE_FIELDS``."""
    return ItemFields(cls)


def _serialised_otherwise(cls: type[MemoryItem]) -> set[str]:
    """Return the fields whose values a class writes in a way of its own, or not at all."""
    fields, decorators = cls.model_fields, cls.__pydantic_decorators__
    found = {name for each in decorators.field_serializers.values() for name in each.info.fields}
    if decorators.model_serializers or "*" in found:
        return {*fields}
    return found | {
        name
        for name, field in fields.items()
        if field.exclude or not _SERIALIZERS.isdisjoint(map(type, field.metadata))
    }


def _dumped(item: MemoryItem, names: set[str]) -> dict[str, Any]:
    """Return fields as pydantic writes them. Raises InputError, naming the field, for what it cannot."""
    try:
        return item.model_dump(mode="json", include=names)
    except ValueError:
        if len(names) > 1:
            return {name: value for each in sorted(names) for name, value in _dumped(item, {each}).items()}
        (name,) = names
        raise InputError(f"{name} has a value that cannot be written as JSON.", field=name) from None


def json_kinds(annotation: Any) -> frozenset[type] | None:
    """Return the types of a field's values if JSON preserves all of them; otherwise None."""
    origin, inner = get_origin(annotation) or annotation, get_args(annotation)
    if origin is Any:
        return _JSON
    if origin is None or origin is NoneType:
        return frozenset({NoneType})
    if origin in (Union, UnionType):
        return _all_of(map(json_kinds, inner))
    if origin is Literal:
        return _all_of(map(json_kinds, map(type, inner)))
    if origin is float:
        return frozenset({float, int})
    if origin in _NESTED:
        if origin is dict and inner and inner[0] is not str:
            return None
        return None if any(json_kinds(each) is None for each in inner) else _NESTED & {origin}
    return _ATOMS & {origin} or None


def _all_of(kinds: Iterable[frozenset[type] | None]) -> frozenset[type] | None:
    found: frozenset[type] = frozenset()
    for each in kinds:
        if each is None:
            return None
        found |= each
    return found


def _is_made(field: FieldInfo) -> bool:
    """Return True if the field has a default factory or no default."""
    return field.is_required() or field.default_factory is not None or type(field.default) not in _ATOMS


def _default(field: FieldInfo) -> Callable[[], Any]:
    """Return what makes a field's default."""
    if field.is_required():
        return _missing
    if field.default_factory is list or field.default_factory is dict:
        return field.default_factory  # pydantic's own way to it takes a hundred times as long.
    if field.default_factory is None:
        value = field.default
        if type(value) in _ATOMS:
            return lambda: value
    return lambda: field.get_default(call_default_factory=True)


def _missing() -> Any:
    raise TypeError("a field without a default is missing")


_BUILTIN: tuple[type[MemoryItem], ...] = (MemoryItem, *BUILTIN_TYPES.values())

TRUSTED: dict[type[MemoryItem], ItemFields] = {cls: fields_of(cls) for cls in _BUILTIN if fields_of(cls).plain}
"""The classes of this package whose items are built from what was checked when it was stored, without validation."""
