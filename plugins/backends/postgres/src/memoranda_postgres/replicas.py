"""Reading from replicas.

Writes go to the primary. A read goes to a replica that has everything this store wrote for the user in question and is
at most ``lag`` seconds behind; if there is none, it goes to the primary. So a store reads its own writes, while other
processes' writes of the last ``lag`` seconds may be missing. A store stays with one replica while that is good enough.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from random import randrange
from typing import Any, TypeVar

from memoranda.errors import InputError, StoreError
from memoranda.store import Finding
from memoranda_postgres.addresses import check_place
from memoranda_postgres.connections import Connection
from memoranda_postgres.faults import FOREIGN, translated
from memoranda_postgres.hosts import at_host
from memoranda_postgres.server import Server, ServerOptions
from memoranda_postgres.wal_positions import Users, WalPositions

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
