"""Conditions on values in SQL, equal to ``Value.matches`` for every operator and type.

Values are compared as JSONB, which compares numbers by value, ignores the order of keys, and never takes a boolean for
a number. Texts are ordered by their bytes, which is the order of code points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memoranda.items import SCOPE_FIELDS
from memoranda.shapes import json_text
from memoranda.store.backend import Value
from memoranda_backend.sql import Parameters
from memoranda_postgres.rows import jsonb_text, moment_of

ByIds = Callable[[str], str]
"""Returns the condition that finds the rows of an array of ids, given its placeholder."""

UPDATED = "coalesce(updated_at, created_at)"
"""When an item was changed. The column is NULL if it was not changed since it was created."""

_MADE = {"updated_at": UPDATED, "expires_at": "nullif(expires_at, '')"}

_TEXT_COLUMNS = frozenset(
    ("id", "content", "memory_type", "status", "created_at", "updated_at", "expires_at", *SCOPE_FIELDS)
)
_ORDER = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


def value_condition(by_ids: ByIds, parameters: Parameters, condition: Value) -> str:
    """Return the condition. Names of fields are part of the text; keys of ``extra`` and values are bound."""
    if condition.in_extra:
        return _of_json(parameters, condition, f"metadata -> 'extra' -> {parameters.add(condition.name)}::text")
    if condition.name in _TEXT_COLUMNS:
        return _of_text(by_ids, parameters, condition)
    if condition.name == "namespace":
        return _of_namespace(parameters, condition)
    if condition.name == "version":
        return _of_json(parameters, condition, "to_jsonb(version)")
    return _of_field(parameters, condition)


def _of_json(parameters: Parameters, condition: Value, found: str) -> str:
    """Compare an expression that is NULL where the value is missing."""
    operator, value = condition.operator, condition.value
    if operator == "$exists":
        return f"({found}) IS {'NOT ' if value else ''}NULL"
    if operator == "$in":
        return f"({found}) = ANY({parameters.add([_json(choice) for choice in value])}::jsonb[])"
    if operator in _ORDER:
        return _ordered(parameters, found, operator, value)
    wanted = f"{parameters.add(_json(value))}::jsonb"
    return f"({found}) {'=' if operator == '$eq' else 'IS DISTINCT FROM'} {wanted}"


def _ordered(parameters: Parameters, found: str, operator: str, value: Any) -> str:
    if isinstance(value, str):
        text = f"({found} #>> '{{}}') COLLATE \"C\""
        return f"(jsonb_typeof({found}) = 'string' AND {text} {_ORDER[operator]} {parameters.add(value)}::text)"
    wanted = f"{parameters.add(_json(value))}::jsonb"
    return f"(jsonb_typeof({found}) = 'number' AND ({found}) {_ORDER[operator]} {wanted})"


def _of_field(parameters: Parameters, condition: Value) -> str:
    """Compare a field of ``extra_json``, where None is left out or null.

    Only rows whose text contains the name are parsed.
    """
    name = condition.name
    found = f"CASE WHEN extra_json LIKE '{{%\"{name}\"%' THEN nullif(extra_json::jsonb -> '{name}', 'null'::jsonb) END"
    if condition.operator in ("$eq", "$ne") and condition.value is None:
        return f"({found}) IS {'NOT ' if condition.operator == '$ne' else ''}NULL"
    if condition.operator == "$in" and None in condition.value:
        return f"({_of_json(parameters, condition, found)} OR ({found}) IS NULL)"
    return _of_json(parameters, condition, found)


def _of_text(by_ids: ByIds, parameters: Parameters, condition: Value) -> str:
    """Compare a text column, in which NULL means None."""
    operator, value = condition.operator, condition.value
    column = _MADE.get(condition.name, condition.name)
    if operator == "$exists" or (value is None and operator in ("$eq", "$ne")):
        there = value if operator == "$exists" else operator == "$ne"
        return f"{column} IS {'NOT ' if there else ''}NULL"
    if operator == "$in":
        return _among(by_ids, parameters, column, value)
    if not isinstance(value, str):
        return "true" if operator == "$ne" else "false"
    wanted = f"{parameters.add(value)}::text"
    if column == "created_at" and operator in _ORDER and moment_of(value) == value:
        return f"moment {_ORDER[operator]} {wanted}::timestamp"
    if operator in _ORDER:
        return f'{column} COLLATE "C" {_ORDER[operator]} {wanted}'
    return f"{column} {'=' if operator == '$eq' else 'IS DISTINCT FROM'} {wanted}"


def _among(by_ids: ByIds, parameters: Parameters, column: str, choices: list[Any]) -> str:
    texts = parameters.add([choice for choice in choices if isinstance(choice, str)])
    if column == "id":
        return by_ids(texts)
    found = f"{column} = ANY({texts}::text[])"
    return f"({found} OR {column} IS NULL)" if None in choices else found


def _of_namespace(parameters: Parameters, condition: Value) -> str:
    if condition.operator == "$exists":
        return "namespace > ''" if condition.value else "namespace = ''"
    if condition.operator in _ORDER:
        return "false"  # A list has no order.
    return _of_json(parameters, condition, "coalesce(metadata -> 'namespace', '[]'::jsonb)")


def _json(value: Any) -> str:
    return jsonb_text(json_text(value))
