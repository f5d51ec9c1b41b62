"""Items as ranking sees them, kept between searches by the marks of their rows.

The server says of each row that a search looks at which state of it there is now: its id, the transaction that wrote it
and its version. What is known of a row in this state is not read again, and its terms, which are most of the work, are
not made again.
"""

from __future__ import annotations

from collections.abc import Iterable
from sys import intern
from typing import Any

from memoranda_ranking import Turn, index_terms, make_turn, name_in

MARK = "id || ' ' || xmin::text || ' ' || version::text"
"""The expression of a row's mark. After a change it is another: no two transactions that are remembered are alike."""

TURN_COLUMNS = "id, content, extra_json, memory_type, created_at, user_id, session_id, task_id"


def id_of(mark: str) -> str:
    """Return the id of a marked row."""
    return mark.rsplit(" ", 2)[0]


def version_of(mark: str) -> int:
    """Return the version of a marked row."""
    return int(mark.rpartition(" ")[2])


def turns_of(rows: Iterable[Any]) -> dict[str, Turn]:
    """Return the turns of rows that have a ``mark`` and ``TURN_COLUMNS``, by their marks."""
    return {row["mark"]: _turn(row) for row in rows}


def _turn(row: Any) -> Turn:
    conversation = row["user_id"], row["session_id"], row["task_id"]
    name, content = said(row["extra_json"], row["content"])
    terms = [*map(intern, index_terms(content))]  # Each once for all turns that have it.
    return make_turn(row["id"], content, name, row["memory_type"], row["created_at"], conversation, terms)


def said(extra_json: str, content: str) -> tuple[str | None, str]:
    """Return who spoke, and what. Of a row that cannot be read nobody is known: it is left out with its item."""
    try:
        return name_in(extra_json), content
    except ValueError:
        return None, content
