"""How many items a large scope has, and how many of them have each term, cached between searches.

A row version never changes: an update writes another one, a removal leaves none. Versions from before the oldest open
transaction are *settled*: no more of them can appear in a scope. While their number stays the same they are the same
rows, with the same terms, whichever program writes. So each search counts the settled rows, which is much cheaper than
looking up every term, and reads the keys of the few rows written since: from the index of terms, or from their content
where they still wait for it. If the server's snapshot shows that nothing was
written at all, it does not even count.

With 100,000 items in the scope and an add before each search, a search takes 144 ms; 242 ms if it counts every term.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from memoranda.store.backend import Expiry, Filter, InBranch
from memoranda_postgres.dialect import PostgresStatements
from memoranda_postgres.server import Server
from memoranda_postgres.term_index import TermIndex
from memoranda_postgres.terms import TERM_KEYS, term_key, user_key, user_of
from memoranda_postgres.text_search import MARK, TextSearch
from memoranda_ranking import MOST_COUNTED, TurnCache
from memoranda_sql import Parameters

MOST_SCOPES = 256
"""How many scopes are cached, the most recently searched ones."""

MOST_TERMS = 4_096
"""How many terms of a scope are cached."""

MOST_RECENT = 2_000
"""How many rows may have been written since, before everything is counted again."""

_MOST_TRANSACTIONS = 1 << 31
"""A row holds 32 bits of its transaction's number. Up to here the order of two numbers is certain; beyond, nothing is
cached."""

_STATE = "pg_current_snapshot()::text AS snapshot, pg_postmaster_start_time()::text AS server"

Recent = Sequence[tuple[int, frozenset[int]]]
"""The transaction that wrote each row, and the keys of the terms that find it."""


class ScopeCounts(NamedTuple):
    """The size of a scope, any number above ``MOST_COUNTED`` for more, and how many of its items have each term."""

    total: int
    frequencies: Mapping[str, int]


class _Observation(NamedTuple):
    """The result of one counting statement; ``frequencies`` counts all rows, ``recent`` are those not settled."""

    snapshot: str
    server: str
    ended: str
    until: str | None
    total: int
    recent: Recent
    frequencies: Mapping[int, int]

    @property
    def oldest(self) -> int:
        """The oldest transaction that was open."""
        return int(self.snapshot.split(":")[0])

    @property
    def following(self) -> int:
        """The first transaction that had not begun."""
        return int(self.snapshot.split(":")[1])


@dataclass(frozen=True, slots=True)
class _CachedCounts:
    """The counts of a scope's settled rows, those from before transaction ``before``, and its recent rows.

    ``server`` is the time at which the server was started. ``ended`` is when the last expired item expired, ``until``
    when the next one will.
    """

    snapshot: str
    server: str
    before: int
    ended: str
    until: str | None
    settled: int
    frequencies: Mapping[int, int]
    recent: Recent

    def holds(self, snapshot: str, server: str, now: str) -> bool:
        """Return True if nothing was written since, and nothing has expired."""
        if (snapshot, server) != (self.snapshot, self.server) or not names_open_transactions(snapshot):
            return False
        return self.until is None or now < self.until

    def counts(self, terms: Iterable[str]) -> ScopeCounts:
        """Return the counts of terms that are cached."""
        frequencies = {term: self.frequencies[key] + _with_key(self.recent, key) for term, key in _keyed(terms)}
        return ScopeCounts(self.settled + len(self.recent), frequencies)

    def updated(self, seen: _Observation) -> _CachedCounts | None:
        """Return the counts after another observation, or None if the settled rows have changed."""
        if (seen.server, seen.total - len(seen.recent)) != (self.server, self.settled):
            return None
        room = len(self.frequencies) < MOST_TERMS
        return _settled(seen, self if room else replace(self, frequencies={}))


class ScopeCounter:
    """Counts the scopes of one store."""

    def __init__(self, server: Server, statements: PostgresStatements, index: TermIndex, search: TextSearch) -> None:
        self._server = server
        self._statements = statements
        self._index = index
        self._search = search
        self._cache: dict[Any, _CachedCounts] = {}
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Drop all counts, so that none outlives purged items."""
        with self._lock:
            self._cache = {}

    def has(self, scope: Filter) -> bool:
        """Return True if the scope was counted before and is probably still large."""
        return self._key(scope) in self._cache

    def drop(self, scope: Filter) -> None:
        """Drop the counts of a scope that is no longer large."""
        self._keep(self._key(scope), None)

    async def count(self, scope: Filter, terms: Sequence[str], turns: TurnCache[str]) -> ScopeCounts:
        """Return the size of the scope and how many of its items have each of the terms.

        ``turns`` caches what is read of items that wait for the index.
        """
        key, now = self._key(scope), _now(scope)
        cached = self._cache.get(key)
        # For a search with an earlier time, items that have expired since may still be there.
        if cached is not None and cached.ended <= now:
            unknown = [term for term, number in _keyed(terms) if number not in cached.frequencies]
            if not unknown:
                ((snapshot, server),) = await self._server.fetch(f"SELECT {_STATE}", ())
                if cached.holds(snapshot, server, now):
                    return cached.counts(terms)
            updated = cached.updated(await self._observe(scope, unknown, cached.before, turns))
            if updated is not None and all(number in updated.frequencies for _, number in _keyed(terms)):
                self._keep(key, updated)
                return updated.counts(terms)
        seen = await self._observe(scope, terms, None, turns)
        self._keep(key, _settled(seen, None))
        return ScopeCounts(seen.total, {term: seen.frequencies[number] for term, number in _keyed(terms)})

    def _key(self, scope: Filter) -> Any:
        """Return the cache key of a scope; None for a forked session, whose rows depend on others."""
        if any(isinstance(condition, InBranch) for condition in scope.further):
            return None
        lasting = tuple(condition for condition in scope.further if not isinstance(condition, Expiry))
        parameters = Parameters(self._statements.dialect)
        where = self._statements.conditions(parameters, replace(scope, further=lasting))
        return where, *map(repr, parameters.values)

    def _keep(self, key: Any, cached: _CachedCounts | None) -> None:
        with self._lock:
            self._cache.pop(key, None)
            if key is not None and cached is not None:
                self._cache[key] = cached  # As the most recently searched one.
            if len(self._cache) > MOST_SCOPES:
                del self._cache[next(iter(self._cache))]

    async def _observe(
        self, scope: Filter, terms: Sequence[str], before: int | None, turns: TurnCache[str]
    ) -> _Observation:
        """Count a scope and the rows of it that have each term, in one statement.

        Rows written by transaction ``before`` or a later one are recent; by default, by the oldest open one or later.
        """
        dialect = self._statements.dialect
        parameters = Parameters(dialect)
        given = parameters.add(None if before is None else str(before))
        first = f"coalesce({given}::text::xid8, pg_snapshot_xmin(pg_current_snapshot()))"
        recent = f"FILTER (WHERE age(xmin) <= (SELECT age({first}::xid)))"
        where = self._statements.conditions(parameters, scope)
        entry = f"SELECT {TERM_KEYS}::text FROM {dialect.terms} WHERE item = added AND item_version = version"
        written = f"ARRAY[{MARK}, ({entry})]"
        now = parameters.add(_now(scope))
        mortal = f"FROM {dialect.table} WHERE expires_at > '' AND expires_at"
        columns = [
            _STATE,
            f"(SELECT max(expires_at) {mortal} <= {now})",
            f"(SELECT min(expires_at) {mortal} > {now})",
            "count(*)",
            f"(array_agg({written}) {recent})[:{MOST_RECENT + 1}]",
            f"ARRAY({self._index.unindexed(parameters, MARK, scope)})",
            *(f"({self._index.matches(parameters, 'count(*)', term, scope)})" for term in terms),
        ]
        rows = f"SELECT xmin, id, added, version FROM {dialect.table} WHERE {where} LIMIT {MOST_COUNTED + 1}"
        text = f"SELECT {', '.join(columns)} FROM ({rows}) AS few"
        (row,) = await self._server.fetch(text, parameters.values)
        snapshot, server, ended, until, total, rows_written, marks, *frequencies = row
        unindexed = await self._search.keys(marks, scope, turns) if marks else {}
        user = user_of(scope)
        return _Observation(
            snapshot,
            server,
            ended or "",
            until,
            total,
            [_recent_row(mark, entry, user, unindexed) for mark, entry in rows_written or ()],
            {
                key: count + sum(key in keys for keys in unindexed.values())
                for (_, key), count in zip(_keyed(terms), frequencies, strict=True)
            },
        )


