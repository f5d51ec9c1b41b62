"""SQLite's dialect of the shared statements, and the Python functions that they call."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from memoranda.shapes import json_text
from memoranda.store.backend import Value, fold, json_equal, key_bounds
from memoranda_backend.sql import Dialect, Parameters, replacing_text
from memoranda_sqlite.tables import ARCHIVED, DELETED, FURTHER_COLUMNS, SHOWN, TABLE, microseconds
from memoranda_sqlite.values import extra_passes, field_passes, value_text

_LONGEST_PATTERN = 1_000
"""Longer texts are compared in Python: SQLite refuses patterns of more than fifty thousand bytes."""

_TELLING = 2
"""How many consecutive characters make a pattern that little content matches."""

# As bytes: the driver fails the whole statement for text that is not Unicode.
_CALLED = "memoranda_contains(CAST(content AS BLOB), ?)"

MISTAKABLE = frozenset("afhijklnstwy")
"""The ASCII letters that other characters fold to: the Kelvin sign becomes k, and ß becomes ss."""


def _pattern(folded: str, *, loose: bool = False) -> str:
    """Return the LIKE pattern of content that contains a text.

    A ``loose`` one is for content of any script: it accepts anything where a character may have been another.
    """
    signs = ("%" if loose and (sign in MISTAKABLE or not sign.isascii()) else _escaped(sign) for sign in folded)
    return f"%{''.join(signs)}%"


def _escaped(sign: str) -> str:
    return f"\\{sign}" if sign in "%_\\" else sign


@lru_cache(maxsize=64)
def _containing(folded: str) -> tuple[str, tuple[str, ...]]:
    """Return the condition that content contains a text, and its values: one search needs it several times."""
    # The plus keeps SQLite from preparing the statement again for each pattern, to look for the start of a range: 43 µs
    # and 72 µs for a session. Without ESCAPE it compares a tenth faster.
    like = "content LIKE +?" + (" ESCAPE '\\'" if any(map(folded.count, "%_\\")) else "")
    loose, exact = _pattern(folded, loose=True), _pattern(folded)
    decided = f"CASE WHEN length(content) = length(CAST(content AS BLOB)) THEN {like if folded.isascii() else 0} ELSE"
    exactly = (exact,) if folded.isascii() else ()
    if loose == exact or max(map(len, loose.split("%"))) >= _TELLING:
        return f"({like} AND {decided} {_CALLED} END)", (loose, *exactly, folded)
    # Nearly all content of this script matches the loose pattern, so it comes last.
    return f"{decided} {like} AND {_CALLED} END", (*exactly, loose, folded)


class SQLiteDialect(Dialect):
    """The table with its further columns; see :mod:`memoranda_sqlite.tables`.

    ``unindexed`` are columns that no index is used for: SQLite's planner has no statistics and takes any index that
    fits. With ``index_only`` no condition needs the row itself, so that an index alone can answer. A row that an upsert
    replaces without meeting ``replaced_if`` gets no version, which fails the statement.
    """

    further_columns = FURTHER_COLUMNS
    created = "created_us"
    scan_columns = ("created_us",)

    def __init__(
        self, unindexed: frozenset[str] = frozenset(), *, index_only: bool = False, replaced_if: str = ""
    ) -> None:
        self._unindexed = unindexed
        self._index_only = index_only
        self._replaced_if = replaced_if

    def _column(self, name: str) -> str:
        """Return the column; the unary plus keeps the planner from its indexes."""
        return f"+{name}" if name in self._unindexed else name

    def next_version(self) -> str:
        """Return the version of a replaced row."""
        version = super().next_version()
        return f"CASE WHEN {self._replaced_if} THEN {version} END" if self._replaced_if else version

    def moment(self, parameters: Parameters, time: Any) -> str:
        """Return the number of a time, which a scan has already."""
        return parameters.add(microseconds(time) if isinstance(time, str) else time)

    def placeholder(self, position: int) -> str:
        """Return ``?``: values are bound in the order in which they were added."""
        return "?"

    def scope_column(self, field: str) -> str:
        """Return the column of the same name."""
        return self._column(field)

    def upto(self, place: str) -> str:
        """Return the condition on the row number."""
        return f"{self._column('rowid')} <= {place}"

    def archived(self) -> str:
        """Return the condition on the id of the summary, for rows that are deleted."""
        return "archived_by IS NOT NULL"

    def given_trust(self, row: str = "") -> str:
        """Return the field of the JSON; what cannot be read says none."""
        column = f"{row}extra_json"
        return (
            f"CASE WHEN {column} LIKE '%\"trust\"%' AND json_valid({column}) THEN json_extract({column}, '$.trust') END"
        )

    def replacing_further(self) -> str:
        """Return a call to Python, where the two rows may differ in trust."""
        return (
            "memoranda_replacing(CAST(stored.extra_json AS BLOB), stored.memory_type, stored.version, "
            "excluded.extra_json, excluded.memory_type)"
        )

    def visibility(self, deleted: bool | None, archived: bool | None) -> list[str]:
        """Return conditions on ``state``, which leads every index after the scope."""
        state = self._column("state")
        if deleted is False:
            if archived is None:
                return [f"{state} IN ({SHOWN}, {ARCHIVED})"]
            return [f"{state} = {ARCHIVED if archived else SHOWN}"]
        found = [f"{state} = {DELETED}"] if deleted else []
        if archived is not None:
            found.append("archived_by IS NOT NULL" if archived else "archived_by IS NULL")
        return found

    def contains(self, parameters: Parameters, folded: str) -> str:
        """Return a comparison by SQLite where that is exact, and a call to Python elsewhere.

        SQLite folds ASCII alone. It excludes content that cannot contain the text, and decides for content that is all
        ASCII; Python, whose case folding is Unicode's, decides for the rest.
        """
        text, values = _containing(folded) if len(folded) <= _LONGEST_PATTERN else (_CALLED, (folded,))
        for value in values:
            parameters.add(value)
        return text

    def extra_equals(self, parameters: Parameters, key: str, value: Any) -> str:
        """Return a call to Python: JSON equality of any value, under any key."""
        return (
            f"memoranda_extra_equals(CAST(metadata AS BLOB), {parameters.add(key)}, {parameters.add(json_text(value))})"
        )

    def below(self, parameters: Parameters, place: tuple[str, ...]) -> str:
        """Return a range of the namespaces' keys, which are in the order of their characters' numbers."""
        first, end = key_bounds(place)
        return f"namespace >= {parameters.add(first)} AND namespace < {parameters.add(end)}"

    def expiry(self, parameters: Parameters, now: str, expired: bool) -> str:
        """Return the condition on the time at which an item expires."""
        if self._index_only:
            # Few rows have expired and were not removed yet.
            rows = f"(SELECT rowid FROM {TABLE} WHERE expires_at <= {parameters.add(now)})"
            return f"rowid {'' if expired else 'NOT '}IN {rows}"
        if expired:
            return f"expires_at <= {parameters.add(now)}"
        return f"(expires_at IS NULL OR expires_at > {parameters.add(now)})"

    def value(self, parameters: Parameters, condition: Value) -> str:
        """Return a condition on a column, or a call to Python for a value in JSON."""
        return value_text(parameters, condition)

    def any_id(self, parameters: Parameters, ids: Sequence[str]) -> str:
        """Return the condition of one bound list, however many ids there are."""
        return f"id IN (SELECT value FROM json_each({parameters.add(json_text(list(ids)))}))"

    def has_owner(self, column: str) -> str:
        """Return the condition that a row has an owner; the root namespace is NULL too."""
        return f"{column} IS NOT NULL"

    def same(self, left: str, right: str) -> str:
        """Return ``IS``, for which NULL equals NULL."""
        return f"{left} IS {right}"


def contains(content: Any, folded: str) -> bool:
    """Return True if the case-folded content contains this case-folded text; content that is not Unicode never does."""
    try:
        return folded in fold(content.decode())
    except (UnicodeDecodeError, AttributeError):
        return False


def is_text(value: Any) -> bool:
    """Return True if these bytes are Unicode text."""
    try:
        return isinstance(value.decode(), str)
    except (UnicodeDecodeError, AttributeError):
        return False


def replacing(stored: Any, stored_type: Any, version: int, new: str, new_type: str) -> str:
    """Return what :func:`memoranda_backend.sql.replacing_text` does.

    An old row that is no text leaves the new one as it is.
    """
    try:
        return replacing_text(stored.decode(), stored_type, version, new, new_type)
    except (UnicodeDecodeError, AttributeError):
        return new


def extra_equals(metadata: Any, key: str, wanted: str) -> bool:
    """Return True if ``metadata.extra`` has the key with an equal value; unreadable metadata never has."""
    try:
        extra = json.loads(metadata.decode()).get("extra") or {}
        return key in extra and json_equal(json.loads(wanted), extra[key])
    except (ValueError, TypeError, AttributeError, RecursionError):
        return False


def past(name: bytes, depth: int) -> bytes:
    """Return the first key after a namespace and all namespaces that are equal to it up to this depth."""
    elements = name.split(b"/")[:-1]
    if len(elements) < depth:
        return name + b"\0"
    return b"/".join(elements[:depth]) + bytes([ord("/") + 1])


def register_functions(connection: sqlite3.Connection) -> None:
    """Register the functions that the statements call."""
    connection.create_function("memoranda_contains", 2, contains, deterministic=True)
    connection.create_function("memoranda_is_text", 1, is_text, deterministic=True)
    connection.create_function("memoranda_extra_equals", 3, extra_equals, deterministic=True)
    connection.create_function("memoranda_extra", 4, extra_passes, deterministic=True)
    connection.create_function("memoranda_replacing", 5, replacing, deterministic=True)
    connection.create_function("memoranda_past", 2, past, deterministic=True)
    connection.create_function("memoranda_field", 4, field_passes, deterministic=True)
