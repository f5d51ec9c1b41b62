"""Items as ranking sees them, kept between searches."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from sys import intern
from typing import Any

from memoranda.errors import CorruptStoreError
from memoranda.items import MemoryItem
from memoranda.store.backend import left_out
from memoranda_ranking import Turn, TurnCache, make_turn, name_in
from memoranda_sql import ITEM_COLUMNS, unpack
from memoranda_sqlite import journal
from memoranda_sqlite.tables import TABLE

Types = Mapping[str, type[MemoryItem]]

_TEXTS = {str}
_KEPT_TERMS = (
    f"(SELECT terms FROM memoranda_terms WHERE item = {TABLE}.rowid "
    f"AND NOT EXISTS (SELECT 1 FROM memoranda_stale WHERE memoranda_stale.item = {TABLE}.rowid))"
)
_CHOSEN = f"FROM {TABLE} NOT INDEXED WHERE rowid IN (SELECT value FROM json_each(?))"
_LOAD = f"SELECT rowid, id, content, memory_type, metadata, extra_json, created_at, {_KEPT_TERMS} {_CHOSEN}"


class Passages:
    """Turns by the numbers of their rows, as they are in one state of the file; up to 48 MiB of all scopes."""

    def __init__(self) -> None:
        self._kept: tuple[journal.Position | None, TurnCache[int]] = None, TurnCache()

    def forget(self) -> None:
        """Drop everything: it may hold purged content."""
        self._kept = None, TurnCache()

    def of(self, connection: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, Turn]:
        """Return the turns by the numbers of their rows, in this order; rows that cannot be read are left out."""
        turns = self._turns(connection)
        found = {number: turns.get(number) for number in numbers}
        missing = [number for number, turn in found.items() if turn is None]
        if missing:
            loaded = _loaded(connection, missing)
            turns.add(loaded)
            found.update(loaded)
        return {number: turn for number, turn in found.items() if turn is not None}

    def _turns(self, connection: sqlite3.Connection) -> TurnCache[int]:
        """Return what is kept of the state that a connection sees, without those that have changed."""
        was, turns = self._kept
        now = journal.position(connection)
        if was != now:
            changed = None if was is None else journal.changed_between(connection, was, now)
            # Those who see another state may still be reading what was kept.
            turns = TurnCache() if changed is None else turns.without(changed)
            self._kept = now, turns
        return turns


def _loaded(connection: sqlite3.Connection, numbers: Collection[int]) -> dict[int, Turn]:
    """Return the turns of these rows. They are not made into items, which takes longer than all the rest."""
    turns = {}
    rows = connection.execute(_LOAD, (json.dumps(list(numbers)),))
    for number, item_id, content, memory_type, metadata, extra_json, created_at, terms in rows:
        texts = (item_id, content, memory_type, metadata, extra_json, created_at)
        if {*map(type, texts)} != _TEXTS:
            continue  # Reading its item logs such a row.
        try:
            conversation = _conversation(metadata)
            # Interned terms take half the memory and compare faster.
            known = None if terms is None else [*map(intern, terms.split())]
            name = name_in(extra_json)
            turns[number] = make_turn(item_id, content, name, memory_type, created_at, conversation, known)
        except (ValueError, TypeError, AttributeError, RecursionError):
            continue
    return turns


@lru_cache(maxsize=1024)
def _conversation(metadata: str) -> tuple[str | None, str | None, str | None]:
    """Return what neighbouring turns have in common, parsed once for all the items of a conversation."""
    fields = json.loads(metadata)
    user, session, task = (fields.get(name) for name in ("user_id", "session_id", "task_id"))
    if not all(value is None or type(value) is str for value in (user, session, task)):
        raise TypeError("metadata has a value of the wrong type")
    return user, session, task


def items_of(connection: sqlite3.Connection, numbers: Collection[int], types: Types) -> dict[int, MemoryItem]:
    """Return the items of these rows by the rows' numbers; rows that cannot be read are left out."""
    text = f"SELECT rowid, {', '.join(ITEM_COLUMNS)} FROM {TABLE} WHERE rowid IN (SELECT value FROM json_each(?))"
    rows = connection.execute(text, (json.dumps(list(numbers)),))
    items = {number: readable(row, types) for number, *row in rows}
    return {number: item for number, item in items.items() if item is not None}


def readable(row: Any, types: Types) -> MemoryItem | None:
    """Return the item of a row, or None if it cannot be read; the log says so."""
    try:
        return unpack(row, types)
    except CorruptStoreError as error:
        left_out(error)
        return None
