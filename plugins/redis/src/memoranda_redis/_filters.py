"""What a script is told of a filter, and what is left for Python to sift."""

from __future__ import annotations

from typing import NamedTuple

from memoranda.items import SCOPE_FIELDS
from memoranda.store import Archived, Condition, Contains, FieldEquals, Filter, InScope
from memoranda_redis._records import optional


class Asked(NamedTuple):
    """The conditions that a script compares by itself, as its arguments; an empty text asks for nothing."""

    scope: tuple[str, ...]
    memory_type: str = ""
    status: str = ""
    archived: str = ""
    folded: str = ""


def told(wanted: Filter) -> tuple[Asked, bool]:
    """Return what a script is told of a filter, and whether that leaves conditions that only Python can compare."""
    arguments: dict[str, str] = {}
    sifted = False
    for condition in wanted.conditions:
        name, value = _argument(condition)
        if name == "" or name in arguments:
            sifted = True
        else:
            arguments[name] = value
    scope = tuple(arguments.pop(name, "") for name in SCOPE_FIELDS)
    return Asked(scope, **arguments), sifted


def _argument(condition: Condition) -> tuple[str, str]:
    """Return the argument that a condition becomes and its value; no name for what a script does not know."""
    if type(condition) is InScope:
        return condition.field, optional(condition.value)
    if type(condition) is FieldEquals and condition.field in Asked._fields:
        return condition.field, optional(condition.text)
    if type(condition) is Archived:
        return "archived", str(int(condition.archived))
    if type(condition) is Contains:
        return "folded", condition.folded
    return "", ""


def names_scope_only(wanted: Filter) -> bool:
    """Whether a filter asks for its metadata's scope and nothing else, which is all that counts and moves know of."""
    return not wanted.further and all(type(condition) is InScope for condition in wanted.conditions)
