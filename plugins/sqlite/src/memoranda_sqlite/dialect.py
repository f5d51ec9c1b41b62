"""SQLite's ways of saying what the shared statements need, and the functions that it calls back."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from memoranda.shapes import json_text
from memoranda.sql import Dialect, Parameters
from memoranda.store import fold, json_equal

SHOWN, ARCHIVED, DELETED = 0, 1, 2
"""The values of the column ``state``: what searches show, what a summary stands for, and what was deleted."""


class SQLiteDialect(Dialect):
    """The table with its generated columns; see :mod:`memoranda_sqlite.schema`."""

    def placeholder(self, position: int) -> str:
        """Return ``?``: values are bound in the order in which they were added."""
        return "?"

    def scope_column(self, field: str) -> str:
        """Return the generated column of the same name."""
        return field

    def archived(self) -> str:
        """Return the condition on the JSON of further fields, for rows that are deleted."""
        return "archived_by IS NOT NULL"

    def visibility(self, deleted: bool | None, archived: bool | None) -> list[str]:
        """Return conditions on ``state``, which leads every index after the scope."""
        if deleted is False:
            if archived is None:
                return [f"state IN ({SHOWN}, {ARCHIVED})"]
            return [f"state = {ARCHIVED if archived else SHOWN}"]
        found = [f"state = {DELETED}"] if deleted else []
        if archived is not None:
            found.append("archived_by IS NOT NULL" if archived else "archived_by IS NULL")
        return found

    def contains(self, parameters: Parameters, folded: str) -> str:
        """Return a call back to Python: only its case folding is Unicode's."""
        # As bytes, since the driver fails the whole statement for text that is no Unicode.
        return f"memoranda_contains(CAST(content AS BLOB), {parameters.add(folded)})"

    def extra_equals(self, parameters: Parameters, key: str, value: Any) -> str:
        """Return a call back to Python: JSON equality of any value, under any key."""
        return (
            f"memoranda_extra_equals(CAST(metadata AS BLOB), {parameters.add(key)}, {parameters.add(json_text(value))})"
        )

    def same(self, left: str, right: str) -> str:
        """Return ``IS``, for which NULL equals NULL."""
        return f"{left} IS {right}"


def contains(content: Any, folded: str) -> bool:
    """Whether the case-folded content has this case-folded text in it; what is no Unicode has nothing in it."""
    try:
        return folded in fold(content.decode())
    except (UnicodeDecodeError, AttributeError):
        return False


def is_text(value: Any) -> bool:
    """Whether these bytes are Unicode text."""
    try:
        return isinstance(value.decode(), str)
    except (UnicodeDecodeError, AttributeError):
        return False


def extra_equals(metadata: Any, key: str, wanted: str) -> bool:
    """Whether ``metadata.extra`` has the key with an equal value; unreadable metadata has nothing."""
    try:
        extra = json.loads(metadata.decode()).get("extra") or {}
        return key in extra and json_equal(json.loads(wanted), extra[key])
    except (ValueError, TypeError, AttributeError, RecursionError):
        return False


def register_functions(connection: sqlite3.Connection) -> None:
    """Give a connection the functions that the statements call."""
    connection.create_function("memoranda_contains", 2, contains, deterministic=True)
    connection.create_function("memoranda_is_text", 1, is_text, deterministic=True)
    connection.create_function("memoranda_extra_equals", 3, extra_equals, deterministic=True)
