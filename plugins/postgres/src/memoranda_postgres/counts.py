"""How many items a large scope has, and how many of them each term, kept between searches without a note of changes.

A version of a row never changes: an update makes another, and a removal leaves none. So of those versions that were
written before any transaction that was still under way, none can be added to a scope later. As long as they are as many
as they were, they are the same, and as many of them have each term; whoever writes, and by whatever means. Each search
counts them, which takes a fraction of the time that looking for every term does, and is given what was written since.
Where nothing at all was written to the server, which its snapshot tells, they are not even counted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from memoranda.store import Expiry, Filter, InBranch
from memoranda_postgres.dialect import PostgresStatements
from memoranda_postgres.server import Server
from memoranda_postgres.terms import TERMS_VECTOR, has_term, term_key, user_key, user_of
from memoranda_ranking import MOST_COUNTED
from memoranda_sql import Parameters

MOST_SCOPES = 256
"""Of how many scopes counts are kept; those that were searched last."""

MOST_TERMS = 4_096
"""Of how many terms of a scope; those that were asked for last."""

MOST_RECENT = 2_000
"""How many rows may have been written since, before all are counted again."""

_FIRST_EPOCH = 1 << 32
"""A row has 32 bits of its transaction's number: after so many transactions, two that are alike may be far apart."""

_FAR = 1 << 30
"""How many transactions may have passed for their distance to be told."""

_STATE = "pg_current_snapshot()::text AS snapshot, pg_postmaster_start_time()::text AS server"

Recent = Sequence[tuple[int, frozenset[int]]]
"""The transaction that wrote each row, and the keys by which a term finds it."""


class Counted(NamedTuple):
    """How many items a scope has, any number above ``MOST_COUNTED`` for more, and how many of them have each term."""

    total: int
    frequencies: Mapping[str, int]


class _Look(NamedTuple):
    """What one statement saw: ``recent`` rows are those that are not settled, ``having`` counts all by terms' keys."""

    server: str
    snapshot: str
    ended: str
    until: str | None
    total: int
    recent: Recent
    having: Mapping[int, int]

    @property
    def oldest(self) -> int:
        """The first transaction that was under way."""
        return int(self.snapshot.split(":")[0])

    @property
    def next(self) -> int:
        """The first transaction that had not begun, as far as any is seen."""
        return int(self.snapshot.split(":")[1])


@dataclass(frozen=True, slots=True)
class _Kept:
    """What was seen of a scope at the last look. The rows from before transaction ``before`` are settled.

    ``having`` says how many of these have each term; the server is told by the time at which it was started. ``ended``
    is when the last item expired of those that have, ``until`` when the next one does.
    """

    server: str
    snapshot: str
    ended: str
    until: str | None
    before: int
    settled: int
    having: Mapping[int, int]
    recent: Recent

    def holds_for(self, server: str, snapshot: str, now: str) -> bool:
        """Whether all is as it was: nothing was written, and nothing has expired."""
        if (server, snapshot) != (self.server, self.snapshot) or not tells_all(snapshot):
            return False
        return self.until is None or now < self.until

    def counted(self, terms: Iterable[str]) -> Counted:
        """Return the counts of terms that are known."""
        frequencies = {term: self.having[key] + _with_key(self.recent, key) for term, key in _keyed(terms)}
        return Counted(self.settled + len(self.recent), frequencies)

    def followed(self, look: _Look) -> _Kept | None:
        """Return what is known after another look, or None where the settled rows are not the same any more."""
        passed = look.next - self.before
        if look.server != self.server or look.total - len(look.recent) != self.settled or not 0 <= passed < _FAR:
            return None
        known = self.having if len(self.having) < MOST_TERMS else {}
        return _settled(look, replace(self, having=known))


