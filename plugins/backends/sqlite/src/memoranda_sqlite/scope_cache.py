"""What ranked searches keep of the scopes they search: one cache, brought up to date with what has changed since.

The journal of the file tells which rows that are; see :mod:`memoranda_sqlite.journal`. Only rows of the scope are read,
and nothing that a ranking counts or averages comes from anywhere else: it must not reveal anything of other tenants.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from itertools import chain
from typing import Any

from memoranda.items import MemoryItem
from memoranda.loops import give_way
from memoranda.store.backend import Expiry, Filter, InBranch
from memoranda_backend.ranking import (
    Added,
    Column,
    KeptScopes,
    Passage,
    ScopeArrays,
    conversation_name,
    name_in,
    speaker_of,
)
from memoranda_backend.sql import Parameters
from memoranda_backend.sql.candidates import WHOLE_SCOPE
from memoranda_sqlite import journal
from memoranda_sqlite.statements import SQLiteStatements
from memoranda_sqlite.tables import TABLE
from memoranda_sqlite.text_index import words_of_entry

MOST_BYTES = 256 << 20
"""About how many bytes are kept for all scopes; the least recently searched ones are dropped. A larger scope is kept
alone."""

_TERMS = (
    f"(SELECT terms FROM memoranda_terms WHERE item = {TABLE}.rowid "
    f"AND NOT EXISTS (SELECT 1 FROM memoranda_stale WHERE memoranda_stale.item = {TABLE}.rowid))"
)
_VECTOR = f"(SELECT vector FROM memoranda_vectors WHERE item = {TABLE}.rowid AND item_version = version)"
_COLUMNS = "rowid, id, content, memory_type, extra_json, created_at, user_id, session_id, task_id"
_CHOSEN = "rowid IN (SELECT value FROM json_each(?))"
_READ_TIME = 10
"""How many entries of an index are looked at in the time in which a row is read."""

_READ_AT_ONCE = 500
"""How many rows are read before other threads have their turn."""

_NEXT_EXPIRY = f"SELECT min(expires_at) FROM {TABLE} WHERE expires_at > ?"
_EXPIRED = f"SELECT rowid FROM {TABLE} WHERE expires_at > ? AND expires_at <= ?"


class Scope:
    """The rows of a scope in one state of the file.

    ``is_whole`` is False for a scope of too many rows to be ranked as a whole: then only their vectors are kept.
    """

    def __init__(self, passage: float, dimension: int) -> None:
        self.lock = threading.Lock()
        self.state: journal.Position | None = None
        self.since = ""
        self.until: str | None = None
        self.is_whole = True
        self._passage, self._dimension = passage, dimension
        self.arrays = ScopeArrays(passage, dimension)
        self.matching: dict[tuple[object, ...], Column] = {}
        """Which rows of the arrays match filters, by what these ask."""
        self.items: dict[int, MemoryItem] = {}
        """Some of the items, by the numbers of their rows: prompt after prompt shows the same. Nobody changes them."""

    def start_anew(self) -> None:
        """Forget all rows."""
        self.state = None
        self.arrays = ScopeArrays(self._passage, self._dimension)
        self.matching = {}
        self.items = {}


class ScopeCache:
    """Scopes by what a search asks of them, for all connections of a store."""

    def __init__(self, statements: SQLiteStatements, passage: float, dimension: int) -> None:
        self._statements = statements
        self._passage, self._dimension = passage, dimension
        self._kept: KeptScopes[Scope] = KeptScopes()
        self.forget = self._kept.forget

    @contextmanager
    def of(
        self,
        connection: sqlite3.Connection,
        wanted: Sequence[Filter],
        while_reading: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> Iterator[list[Scope]]:
        """Yield scopes as a connection sees them, which has a transaction under way. No other search uses them.

        Time passes for every search, and changes something only where an item expires. ``while_reading`` is entered
        while all rows of a scope are read.
        """
        keys = list(map(self._key, wanted))
        scopes = {key: self._kept.of(key, lambda: Scope(self._passage, self._dimension)) for key in keys}
        with ExitStack() as held:
            for key in sorted(scopes, key=repr):  # Two searches that share scopes take their locks in one order.
                held.enter_context(scopes[key].lock)
            state = _newest_state(connection, scopes.values())
            for key, each in zip(keys, wanted, strict=True):
                scope = scopes[key]
                try:
                    self._bring_up_to_date(connection, scope, each, state, while_reading)
                except BaseException:
                    scope.start_anew()
                    raise
                self._kept.measured(key, scope, scope.arrays.size, MOST_BYTES)
            yield [scopes[key] for key in keys]

    def _key(self, wanted: Filter) -> tuple[object, ...]:
        """Return what a scope is kept under."""
        parameters = Parameters(self._statements.dialect)
        return self._statements.conditions(parameters, lasting(wanted)), *parameters.values

    def _bring_up_to_date(
        self,
        connection: sqlite3.Connection,
        scope: Scope,
        wanted: Filter,
        state: journal.Position,
        while_reading: Callable[[], AbstractContextManager[None]],
    ) -> None:
        now = next((each.now for each in wanted.further if isinstance(each, Expiry) and not each.expired), "")
        changes = self._changes(connection, scope, state, now)
        if changes is None or (changes and not self._follow(connection, scope, wanted, changes)):
            with while_reading():
                self._read(connection, scope, wanted)
        if changes is None or changes or now >= (scope.until or "~"):
            (scope.until,) = connection.execute(_NEXT_EXPIRY, (now,)).fetchone() if now else (None,)
        scope.state, scope.since = state, now

    def _changes(
        self, connection: sqlite3.Connection, scope: Scope, state: journal.Position, now: str
    ) -> journal.Changes | None:
        """Return what may have changed since the last search; None if anything may have."""
        if scope.state is None or now < scope.since:
            return None
        changes = journal.changed_between(connection, scope.state, state)
        if changes is not None and scope.until is not None and scope.until <= now:
            changes.old.update(number for (number,) in connection.execute(_EXPIRED, (scope.since, now)))
        return changes

    def _read(self, connection: sqlite3.Connection, scope: Scope, wanted: Filter) -> None:
        scope.start_anew()
        text, values = self._statements.numbers_up_to(wanted, WHOLE_SCOPE + 1)
        (count,) = connection.execute(f"SELECT count(*) FROM ({text})", values).fetchone()
        scope.is_whole = count <= WHOLE_SCOPE
        if scope.is_whole or self._dimension:
            for some in self._slices(connection, scope, wanted):
                scope.arrays.add(some)
                give_way()

    def _follow(self, connection: sqlite3.Connection, scope: Scope, wanted: Filter, changes: journal.Changes) -> bool:
        """Read what has changed; return False if all is to be read again."""
        if changes.old and any(isinstance(each, InBranch) for each in wanted.further):
            return False  # A summary that came or went shows or hides what it stands for in the branch's past.
        old = json.dumps(list(changes.old))
        now = self._rows(connection, scope, wanted, f"AND {_CHOSEN}", old) if changes.old else []
        if not scope.is_whole and len(now) < len(changes.old):
            return False  # Some are gone: what is left may be few enough.
        if changes.added:
            # The plus keeps the planner from reading what all scopes have added, where this one has less in all.
            few = _READ_TIME * changes.added < len(scope.arrays)
            now += self._rows(connection, scope, wanted, f"AND {'' if few else '+'}rowid > ?", changes.after)
        for number in changes.old:
            scope.items.pop(number, None)
        scope.arrays.remove(changes.old)
        scope.arrays.add(now if scope.is_whole or self._dimension else [])
        return not scope.arrays.is_worn and (not scope.is_whole or len(scope.arrays) <= WHOLE_SCOPE)

    def _rows(
        self, connection: sqlite3.Connection, scope: Scope, wanted: Filter, also: str = "", *values: object
    ) -> list[Added]:
        """Return the rows of a scope that also meet a condition; without those that cannot be read."""
        return list(chain.from_iterable(self._slices(connection, scope, wanted, also, *values)))

    def _slices(
        self, connection: sqlite3.Connection, scope: Scope, wanted: Filter, also: str = "", *values: object
    ) -> Iterator[list[Added]]:
        """Yield the rows of a scope a part at a time, or of those that also meet a condition."""
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, wanted)
        # NOT INDEXED leaves the row number as the only way in.
        among = "NOT INDEXED" if also.startswith("AND rowid") else ""
        text = (
            f"SELECT {_COLUMNS}, {_TERMS if scope.is_whole else 'NULL'}, {_VECTOR if self._dimension else 'NULL'} "
            f"FROM {TABLE} {among} WHERE {where} {also} ORDER BY rowid"
        )
        rows = connection.execute(text, (*parameters.values, *values))
        while some := rows.fetchmany(_READ_AT_ONCE):
            if scope.is_whole:
                yield list(_added(some))
            else:
                yield [Added(row[0], Passage(row[1], ""), row[-1] or b"") for row in some]


def _newest_state(connection: sqlite3.Connection, scopes: Iterable[Scope]) -> journal.Position:
    """Return the state of the file that a connection sees; it is no older than that of any scope."""
    state = journal.position(connection)
    if any(scope.state is not None and _is_older(state, scope.state) for scope in scopes):
        # Another connection has read a newer state. This one has read nothing yet and looks again.
        connection.execute("COMMIT")
        connection.execute("BEGIN")
        state = journal.position(connection)
    return state


def rows_of(connection: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, Passage]:
    """Return rows as a ranking sees them, by their numbers; without those that cannot be read."""
    text = f"SELECT {_COLUMNS}, {_TERMS}, NULL FROM {TABLE} NOT INDEXED WHERE {_CHOSEN}"
    return {added.number: added.passage for added in _added(connection.execute(text, (json.dumps(list(numbers)),)))}


def _added(rows: Iterable[tuple[Any, ...]]) -> Iterator[Added]:
    """Yield rows as a ranking sees them, without those that cannot be read: reading their items logs these."""
    for number, item_id, content, memory_type, extra_json, created_at, user, session, task, terms, vectors in rows:
        if not type(item_id) is type(content) is type(memory_type) is type(extra_json) is type(created_at) is str:
            continue
        try:
            name = name_in(extra_json) if extra_json != "{}" else None
        except ValueError:
            continue
        conversation = conversation_name(user, session, task)
        speaker = speaker_of(name, memory_type, content)
        held = None if terms is None else words_of_entry(terms)
        yield Added(number, Passage(item_id, content, speaker, created_at, conversation, held), vectors or b"")


def _is_older(one: journal.Position, other: journal.Position) -> bool:
    """Return True if a state of the file surely comes before another."""
    return one.schema == other.schema and (one.place, one.last) < (other.place, other.last)


def lasting(wanted: Filter) -> Filter:
    """Return a filter without the time that it is asked at: a scope that is up to date holds what is alive."""
    further = [each for each in wanted.further if not (isinstance(each, Expiry) and not each.expired)]
    return replace(wanted, further=tuple(further))
