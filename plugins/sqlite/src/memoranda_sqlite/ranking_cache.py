"""A cache of what ranked searches read of a scope, updated with what has changed since."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

from memoranda.store.backend import Condition, Expiry, Filter
from memoranda_sql import Parameters, Statements
from memoranda_sqlite import journal
from memoranda_sqlite.tables import TABLE

T = TypeVar("T")

MOST_SCOPES = 256
"""The number of scopes in a cache; the least recently searched ones are dropped."""

_NEXT_EXPIRY = f"SELECT min(expires_at) FROM {TABLE} WHERE expires_at > ?"
_EXPIRED = f"SELECT rowid FROM {TABLE} WHERE expires_at > ? AND expires_at <= ?"


class _Entry(NamedTuple, Generic[T]):
    state: journal.Position
    since: str
    until: str | None
    value: T
    size: int


class RankingCache(Generic[T]):
    """Values by scope, up to a total size and ``MOST_SCOPES``, for all connections of a store.

    A value is never changed: another connection may be reading it, which sees another state of the file.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: dict[tuple[object, ...], _Entry[T]] = {}
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Drop everything: it may hold purged content."""
        with self._lock:
            self._entries = {}

    def of(
        self,
        connection: sqlite3.Connection,
        statements: Statements,
        wanted: Filter,
        read: Callable[[], tuple[T, int]],
        follow: Callable[[T, set[int]], tuple[T, int] | None],
    ) -> T:
        """Return what ``read`` gives for what matches, with its size.

        Once rows have changed, ``follow`` makes another of what was read before, given the numbers of these rows; it
        returns None where all is to be read again. Time passes for every search, and changes something only where an
        item expires. A connection has a transaction under way, so that it sees one state of the file.
        """
        lasting = replace(wanted, further=tuple(each for each in wanted.further if not _is_alive(each)))
        now = next((each.now for each in wanted.further if isinstance(each, Expiry) and not each.expired), "")
        parameters = Parameters(statements.dialect)
        key = (statements.conditions(parameters, lasting), *parameters.values)
        state = journal.position(connection)
        with self._lock:
            kept = self._entries.get(key)
            if kept is not None and kept.since <= now:
                if kept.state == state and (kept.until is None or now < kept.until):
                    self._entries[key] = self._entries.pop(key)  # The most recently searched one is last.
                    return kept.value
                found = self._followed(connection, kept, state, now, follow)
                if found is not None:
                    return self._keep(connection, key, state, now, *found)
        value, size = read()
        with self._lock:
            return self._keep(connection, key, state, now, value, size)

    def _followed(
        self,
        connection: sqlite3.Connection,
        kept: _Entry[T],
        state: journal.Position,
        now: str,
        follow: Callable[[T, set[int]], tuple[T, int] | None],
    ) -> tuple[T, int] | None:
        changed = journal.changed_between(connection, kept.state, state)
        if changed is None:
            return None
        if kept.until is not None and kept.until <= now:
            changed.update(number for (number,) in connection.execute(_EXPIRED, (kept.since, now)))
        return follow(kept.value, changed) if changed else (kept.value, kept.size)

    def _keep(
        self,
        connection: sqlite3.Connection,
        key: tuple[object, ...],
        state: journal.Position,
        now: str,
        value: T,
        size: int,
    ) -> T:
        (until,) = connection.execute(_NEXT_EXPIRY, (now,)).fetchone() if now else (None,)
        entries = {other: held for other, held in self._entries.items() if other != key}
        room = self._most - size
        held = sum(entry.size for entry in entries.values())
        while entries and (held > room or len(entries) >= MOST_SCOPES):
            held -= entries.pop(next(iter(entries))).size
        self._entries = {**entries, key: _Entry(state, now, until, value, size)}
        return value


def state_of(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return a value that differs after every change to the file, indexes included, for this connection alone."""
    return connection.execute("PRAGMA data_version").fetchone()[0], connection.total_changes


def _is_alive(condition: Condition) -> bool:
    return isinstance(condition, Expiry) and not condition.expired
