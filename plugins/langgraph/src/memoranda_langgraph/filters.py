"""What a filter of LangGraph asks for: most of it is the store's own ``where``, the rest is asked of each value.

The operators are ``$eq``, ``$ne``, ``$gt``, ``$gte``, ``$lt`` and ``$lte``; a value beside them is compared as it is,
and a dict as a part of the one that is found. A key with a dot that no value has as it is leads into nested ones.
Numbers are compared with numbers and texts with texts. What is missing is null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import ge, gt, le, lt
from typing import Any

from memoranda.errors import InputError
from memoranda.shapes import checked_json
from memoranda.store.backend import json_equal

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}

_MOST_PUSHED = 64
"""How many conditions are handed to the store, which takes no more."""


@dataclass
class Asked:
    """A filter in two parts."""

    where: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What the store looks for."""

    rest: dict[str, Any] = field(default_factory=dict)
    """What is asked of each value that the store found."""

    @classmethod
    def of(cls, wanted: Mapping[str, Any] | None) -> Asked:
        """Return the parts of a filter. Raises ValueError for an operator that does not exist."""
        asked = cls()
        pushed = 0
        for key, condition in (wanted or {}).items():
            check_operators(condition)
            operators = condition if is_operators(condition) else {"$eq": condition}
            pushed += len(operators)
            if pushed <= _MOST_PUSHED and is_pushable(key, operators):
                asked.where[f"extra.{key}"] = dict(operators)
            else:
                asked.rest[key] = condition
        return asked

    def passes(self, value: Mapping[str, Any]) -> bool:
        """Whether a value that the store found passes what is left to ask."""
        return all(compares(found_at(value, key), condition) for key, condition in self.rest.items())


def is_operators(condition: Any) -> bool:
    """Whether a condition is made of operators rather than a value to be equal to."""
    return isinstance(condition, Mapping) and any(str(key).startswith("$") for key in condition)


def check_operators(condition: Any) -> None:
    """Raise ValueError for an operator that does not exist."""
    if not isinstance(condition, Mapping):
        return
    for key, inner in condition.items():
        if not is_operators(condition):
            check_operators(inner)
        elif key not in ("$eq", "$ne") and key not in _ORDERS:
            raise InputError(f"Unsupported operator: {str(key)[:20]!r}. There are $eq, $ne, {', '.join(_ORDERS)}.")


def is_pushable(key: str, operators: Mapping[str, Any]) -> bool:
    """Whether the store's own conditions mean the same."""
    if not isinstance(key, str) or "." in key:
        return False  # It may lead into a nested value.
    return all(_is_plain(operator, operand) for operator, operand in operators.items())


def _is_plain(operator: str, operand: Any) -> bool:
    if operand is None or _has_dict(operand):
        return False  # Null stands for a missing key too, and a dict for a part of one.
    if operator in _ORDERS and not isinstance(operand, str) and not _is_number(operand):
        return False
    try:
        checked_json(operand, "filter")
    except InputError:
        return False  # No value that is stored is equal to it, but numbers have an order beside infinity.
    return True


def _has_dict(operand: Any) -> bool:
    if isinstance(operand, (list, tuple)):
        return any(_has_dict(inner) for inner in operand)
    return isinstance(operand, Mapping)


def found_at(value: Mapping[str, Any], key: str) -> Any:
    """Return what a key names: the key as it is, or else the nested value that its dots lead to; None for nothing."""
    if key in value or not isinstance(key, str) or "." not in key:
        return value.get(key)
    found: Any = value
    for part in key.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found


def compares(found: Any, condition: Any) -> bool:
    """Whether what was found passes a condition."""
    if is_operators(condition):
        return all(_operator(found, operator, operand) for operator, operand in condition.items())
    if isinstance(condition, Mapping):
        return isinstance(found, Mapping) and all(compares(found.get(key), inner) for key, inner in condition.items())
    if isinstance(condition, (list, tuple)):
        return (
            isinstance(found, (list, tuple)) and len(found) == len(condition) and all(map(compares, found, condition))
        )
    return json_equal(found, condition)


def _operator(found: Any, operator: str, operand: Any) -> bool:
    if operator in _ORDERS:
        alike = (_is_number(found) and _is_number(operand)) or (isinstance(found, str) and isinstance(operand, str))
        return alike and _ORDERS[operator](found, operand)
    return json_equal(found, operand) is (operator == "$eq")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
