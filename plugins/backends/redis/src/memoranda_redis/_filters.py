"""Filters as scripts take them; conditions that a script cannot compare are left to Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memoranda.items import SCOPE_FIELDS, MemoryMetadata
from memoranda.store import namespace_key
from memoranda.store.backend import (
    Archived,
    Below,
    Condition,
    Contains,
    Created,
    Expiry,
    FieldEquals,
    Filter,
    InScope,
    OfUsers,
    Value,
)

ScriptFilter = dict[str, Any]
"""The conditions that a script compares, by name. Absent means any.

The names are the ids of a scope, ``place`` (a namespace's key), ``memory_type``, ``types`` (one of them), ``unlike``
(other types), ``status``, ``archived``, ``users`` (how owners begin whose items do not pass), ``folded`` (contained in
the content), ``since`` and ``before``, ``now`` with ``over`` (True for items that have expired by then), and
``missing`` (positions of ids that an item must not have).
"""


_LISTS = ("missing", "unlike")
"""The names whose conditions are all compared; of any other, a script compares one."""


def script_filter(wanted: Filter, *, content: bool = True) -> tuple[ScriptFilter, bool]:
    """Return a filter for a script, and True if it leaves conditions that only Python can compare.

    Without ``content`` the script does not compare the content.
    """
    asked: ScriptFilter = {}
    incomplete = False
    for condition in wanted.conditions:
        parts = dict(_parts(condition))
        differing = any(asked.get(name, part) != part for name, part in parts.items() if name not in _LISTS)
        if not parts or differing or ("folded" in parts and not content):
            incomplete = True
            continue
        asked |= {name: [*asked.get(name, []), *part] if name in _LISTS else part for name, part in parts.items()}
    return asked, incomplete


def scope_conditions(metadata: MemoryMetadata | None) -> ScriptFilter:
    """Return a scope for a script; only Python can compare its ``extra``."""
    return script_filter(Filter(metadata=metadata, archived=None))[0]


def ids_of(wanted: Filter) -> list[str] | None:
    """Return the ids that a filter names, one of which an item must have; None if it names none."""
    for condition in wanted.conditions:
        if type(condition) is FieldEquals and condition.field == "id":
            return [condition.text]
        if type(condition) is Value and condition.name == "id" and not condition.in_extra:
            named = {"$eq": [condition.value], "$in": condition.value}.get(condition.operator)
            if named is not None:
                return list(dict.fromkeys(each for each in named if isinstance(each, str)))
    return None


def _parts(condition: Condition) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a condition; nothing for one that a script cannot compare."""
    if type(condition) is InScope:
        yield condition.field, condition.value
    elif type(condition) is Below:
        yield "place", namespace_key(condition.place)
    elif type(condition) is FieldEquals and condition.field in ("memory_type", "status"):
        yield condition.field, condition.text
    elif type(condition) is OfUsers:
        yield "users", condition.prefix
    elif type(condition) is Archived:
        yield "archived", condition.archived
    elif type(condition) is Contains:
        yield "folded", condition.folded
    elif type(condition) is Created:
        if condition.since is not None:
            yield "since", condition.since
        if condition.until is not None:
            yield "before", condition.until
    elif type(condition) is Expiry:
        yield "now", condition.now
        yield "over", condition.expired
    elif type(condition) is Value and not condition.in_extra:
        yield from _of_value(condition)


def _of_value(condition: Value) -> Iterator[tuple[str, Any]]:
    if condition.name in SCOPE_FIELDS and condition.operator == "$eq" and condition.value is None:
        yield "missing", [SCOPE_FIELDS.index(condition.name) + 1]
    elif condition.name == "memory_type" and condition.operator == "$ne" and isinstance(condition.value, str):
        yield "unlike", [condition.value]
    elif condition.name == "memory_type" and condition.operator == "$eq" and isinstance(condition.value, str):
        yield "memory_type", condition.value
    elif condition.name == "memory_type" and condition.operator == "$in" and _are_texts(condition.value):
        yield "types", condition.value


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
