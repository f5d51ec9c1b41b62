"""What was read of a scope, kept between searches for as long as that is what the file has."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

from memoranda.sql import Parameters, Statements
from memoranda.store import Condition, Expiry, Filter
from memoranda_sqlite.schema import TABLE

T = TypeVar("T")

_NEXT_EXPIRY = f"SELECT min(expires_at) FROM {TABLE} WHERE expires_at > ?"


class _Entry(NamedTuple, Generic[T]):
    state: object
    since: str
    until: str | None
    value: T
    size: int


class Kept(Generic[T]):
    """Values by connection and scope, up to a size in all."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: dict[tuple[object, ...], _Entry[T]] = {}

    def forget(self) -> None:
        """Keep nothing of what may have been purged."""
        self._entries = {}

    def of(
        self,
        connection: sqlite3.Connection,
        statements: Statements,
        wanted: Filter,
        read: Callable[[], tuple[T, int]],
    ) -> T:
        """Return what ``read`` gives for what matches, with its size; it is asked again once anything has changed.

        Time passes for every search, and changes something only where an item expires.
        """
        lasting = replace(wanted, further=tuple(each for each in wanted.further if not _is_alive(each)))
        now = next((each.now for each in wanted.further if isinstance(each, Expiry) and not each.expired), "")
        parameters = Parameters(statements.dialect)
        key = (id(connection), statements.conditions(parameters, lasting), *parameters.values)
        state = state_of(connection)
        kept = self._entries.get(key)
        if kept is not None and kept.state == state and kept.since <= now and (kept.until is None or now < kept.until):
            return kept.value
        (until,) = connection.execute(_NEXT_EXPIRY, (now,)).fetchone() if now else (None,)
        value, size = read()
        entry = _Entry(state, now, until, value, size)
        kept_on = {other: held for other, held in self._entries.items() if other[0] != key[0] or held.state == state}
        if sum(held.size for held in kept_on.values()) + size > self._most:
            kept_on = {}
        self._entries = {**kept_on, key: entry}
        return value


def state_of(connection: sqlite3.Connection) -> object:
    """Return what is another after every change to the file, as this connection sees it and nobody else."""
    return connection.execute("PRAGMA data_version").fetchone()[0], connection.total_changes


def _is_alive(condition: Condition) -> bool:
    return isinstance(condition, Expiry) and not condition.expired
