"""Conditions on values, as SQLite evaluates them: natively, or by a call to Python where that is not exact.

A call costs several times as much as SQLite's own functions, which decide for columns, and for texts, whole numbers and
booleans under a plain key of the JSON.

Each means exactly what :meth:`memoranda.store.backend.Value.matches` means. The names of columns come from a closed
list; keys and values are bound.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from memoranda.shapes import json_text
from memoranda.store import namespace_key
from memoranda.store.backend import ONLY_STAYING, OPERATORS, Condition, Value
from memoranda_backend.sql import ITEM_COLUMNS, Parameters
from memoranda_sqlite.tables import FURTHER_COLUMNS, LATEST, OLDEST, STAYING, microseconds

_TEXT_COLUMNS = frozenset({*ITEM_COLUMNS, *FURTHER_COLUMNS} - {"metadata", "extra_json", "version", "namespace"})
_COMPARED = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_LARGEST = 2**63 - 1


def is_staying(condition: Condition) -> bool:
    """Return True if a condition asks for system items and summaries, as every window does."""
    return condition == ONLY_STAYING


def value_text(parameters: Parameters, condition: Value) -> str:
    """Return the text of a condition."""
    if is_staying(condition):
        return STAYING
    if condition.in_extra:
        return _of_json(parameters, condition)
    if condition.name == "namespace":
        return _of_column("namespace", parameters, condition.operator, _keys(condition))
    if condition.name == "version":
        return _of_version(parameters, condition)
    if condition.name == "created_at" and condition.operator in _COMPARED:
        return _of_creation(parameters, condition)
    if condition.name in _TEXT_COLUMNS:
        return _of_column(condition.name, parameters, condition.operator, condition.value)
    return _called("memoranda_field", "extra_json", parameters, condition)


_PLAIN_KEY = re.compile(r"[A-Za-z0-9_ -]+")
_SIGNS = {"$eq": "=", **_COMPARED}
_NATIVE: dict[type, frozenset[str]] = {
    bool: frozenset({"$eq"}),
    **dict.fromkeys((str, int, float), frozenset(_SIGNS)),
}
_EXACT = 2**53

GUARD = "json_valid(metadata)"
"""Guards every access to the metadata: one unreadable row must not make a statement fail."""

_MARGIN = 1e-9


def _of_json(parameters: Parameters, condition: Value) -> str:
    """Return the condition on a key of ``metadata.extra``.

    The text must not depend on the key and the value, so a key that is not plain is bound as NULL.
    """
    wanted = condition.value
    if type(wanted) not in _NATIVE or condition.operator not in _NATIVE[type(wanted)]:
        return _called("memoranda_extra", "metadata", parameters, condition)
    plain = _PLAIN_KEY.fullmatch(condition.name) and (isinstance(wanted, str) or abs(wanted) < _EXACT)
    path = f"$.extra.{condition.name}" if plain else None
    text = f"CASE WHEN {parameters.add(path)} IS NULL THEN "
    text += _called("memoranda_extra", "metadata", parameters, condition)
    # The condition that few rows pass comes after WHEN, where SQLite skips the rest of an AND; after THEN it would not.
    text += f" WHEN {GUARD} "
    if type(wanted) is bool:
        return f"{text}THEN {_kind(parameters, path)} = {parameters.add(json_text(wanted))} END"
    if type(wanted) is str:
        return f"{text}AND {_compared(parameters, path, condition)} THEN {_kind(parameters, path)} = 'text' END"
    text += f"AND {_nearly(parameters, path, condition)} THEN CASE {_kind(parameters, path)} "
    text += f"WHEN 'integer' THEN {_compared(parameters, path, condition)} "
    return f"{text}WHEN 'real' THEN {_called('memoranda_extra', 'metadata', parameters, condition)} END END"


def _kind(parameters: Parameters, path: str | None) -> str:
    return f"json_type(metadata, {parameters.add(path)})"


def _found(parameters: Parameters, path: str | None) -> str:
    return f"json_extract(metadata, {parameters.add(path)})"


def _compared(parameters: Parameters, path: str | None, condition: Value) -> str:
    wanted = None if path is None else condition.value
    return f"{_found(parameters, path)} {_SIGNS[condition.operator]} {parameters.add(wanted)}"


def _nearly(parameters: Parameters, path: str | None, condition: Value) -> str:
    """Return a slightly wider condition; only numbers that pass it are checked by the real one.

    SQLite may read a fraction wrong in its last digit, so Python decides for each.
    """
    wanted = 0 if path is None else condition.value
    margin = _MARGIN * (1 + abs(wanted))
    found = _found(parameters, path)
    if condition.operator == "$eq":
        return f"{found} BETWEEN {parameters.add(wanted - margin)} AND {parameters.add(wanted + margin)}"
    if condition.operator in ("$gt", "$gte"):
        return f"{found} >= {parameters.add(wanted - margin)}"
    return f"{found} <= {parameters.add(wanted + margin)}"


def _called(function: str, column: str, parameters: Parameters, condition: Value) -> str:
    # As bytes: the driver fails the whole statement for text that is not Unicode.
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


def _of_creation(parameters: Parameters, condition: Value) -> str:
    """Return the condition on the text of the time, with a bound on its number, which indexes have."""
    later = condition.operator in ("$gt", "$gte")
    try:
        bound = microseconds(condition.value)
    except (ValueError, AttributeError, TypeError):
        bound = OLDEST if later else LATEST  # It is no time, and only compares as text.
    bounded = f"created_us {'>=' if later else '<='} {parameters.add(bound)}"
    return f"({bounded} AND {_of_column('created_at', parameters, condition.operator, condition.value)})"


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
    """Return the condition's value with namespaces as the column has them; any other value equals none."""
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
    """Return True if a key of ``metadata.extra`` passes an operator; unreadable metadata passes none."""
    try:
        extra = json.loads(metadata.decode()).get("extra") or {}
        return _passes(operator, wanted, *((extra[key],) if key in extra else ()))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return False


def field_passes(extra_json: Any, name: str, operator: str, wanted: str) -> bool:
    """Return True if a field without a column passes an operator; an item without the field has None."""
    try:
        found = json.loads(extra_json.decode()).get(name)
        return _passes(operator, wanted, *(() if found is None and operator == "$exists" else (found,)))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return False


def _passes(operator: str, wanted: str, *found: Any) -> bool:
    value = _parsed(wanted)
    if found:
        return OPERATORS[operator](found[0], value)
    # A missing value differs from every other, and only passes $ne and $exists: false.
    return operator == "$ne" or (operator == "$exists" and value is False)


@lru_cache(maxsize=64)
def _parsed(wanted: str) -> Any:
    """Return a bound value, parsed once for all rows of a statement."""
    return json.loads(wanted)
