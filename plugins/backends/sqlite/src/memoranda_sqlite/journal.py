"""A journal of changed rows in the file, by which a search updates what it caches of a scope.

Triggers note the number of each row that any program changes or removes. A new row needs no entry: its number is above
all others, unless it is that of a removed row, which has an entry. So an insert costs nothing beyond its row. A cache
is read again if the journal is not complete: if it was shortened meanwhile, after a change of the schema or a VACUUM,
and after an insert by another program, which may have replaced a row without a trace.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from memoranda_sqlite.tables import TABLE

MOST_FOLLOWED = 4_096
"""After how many changes of old rows a cache is read again; the journal has about as many entries."""

_LAST_NUMBER = (1 << 63) - 1
"""A row of this number leaves SQLite no greater one: then it numbers rows at random."""

_NOTE = "INSERT INTO memoranda_journal (item) VALUES"
_SHORTEN = f"DELETE FROM memoranda_journal WHERE place <= new.place - {MOST_FOLLOWED}"
_TRIGGERS = {
    "memoranda_journal_shortened": f"AFTER INSERT ON memoranda_journal WHEN new.place % 1024 = 0 BEGIN {_SHORTEN}; END",
    f"{TABLE}_noted_update": (
        f"AFTER UPDATE ON {TABLE} BEGIN {_NOTE} (CASE WHEN new.rowid = old.rowid THEN old.rowid END); END"
    ),
    f"{TABLE}_noted_delete": f"AFTER DELETE ON {TABLE} BEGIN {_NOTE} (old.rowid); END",
    f"{TABLE}_noted_insert": f"AFTER INSERT ON {TABLE} WHEN new.created_us IS NULL BEGIN {_NOTE} (NULL); END",
}
_NOTE_ITEM = f"INSERT INTO memoranda_journal (item) SELECT rowid FROM {TABLE} WHERE id = ?"
_POSITION = f"SELECT (SELECT max(place) FROM memoranda_journal), (SELECT max(rowid) FROM {TABLE})"
_NOTED = "SELECT item FROM memoranda_journal WHERE place > ?"


class Position(NamedTuple):
    """The position of a state of the file in its history: equal ones have the same rows with the same vectors."""

    schema: int
    place: int
    last: int


class Changes(NamedTuple):
    """What may have changed: some old rows, and at most ``added`` rows after a number."""

    old: set[int]
    after: int
    added: int

    def __bool__(self) -> bool:
        return bool(self.old or self.added)


def create(connection: sqlite3.Connection) -> None:
    """Create the journal and the triggers that write it."""
    connection.execute("CREATE TABLE memoranda_journal (place INTEGER PRIMARY KEY, item INTEGER)")
    for name, action in _TRIGGERS.items():
        connection.execute(f"CREATE TRIGGER {name} {action}")


def note(connection: sqlite3.Connection, ids: Iterable[str]) -> None:
    """Note that data of these items outside their rows has changed, such as their vectors."""
    connection.executemany(_NOTE_ITEM, [(item_id,) for item_id in ids])


def note_all(connection: sqlite3.Connection) -> None:
    """Note that any row may have changed."""
    connection.execute(f"{_NOTE} (NULL)")


def position(connection: sqlite3.Connection) -> Position:
    """Return the position of the state that a connection reads."""
    (schema,) = connection.execute("PRAGMA schema_version").fetchone()
    place, last = connection.execute(_POSITION).fetchone()
    return Position(schema, place or 0, last or 0)


def changed_between(connection: sqlite3.Connection, was: Position, now: Position) -> Changes | None:
    """Return what was changed, added or removed until now; None if that is unknown."""
    passed = now.place - was.place
    if now.schema != was.schema or not 0 <= passed <= MOST_FOLLOWED or now.last == _LAST_NUMBER:
        return None
    if not passed and now.last < was.last:  # This connection sees an older state.
        return None
    noted = [number for (number,) in connection.execute(_NOTED, (was.place,))] if passed else []
    if len(noted) != passed or None in noted:
        return None
    return Changes({number for number in noted if number <= was.last}, was.last, max(0, now.last - was.last))
