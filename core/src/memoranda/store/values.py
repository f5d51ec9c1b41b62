"""Conditions on values: what ``where={"score": {"$gte": 3}, "kind": "fact"}`` means, on every backend.

A key that is the name of an item's field, or of an id or the namespace of its metadata, is that field; every other key
is one of ``metadata.extra``, as it is written, dots included. ``extra.`` in front says so where both have the name. A
value is compared as JSON; a dict of operators asks for more, all of them together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from memoranda.errors import InputError, unknown_name
from memoranda.items import SCOPE_FIELDS, MemoryItem, utc_text
from memoranda.shapes import check_text, checked_json, each, truth
from memoranda.store.conditions import Condition, json_equal

MAX_CONDITIONS = 64
"""How many conditions on values a filter takes."""

MAX_CHOICES = 10_000
"""How many values ``$in`` takes."""

_TIMES = ("created_at", "updated_at", "expires_at")

ITEM_FIELDS = (
    *("id", "content", "memory_type", "status", *_TIMES, "version", "name", "archived_by"),
    *("tool_name", "tool_call_id", *SCOPE_FIELDS, "namespace"),
)
"""The fields that conditions on values know; what an item does not have of them is None."""

_EXTRA = "extra."
_MISSING: Any = object()


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Compare two numbers, or two texts by code points; nothing else has an order."""

    def passes(found: Any, wanted: Any) -> bool:
        numbers = _is_number(found) and _is_number(wanted)
        return (numbers or (isinstance(found, str) and isinstance(wanted, str))) and compare(found, wanted)

    return passes


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_among(found: Any, wanted: Sequence[Any]) -> bool:
    # What == finds nowhere is not among them, unless it has parts; of what it does find, 1 may have met true.
    maybe = isinstance(found, (list, tuple, dict)) or found in wanted
    return maybe and (isinstance(found, str) or any(json_equal(found, value) for value in wanted))


OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda found, wanted: found is not _MISSING and json_equal(found, wanted),
    "$ne": lambda found, wanted: found is _MISSING or not json_equal(found, wanted),
    "$gt": _ordered(lambda found, wanted: found > wanted),
    "$gte": _ordered(lambda found, wanted: found >= wanted),
    "$lt": _ordered(lambda found, wanted: found < wanted),
    "$lte": _ordered(lambda found, wanted: found <= wanted),
    "$in": lambda found, wanted: found is not _MISSING and _is_among(found, wanted),
    "$exists": lambda found, wanted: (found is not _MISSING) is wanted,
}
"""What each operator asks of a value that was found, which may be missing."""


@final
@dataclass(frozen=True, slots=True)
class Value(Condition):
    """A field of the item, or a key of ``metadata.extra``, passes an operator.

    What is not there is equal to nothing and different from everything. A field that an item has as None, and the root
    namespace, are there for ``$eq``, ``$ne`` and ``$in``, and are not there for ``$exists``.
    """

    name: str
    in_extra: bool
    operator: str
    value: Any

    def matches(self, item: MemoryItem) -> bool:
        return OPERATORS[self.operator](self._found(item), self.value)

    def test(self) -> Callable[[MemoryItem], bool]:
        name, value = self.name, self.value
        if self.in_extra or name == "namespace":
            return self.matches
        # Texts are compared as they are, which saves most of the time.
        in_metadata = name in SCOPE_FIELDS
        if self.operator in ("$eq", "$ne") and type(value) is str:
            equal = self.operator == "$eq"
            return lambda item: (getattr(item.metadata if in_metadata else item, name, None) == value) is equal
        if self.operator == "$in" and all(type(each) is str for each in value):
            among = frozenset(value)
            return lambda item: getattr(item.metadata if in_metadata else item, name, None) in among
        return self.matches

    def _found(self, item: MemoryItem) -> Any:
        if self.in_extra:
            return item.metadata.extra.get(self.name, _MISSING)
        if self.name == "namespace":
            found: Any = list(item.metadata.namespace) or None
            return [] if found is None and self.operator != "$exists" else _present(found, self.operator)
        holder = item.metadata if self.name in SCOPE_FIELDS else item
        return _present(getattr(holder, self.name, None), self.operator)

    @property
    def shape(self) -> Hashable:
        """Everything but the bound value and key of ``extra``; the value's type is included."""
        return Value, self.in_extra or self.name, self.operator, type(self.value)


NO_RECORDS = tuple(Value("memory_type", False, "$ne", kind) for kind in ("receipt", "revision"))
"""What holds for all but items that tell about others: these are part of no conversation and of no ranking's scope."""


def _present(found: Any, operator: str) -> Any:
    return _MISSING if found is None and operator == "$exists" else found


def value_conditions(where: Mapping[str, Any] | None) -> tuple[Value, ...]:
    """Return the checked conditions of a ``where``. Raises InputError, naming the key, for invalid ones."""
    if where is None:
        return ()
    if not isinstance(where, Mapping):
        raise InputError(f"where must be a dict, not {type(where).__name__}.", field="where")
    found = [condition for key, asked in where.items() for condition in _of_key(key, asked)]
    if len(found) > MAX_CONDITIONS:
        raise InputError(f"where has {len(found)} conditions; {MAX_CONDITIONS} are the most.", field="where")
    return tuple(found)


def _of_key(key: Any, asked: Any) -> Iterator[Value]:
    check_text(key, "where key")
    place = f"where[{key!r}]"
    in_extra = key.startswith(_EXTRA) or key not in ITEM_FIELDS
    name = key.removeprefix(_EXTRA)
    if not (isinstance(asked, Mapping) and any(isinstance(inner, str) and inner.startswith("$") for inner in asked)):
        yield Value(name, in_extra, "$eq", _checked(name, in_extra, asked, place))
        return
    for operator, value in asked.items():
        if operator not in OPERATORS:
            raise unknown_name(f"operator in {place}", operator, OPERATORS, field=place)
        yield Value(name, in_extra, operator, _operand(name, in_extra, operator, value, place))


def _operand(name: str, in_extra: bool, operator: str, value: Any, place: str) -> Any:
    place = f"{place}[{operator!r}]"
    if operator == "$exists":
        return truth(value, place)
    if operator == "$in":
        choices = each(value, place, "values")
        if len(choices) > MAX_CHOICES:
            raise InputError(f"{place} has {len(choices)} values; {MAX_CHOICES} are the most.", field=place)
        return [_checked(name, in_extra, choice, place) for choice in choices]
    value = _checked(name, in_extra, value, place)
    if operator not in ("$eq", "$ne") and not _is_number(value) and not isinstance(value, str):
        raise InputError(f"{place} needs a number or a text: nothing else has an order.", field=place)
    return value


def _checked(name: str, in_extra: bool, value: Any, place: str) -> Any:
    if not in_extra and name in _TIMES and value is not None:
        return moment_text(value, place)
    return checked_json(value, place)


def moment_text(moment: Any, place: str) -> str:
    """Return a time as items carry it: an aware datetime, or ISO-8601 text. Raises InputError for anything else."""
    if getattr(moment, "utcoffset", None) is not None and moment.utcoffset() is None:
        raise InputError(f"{place} is a datetime without a zone; give it one, such as datetime.UTC.", field=place)
    try:
        return utc_text(moment)
    except ValueError as error:
        raise InputError(f"{place}: {error}.", field=place) from None