class Counts:
    """Counts the scopes of one store."""

    def __init__(self, server: Server, statements: PostgresStatements) -> None:
        self._server = server
        self._statements = statements
        self._kept: dict[Any, _Kept] = {}
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Keep nothing of what was purged."""
        with self._lock:
            self._kept = {}

    def knows(self, scope: Filter) -> bool:
        """Whether the scope was counted before, and is likely to be large still."""
        return self._key(scope) in self._kept

    def leave(self, scope: Filter) -> None:
        """Keep no counts of a scope that is not large any more."""
        self._keep(self._key(scope), None)

    async def of(self, scope: Filter, terms: Sequence[str]) -> Counted:
        """Return how many items the scope has, and how many of them have each of the terms."""
        key, now = self._key(scope), _now(scope)
        kept = self._kept.get(key)
        # Where a search began earlier, or the clock was set back, what has expired since may be there for it.
        if kept is not None and kept.ended <= now:
            unknown = [term for term, number in _keyed(terms) if number not in kept.having]
            if not unknown and await self._is_unchanged(kept, now):
                return kept.counted(terms)
            followed = kept.followed(await self._look(scope, unknown, kept.before))
            if followed is not None and all(number in followed.having for _, number in _keyed(terms)):
                self._keep(key, followed)
                return followed.counted(terms)
        look = await self._look(scope, terms, None)
        self._keep(key, _settled(look, None))
        return Counted(look.total, {term: look.having[number] for term, number in _keyed(terms)})

    def _key(self, scope: Filter) -> Any:
        """Return what a scope is kept by; None for a forked session, where rows depend on others."""
        if any(isinstance(condition, InBranch) for condition in scope.further):
            return None
        lasting = tuple(condition for condition in scope.further if not isinstance(condition, Expiry))
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, replace(scope, further=lasting))
        return where, *map(repr, parameters.values)

    def _keep(self, key: Any, kept: _Kept | None) -> None:
        with self._lock:
            self._kept.pop(key, None)
            if key is not None and kept is not None:
                self._kept[key] = kept  # It was searched last.
            if len(self._kept) > MOST_SCOPES:
                del self._kept[next(iter(self._kept))]

    async def _is_unchanged(self, kept: _Kept, now: str) -> bool:
        ((snapshot, server),) = await self._server.fetch(f"SELECT {_STATE}", [])
        return kept.holds_for(server, snapshot, now)

    async def _look(self, scope: Filter, terms: Sequence[str], before: int | None) -> _Look:
        """Count a scope, and how many of its rows have each term, in one statement.

        What is not from before the transaction, by default the first that is under way, is recent.
        """
        dialect = self._statements.dialect
        parameters = Parameters(dialect)
        given = parameters.add(None if before is None else str(before))
        first = f"coalesce({given}::text::xid8, pg_snapshot_xmin(pg_current_snapshot()))"
        # What was written two thousand million transactions ago has a negative age: it passes for recent.
        recent = f"FILTER (WHERE age(xmin) <= (SELECT age({first}::xid)))"
        where = self._statements.conditions(parameters, scope)
        rows = f"SELECT xmin, {TERMS_VECTOR} FROM {dialect.table} WHERE {where} LIMIT {MOST_COUNTED + 1}"
        written = f"(array_agg(xmin::text || {TERMS_VECTOR}::text) {recent})[:{MOST_RECENT + 1}]"
        after = parameters.add(_now(scope))
        mortal = f"FROM {dialect.table} WHERE expires_at > '' AND expires_at"
        ends = f"(SELECT max(expires_at) {mortal} <= {after}), (SELECT min(expires_at) {mortal} > {after})"
        counts = [self._count(parameters, scope, term) for term in terms]
        seen = ", ".join((_STATE, ends, "count(*)", written, *counts))
        text = f"SELECT {seen} FROM ({rows}) AS few"
        ((snapshot, server, ended, until, total, recents, *having),) = await self._server.fetch(text, parameters.values)
        user = user_of(scope)
        return _Look(
            server,
            snapshot,
            ended or "",
            until,
            total,
            [_written(each, user) for each in recents or ()],
            dict(zip(map(term_key, terms), having, strict=True)),
        )

    def _count(self, parameters: Parameters, scope: Filter, term: str) -> str:
        where = self._statements.conditions(parameters, scope)
        table = self._statements.dialect.table
        return f"(SELECT count(*) FROM {table} WHERE {where} AND {has_term(parameters, term, scope)})"


def _settled(look: _Look, kept: _Kept | None) -> _Kept | None:
    """Return what is to be kept of a look: what was written before the first transaction under way is settled by now.

    ``kept`` is what was known before, and still holds.
    """
    if look.total > MOST_COUNTED or len(look.recent) > MOST_RECENT or look.next >= _FIRST_EPOCH:
        return None
    having = {} if kept is None else dict(kept.having)
    having |= {key: count - _with_key(look.recent, key) for key, count in look.having.items()}
    recent = [row for row in look.recent if row[0] >= look.oldest]
    for number, keys in look.recent:
        if number < look.oldest:
            for key in keys & having.keys():
                having[key] += 1
    settled = look.total - len(recent)
    return _Kept(look.server, look.snapshot, look.ended, look.until, look.oldest, settled, having, recent)


def _written(text: str, user: str | None) -> tuple[int, frozenset[int]]:
    """Return the transaction and the keys of a row, as a look has them."""
    number, _, keys = text.rstrip("}").partition("{")
    found = frozenset(map(int, filter(None, keys.split(","))))
    # A term finds what has the key of the user as well.
    return int(number), found if user is None or user_key(user) in found else frozenset()


def _with_key(recent: Recent, key: int) -> int:
    return sum(key in keys for _, keys in recent)


def _keyed(terms: Iterable[str]) -> list[tuple[str, int]]:
    return [(term, term_key(term)) for term in terms]


def tells_all(snapshot: str) -> bool:
    """Whether a snapshot, as text, names all transactions that are under way: on a standby it names none of them."""
    oldest, following, under_way = snapshot.split(":")
    return oldest == following or under_way != ""


def _now(scope: Filter) -> str:
    """Return the time by which expiry is judged."""
    return next((each.now for each in scope.further if isinstance(each, Expiry) and not each.expired), "")
