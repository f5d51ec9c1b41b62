"""Items as ranking sees them, kept between searches by the marks of their rows.

The server says of each row that a search looks at which state of it there is now: its id, the transaction that wrote it
and its version. What is known of a row in this state is not read again, and its terms, which are most of the work, are
not made again.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from sys import intern
from typing import Any, NamedTuple

from memoranda.ranking import Passage, index_terms, make_passage

MOST_BYTES = 48 << 20
"""How much a store keeps in all, about: some sixty thousand short turns, or six thousand of a few pages."""

MARK = "id || ' ' || xmin::text || ' ' || version::text"
"""The expression of a row's mark. After a change it is another: no two transactions that are remembered are alike."""

TURN_COLUMNS = "id, content, extra_json, memory_type, created_at, user_id, session_id, task_id"

_TURN_BYTES = 700
_TERM_BYTES = 8  # The term itself is shared by all turns that have it.

Conversation = tuple[str | None, str | None, str | None]


class Turn(NamedTuple):
    """A passage, and the conversation that it belongs to."""

    passage: Passage
    conversation: Conversation

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return _TURN_BYTES + len(self.passage.text) + _TERM_BYTES * len(self.passage.terms or ())


def id_of(mark: str) -> str:
    """Return the id of a marked row."""
    return mark.rsplit(" ", 2)[0]


class KnownTurns:
    """Turns by the marks of their rows, the last read ones up to ``MOST_BYTES``; several threads may ask and add."""

    def __init__(self) -> None:
        self._turns: dict[str, Turn] = {}
        self._size = 0
        self._lock = threading.Lock()
        self.get = self._turns.get

    def add(self, turns: Mapping[str, Turn]) -> None:
        """Keep these, in the place of those that were read first where there is no room."""
        with self._lock:
            self._size += sum(turn.size for mark, turn in turns.items() if mark not in self._turns)
            self._turns.update(turns)
            while self._size > MOST_BYTES:
                self._size -= self._turns.pop(next(iter(self._turns))).size


def turns_of(rows: Iterable[Any]) -> dict[str, Turn]:
    """Return the turns of rows that have a ``mark`` and ``TURN_COLUMNS``, by their marks."""
    return {row["mark"]: _turn(row) for row in rows}


def _turn(row: Any) -> Turn:
    conversation = row["user_id"], row["session_id"], row["task_id"]
    content = row["content"]
    terms = [*map(intern, index_terms(content))]  # Each once for all turns that have it.
    name, kind, created = named_in(row["extra_json"]), row["memory_type"], row["created_at"]
    return Turn(make_passage(row["id"], content, name, kind, created, conversation, terms), conversation)


def named_in(extra_json: str) -> str | None:
    """Return who spoke, reading the JSON only where it can say so."""
    if '"name"' not in extra_json:
        return None
    try:
        name = json.loads(extra_json).get("name")
    except (ValueError, AttributeError, RecursionError):
        return None  # Such a row is left out where its item is read.
    return name if isinstance(name, str) else None