def _settled(seen: _Observation, cached: _CachedCounts | None) -> _CachedCounts | None:
    """Return what to cache of an observation: rows from before the oldest open transaction are settled by now.

    ``cached`` holds the counts from before, if they are still valid.
    """
    if seen.total > MOST_COUNTED or len(seen.recent) > MOST_RECENT or seen.following >= _MOST_TRANSACTIONS:
        return None
    frequencies = {} if cached is None else dict(cached.frequencies)
    frequencies |= {key: count - _with_key(seen.recent, key) for key, count in seen.frequencies.items()}
    recent = [row for row in seen.recent if row[0] >= seen.oldest]
    for number, keys in seen.recent:
        if number < seen.oldest:
            for key in keys & frequencies.keys():
                frequencies[key] += 1
    settled = seen.total - len(recent)
    return _CachedCounts(seen.snapshot, seen.server, seen.oldest, seen.ended, seen.until, settled, frequencies, recent)


def _recent_row(
    mark: str, entry: str | None, user: str | None, unindexed: Mapping[str, frozenset[int]]
) -> tuple[int, frozenset[int]]:
    """Return the transaction and the keys of a row, given as its mark and the text of its keys in the index, if any."""
    number = int(mark.split(" ")[-2])
    if entry is None:
        return number, unindexed.get(mark, frozenset())
    found = frozenset(map(int, filter(None, entry.strip("{}").split(","))))
    # A term finds only rows that have the user's key too.
    return number, found if user is None or user_key(user) in found else frozenset()


def _with_key(recent: Recent, key: int) -> int:
    return sum(key in keys for _, keys in recent)


def _keyed(terms: Iterable[str]) -> list[tuple[str, int]]:
    return [(term, term_key(term)) for term in terms]


def names_open_transactions(snapshot: str) -> bool:
    """Return True if a snapshot, as text, lists every open transaction; on a standby it lists none."""
    oldest, following, listed = snapshot.split(":")
    return oldest == following or listed != ""


def _now(scope: Filter) -> str:
    """Return the time by which expiry is judged."""
    return next((each.now for each in scope.further if isinstance(each, Expiry) and not each.expired), "")
