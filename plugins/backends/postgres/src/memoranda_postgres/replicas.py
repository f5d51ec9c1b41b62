"""Reading from replicas.

Writes go to the primary. A read goes to a replica that has everything this store wrote for the user in question and is
at most ``lag`` seconds behind; if there is none, it goes to the primary. So a store reads its own writes, while other
processes' writes of the last ``lag`` seconds may be missing. A store stays with one replica while that is good enough.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from random import randrange
from typing import Any, TypeVar

from memoranda.errors import InputError, StoreError
from memoranda.store import Finding
from memoranda_postgres.connections import Connection
from memoranda_postgres.faults import FOREIGN, translated
from memoranda_postgres.server import Server, ServerOptions
from memoranda_postgres.urls import at_host, check_place

_MOST_USERS = 10_000

Users = Iterable[str | None] | None
"""The users that a read or write concerns; None means all of them."""


class WalPositions:
    """The positions (LSN) at which this store wrote, and those seen on the primary. Times are monotonic.

    A replica that is read from must have everything that this store wrote for the users in question, and must not lag
    more than a given time. Positions are numbers of bytes and only grow.
    """

    def __init__(self, lag: float) -> None:
        self._lag = lag
        self._newest = 0
        self._all = 0
        self._users: OrderedDict[str | None, int] = OrderedDict()
        self._seen: deque[tuple[float, int]] = deque()
        # Counts of writes whose positions are unknown: the last number, of all users, and of single users.
        self._lost = 0
        self._lost_all = 0
        self._lost_users: dict[str | None, int] = {}

    def begin(self) -> int:
        """Return a number to pass to :meth:`observed`; take it before asking the primary."""
        return self._lost

    def observed(self, begun: int, position: int, now: float) -> None:
        """Record the position of the primary; it covers writes whose own position was lost before it was asked for."""
        self._newest = max(self._newest, position)
        if 0 < self._lost_all <= begun:
            self._lost_all, self._all = 0, self._newest
        for user in [user for user, number in self._lost_users.items() if number <= begun]:
            del self._lost_users[user]
            self.wrote([user])
        # Ten samples within the lag are enough.
        if not self._seen or now - self._seen[-1][0] >= self._lag / 10:
            self._seen.append((now, self._newest))
        while len(self._seen) > 1 and self._seen[1][0] <= now - self._lag:
            self._seen.popleft()

    def wrote(self, users: Users) -> None:
        """Record a write that ended before the primary was last observed."""
        if users is None:
            self._all = self._newest
            return
        for user in users:
            self._users[user] = self._newest
            self._users.move_to_end(user)
        while len(self._users) > _MOST_USERS:
            _, left = self._users.popitem(last=False)
            self._all = max(self._all, left)

    def lost(self, users: Users) -> None:
        """Record a write that may have been done at an unknown position."""
        self._lost += 1
        if users is None or len(self._lost_users) > _MOST_USERS:
            self._lost_all = self._lost
        else:
            self._lost_users.update(dict.fromkeys(users, self._lost))

    def needed(self, users: Users) -> int | None:
        """Return the position that a replica needs for these users; None if only the primary will do."""
        if self._lost_all or not self._seen:
            return None
        if users is None:
            return None if self._lost_users else self._newest_written()
        asked = list(users)
        if any(user in self._lost_users for user in asked):
            return None
        return max(self._all, self._seen[0][1], *(self._users.get(user, 0) for user in asked), 0)

    def _newest_written(self) -> int:
        # The last in order is the last that was written.
        last = next(reversed(self._users.values()), 0)
        return max(self._all, self._seen[0][1], last)


T = TypeVar("T")

_REACHED_IN = 2.0
_ASKED_EVERY = 1.0
_GONE_FOR = 5.0
_BEHIND_FOR = 0.1
_NO_PAUSES = (None,)
_POSITION = (
    "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END "
    "- '0/0'::pg_lsn"
)


@dataclass(frozen=True, slots=True)
class _Read:
    """The server and the users of a read; an embedder that is called meanwhile may use a store of its own."""

    server: ReplicatedServer
    users: Users


_reading: ContextVar[_Read | None] = ContextVar("memoranda_postgres_reading", default=None)
_on_primary: ContextVar[bool] = ContextVar("memoranda_postgres_on_primary", default=False)


@contextlib.contextmanager
def on_primary() -> Generator[None, None, None]:
    """Send every read in this context, of this task and those it starts, to the primary."""
    token = _on_primary.set(True)
    try:
        yield
    finally:
        _on_primary.reset(token)


class Replica:
    """One replica, its last known position, and until when it is avoided."""

    def __init__(self, options: ServerOptions, place: str) -> None:
        self.place = place
        # It connects on the first read and is given up quickly, since there is always the primary.
        reached = min(_REACHED_IN, options.connect_timeout)
        options = replace(
            options,
            dsn=at_host(options.dsn, place),
            min_size=0,
            connect_timeout=reached,
            timeout=max(reached, options.timeout / 2),
        )
        self.server = Server(options, pauses=_NO_PAUSES)
        self._position = 0
        self._answered = float("-inf")
        self._avoided_until = 0.0

    async def has_reached(self, needed: int) -> bool:
        """Return True if the replica answers and has replayed so far; it is asked only where that is unknown."""
        now = time.monotonic()
        if now < self._avoided_until:
            return False
        # Not every read asks again a replica that was behind a moment ago; it may suffice for other users.
        known_for = _ASKED_EVERY if self._position >= needed else _BEHIND_FOR
        if now - self._answered >= known_for:
            try:
                async with asyncio.timeout(_REACHED_IN):
                    self._position = await self.position()
            except (StoreError, TimeoutError):
                self.avoid()
                return False
            self._answered = time.monotonic()
        return self._position >= needed

    async def position(self) -> int:
        """Return the position that the replica has replayed."""
        return int((await self.server.fetch(_POSITION, ()))[0][0])

    def avoid(self) -> None:
        """Read elsewhere for some seconds."""
        self._avoided_until = time.monotonic() + _GONE_FOR


class ReplicatedServer(Server):
    """A primary with replicas; work that only reads runs on a replica that is recent enough."""

    def __init__(self, options: ServerOptions, places: Sequence[str], lag: float) -> None:
        super().__init__(options)
        self.lag = lag
        self._replicas = [Replica(options, place) for place in places]
        self._current = randrange(len(self._replicas))
        self._positions = WalPositions(lag)
        self._next_sample = 0.0

    @property
    def _is_direct(self) -> bool:
        return False  # There may be a pooler in front of a replica only.

    async def open(self) -> None:
        """Connect to the primary alone, so that an unreachable replica stops nothing."""
        await super().open()
        for replica in self._replicas:
            await replica.server.open()
        with contextlib.suppress(StoreError):
            await self._sample_position()

    async def close(self) -> None:
        """Disconnect from all of them."""
        await super().close()
        for replica in self._replicas:
            await replica.server.close()

    @contextlib.contextmanager
    def reading(self, users: Users) -> Iterator[None]:
        """Mark a context that only reads items of these users; None means all."""
        token = _reading.set(_Read(self, users))
        try:
            yield
        finally:
            # A call that was abandoned with its loop ends in another context, where nothing was set.
            with contextlib.suppress(ValueError):
                _reading.reset(token)

    @contextlib.contextmanager
    def writing(self, users: Users) -> Iterator[None]:
        """Mark a context that writes items of these users, even if it fails."""
        try:
            yield
        except BaseException:
            # It may have been done, and a conflict means that another writer was faster than our last read.
            self._positions.lost(users)
            raise
        self._positions.wrote(users)

    @contextlib.asynccontextmanager
    async def one_state(self) -> AsyncGenerator[bool, None]:
        """Read from the primary: replaying would end a long transaction on a replica."""
        with on_primary():
            async with super().one_state() as certain:
                yield certain

    async def run(self, work: Callable[[Connection], Awaitable[T]], *, repeatable: bool = True) -> T:
        """Run the work, on a replica if it only reads."""
        self.check_usable()
        read = _reading.get()
        if read is None or read.server is not self or _on_primary.get():
            return await super().run(work, repeatable=repeatable)
        try:
            async with asyncio.timeout(self.timeout):
                return await self._read(work, read.users)
        except TimeoutError as error:
            raise translated(error, self.where, self.timeout) from error

    async def _read(self, work: Callable[[Connection], Awaitable[T]], users: Users) -> T:
        if time.monotonic() >= self._next_sample:
            await self._sample_position_quickly()
        needed = self._positions.needed(users)
        for offset in range(len(self._replicas)) if needed is not None else ():
            number = (self._current + offset) % len(self._replicas)
            replica = self._replicas[number]
            if not await replica.has_reached(needed or 0):
                continue
            try:
                async with asyncio.timeout(replica.server.timeout):
                    found = await replica.server.run(work)
            except (StoreError, TimeoutError):
                # Also after a conflict with replay, which cancels the query. The primary can always answer.
                replica.avoid()
                continue
            self._current = number
            return found
        return await super().run(work)

    async def _done(self, connection: Connection, work: Callable[[Connection], Awaitable[T]]) -> T:
        done = await super()._done(connection, work)
        read = _reading.get()
        if read is None or read.server is not self:
            await self._note(connection)
        return done

    async def _note(self, connection: Connection) -> None:
        """Learn the primary's position after a write; the write stands even if this fails."""
        begun = self._positions.begin()
        try:
            rows = await super()._done(connection, lambda given: given.fetch(_POSITION, timeout=self.timeout))
        except FOREIGN:
            self._positions.lost(None)
        else:
            self._positions.observed(begun, int(rows[0][0]), time.monotonic())

    async def _sample_position_quickly(self) -> None:
        """Learn the primary's position from time to time; if that fails, the last one counts."""
        self._next_sample = time.monotonic() + min(_ASKED_EVERY, self.lag / 4)
        try:
            async with asyncio.timeout(_ASKED_EVERY):
                await self._sample_position()
        except (StoreError, TimeoutError):
            self._next_sample = time.monotonic() + _GONE_FOR

    async def _sample_position(self) -> None:
        begun = self._positions.begin()
        rows = await super().run(lambda connection: connection.fetch(_POSITION, timeout=self.timeout))
        self._positions.observed(begun, int(rows[0][0]), time.monotonic())

    async def findings(self) -> list[Finding]:
        """Return the findings of ``memoranda doctor`` on each replica."""
        await self._sample_position()
        newest = self._positions.needed(()) or 0
        return [await self._finding(replica, newest) for replica in self._replicas]

    async def _finding(self, replica: Replica, newest: int) -> Finding:
        name = f"replica {replica.place}"
        try:
            async with asyncio.timeout(_REACHED_IN):
                position = await replica.position()
        except (StoreError, TimeoutError) as error:
            return Finding(name, False, f"cannot be read from ({type(error).__name__})", "Check that it runs.")
        if position < newest:
            detail = f"{newest - position} bytes behind what it had to have {self.lag:g} seconds ago; not read from"
            return Finding(name, False, detail, "Check that it follows the primary.")
        return Finding(name, True, f"is read from; at most {self.lag:g} seconds behind")


def checked_places(replicas: Any) -> list[str]:
    """Return the replicas' addresses, given as comma-separated text or as a list of host or host:port."""
    given = replicas.split(",") if isinstance(replicas, str) else replicas
    for place in given if isinstance(given, Sequence) else [None]:
        if not isinstance(place, str) or not place or "@" in place or "/" in place:
            raise InputError("replicas are given as host or host:port, with commas in between.", field="replicas")
        check_place(f"postgresql://{place}", field="replicas", needs_host=True)
    return list(given)
