"""Conditions on values, as SQLite evaluates them: on columns natively, on what lies in JSON by a call back to Python.

A call costs several times what SQLite's own functions do, so most rows are passed over by these first, where a number
or a text is asked for under a plain key.

Each means exactly what :meth:`memoranda.store.Value.matches` means. The names of columns come from a closed list; keys
and values are bound.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from memoranda.shapes import json_text
from memoranda.sql import ITEM_COLUMNS, Parameters
from memoranda.store import OPERATORS, Value, namespace_key
from memoranda_sqlite.columns import FURTHER_COLUMNS

_TEXT_COLUMNS = frozenset({*ITEM_COLUMNS, *FURTHER_COLUMNS} - {"metadata", "extra_json", "version", "namespace"})
_COMPARED = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_LARGEST = 2**63 - 1


def value_text(parameters: Parameters, condition: Value) -> str:
    """Return the text of a condition."""
    if condition.in_extra:
        return _unless_sure(parameters, condition) + _called("memoranda_extra", "metadata", parameters, condition)
    if condition.name == "namespace":
        return _of_column("namespace", parameters, condition.operator, _keys(condition))
    if condition.name == "version":
        return _of_version(parameters, condition)
    if condition.name in _TEXT_COLUMNS:
        return _of_column(condition.name, parameters, condition.operator, condition.value)
    return _called("memoranda_field", "extra_json", parameters, condition)


_SIGNS = {"$eq": "=", **_COMPARED}
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_ -]+")
_EXACT = 2**53


def _unless_sure(parameters: Parameters, condition: Value) -> str:
    """Return a condition that every row passes which passes the real one; it stands before it, or is empty.

    SQLite orders all texts behind all numbers, and knows true as 1: what passes for that is asked again. The text must
    not depend on the key and the value, so those that are not plain are bound as no path at all.
    """
    wanted = condition.value
    if condition.operator not in _SIGNS or isinstance(wanted, bool) or not isinstance(wanted, (str, int, float)):
        return ""
    plain = _PLAIN_KEY.fullmatch(condition.name) and (isinstance(wanted, str) or abs(wanted) < _EXACT)
    path = f'$.extra."{condition.name}"' if plain else None
    unknown = f"{parameters.add(path)} IS NULL"
    found = f"json_extract(metadata, {parameters.add(path)}) {_SIGNS[condition.operator]} "
    found += parameters.add(wanted if plain else None)
    # json_valid() guards it: one unreadable row must not make the whole statement fail.
    return f"({unknown} OR CASE WHEN json_valid(metadata) THEN {found} END) AND "


def _called(function: str, column: str, parameters: Parameters, condition: Value) -> str:
    # As bytes, since the driver fails the whole statement for text that is no Unicode.
    bound = (condition.name, condition.operator, json_text(condition.value))
    return f"{function}(CAST({column} AS BLOB), {', '.join(parameters.add(value) for value in bound)})"


def _of_column(column: str, parameters: Parameters, operator: str, wanted: Any) -> str:
    """Return the condition on a column of text or NULL, which is what such a field has; all else equals neither."""
    if operator == "$exists":
        return f"{column} IS {'NOT ' if wanted else ''}NULL"
    if operator in _COMPARED:
        return f"{column} {_COMPARED[operator]} {parameters.add(wanted)}" if isinstance(wanted, str) else "0"
    if operator == "$in":
        return _any_of(column, parameters, wanted)
    if wanted is None or isinstance(wanted, str):
        return f"{column} IS {'' if operator == '$eq' else 'NOT '}{parameters.add(wanted)}"
    return "0" if operator == "$eq" else "1"


def _any_of(column: str, parameters: Parameters, wanted: Sequence[Any]) -> str:
    texts = [choice for choice in wanted if isinstance(choice, str)]
    found = f"{column} IN (SELECT value FROM json_each({parameters.add(json_text(texts))}))"
    return f"({found} OR {column} IS NULL)" if any(choice is None for choice in wanted) else found


def _of_version(parameters: Parameters, condition: Value) -> str:
    operator, wanted = condition.operator, condition.value
    if operator == "$exists":
        return "1" if wanted else "0"
    if operator == "$in":
        numbers = [choice for choice in wanted if _is_small_number(choice)]
        return f"version IN (SELECT value FROM json_each({parameters.add(json_text(numbers))}))"
    if _is_small_number(wanted):
        sign = {"$eq": "=", "$ne": "<>", **_COMPARED}[operator]
        return f"version {sign} {parameters.add(wanted)}"
    # No version is that large: any other number of its sign would give the same answer.
    return "1" if OPERATORS[operator](1, wanted) else "0"


def _is_small_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _LARGEST


_NEVER = object()


def _keys(condition: Value) -> Any:
    """Return the condition's value with namespaces as the column has them; what is no namespace equals none."""
    if condition.operator == "$exists":
        return condition.value
    if condition.operator == "$in":
        return [_key(choice) for choice in condition.value]
    return _NEVER if condition.operator in _COMPARED else _key(condition.value)


def _key(wanted: Any) -> Any:
    if not isinstance(wanted, (list, tuple)) or not all(isinstance(element, str) for element in wanted):
        return _NEVER
    return namespace_key(wanted) or None


def extra_passes(metadata: Any, key: str, operator: str, wanted: str) -> bool:
    """Whether a key of ``metadata.extra`` passes an operator; unreadable metadata passes nothing."""
    try:
        extra = json.loads(metadata.decode()).get("extra") or {}
        return _passes(operator, wanted, *((extra[key],) if key in extra else ()))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return False


def field_passes(extra_json: Any, name: str, operator: str, wanted: str) -> bool:
    """Whether a field that is no column passes an operator; an item that does not have it has None."""
    try:
        found = json.loads(extra_json.decode()).get(name)
        return _passes(operator, wanted, *(() if found is None and operator == "$exists" else (found,)))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return False


def _passes(operator: str, wanted: str, *found: Any) -> bool:
    value = _parsed(wanted)
    if found:
        return OPERATORS[operator](found[0], value)
    # Nothing is there: it is different from everything, and passes nothing else but the question whether it is not.
    return operator == "$ne" or (operator == "$exists" and value is False)


@lru_cache(maxsize=64)
def _parsed(wanted: str) -> Any:
    """Return a value that was bound, which is the same for every row of a statement."""
    return json.loads(wanted)
