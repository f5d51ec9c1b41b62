"""Writes of many coroutines, gathered into waves: each wave is one call of the engine.

Nobody waits for company. A write that finds nothing else under way begins at once; those that arrive meanwhile go
together when their turn comes. Large waves cost least, so there is one at a time; where one takes much longer than
those before it, a further one may begin. Two that took turns with the same disk would only be half as large.

For engines that are awaited. The SQLite store has a queue of its own, which is emptied on a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from memoranda.errors import StoreUnavailableError
from memoranda.loops import PerLoop

EntryT = TypeVar("EntryT")
ResultT = TypeVar("ResultT")


class Gathering(Generic[EntryT, ResultT]):
    """Gathers what coroutines write; those of different event loops never share a wave, nor wait for each other.

    ``write`` takes entries and returns what became of each, in their order: its result, or the exception that is raised
    for the one who brought it. If it raises StoreUnavailableError, everyone in that wave gets one; after any other
    exception each entry is written again by itself, so that nobody fails for another's. An entry may thus be written
    twice, and must then be kept once. A caller that is cancelled takes nobody along: what waits is left out, what goes
    with others is finished, and only what goes alone is cancelled with him.

    ``most`` is how many entries a wave has, ``waves`` how many may be under way, and ``patience`` how many seconds
    entries wait for a wave, or twice as long as the last one took, before a further one begins. Entries of one ``key``
    are never under way together and keep their order within their loop; only entries of one ``kind`` share a wave.
    """

    def __init__(
        self,
        write: Callable[[list[EntryT]], Awaitable[Sequence[ResultT | Exception]]],
        *,
        key: Callable[[EntryT], Hashable] | None = None,
        kind: Callable[[EntryT], Hashable] | None = None,
        most: int = 256,
        waves: int = 1,
        patience: float = 0.003,
    ) -> None:
        make = partial(_OfOneLoop[EntryT, ResultT], write, key, kind, most, waves, patience)
        self._loops: PerLoop[_OfOneLoop[EntryT, ResultT]] = PerLoop(make)

    def add(self, entry: EntryT) -> Coroutine[Any, Any, ResultT]:
        """Write the entry, alone or with others, and return its result."""
        return self._loops.here().add(entry)

    async def settled(self) -> None:
        """Wait until everything that was brought, in whichever loop that still runs, is written or has failed."""
        await self._loops.each(_OfOneLoop.settled)


@dataclass(eq=False)
class _OfOneLoop(Generic[EntryT, ResultT]):
    """What is gathered in one event loop."""

    _write: Callable[[list[EntryT]], Awaitable[Sequence[ResultT | Exception]]]
    _key: Callable[[EntryT], Hashable] | None
    _kind: Callable[[EntryT], Hashable] | None
    _most: int
    _waves: int
    _patience: float

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: list[tuple[EntryT, asyncio.Future[ResultT]]] = []
        self._under_way = 0
        self._keys: set[Hashable] = set()  # Of the entries that are under way.
        self._usual = 0.0
        self._tasks: set[asyncio.Task[None]] = set()  # Held here, since the loop alone would let them be collected.
        self._settling: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None

    async def add(self, entry: EntryT) -> ResultT:
        """Write the entry, alone or with others, and return its result."""
        if not self._under_way:
            self._under_way = 1
            try:
                (outcome,) = await self._timed([entry])
            finally:
                self._ended()
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        loop = asyncio.get_running_loop()
        written: asyncio.Future[ResultT] = loop.create_future()
        self._queue.append((entry, written))
        if self._timer is None and self._under_way < self._waves:
            self._timer = loop.call_later(max(self._patience, 2 * self._usual), self._lose_patience)
        return await written

    async def settled(self) -> None:
        """Wait until everything that was brought is written or has failed."""
        if self._under_way:
            settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._settling.append(settled)
            await settled

    def _lose_patience(self) -> None:
        self._timer = None
        if self._queue and self._under_way < self._waves:
            self._start()

    def _start(self) -> None:
        """Begin a run of waves; it looks at the queue when all who are ready have brought theirs."""
        self._under_way += 1
        task = asyncio.get_running_loop().create_task(self._write_waves())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _ended(self) -> None:
        self._under_way -= 1
        if self._loop.is_closed() or self._under_way:
            return  # Whoever goes on takes what waits.
        if self._queue:
            self._start()
        else:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            for settled in self._settling:
                if not settled.done():
                    settled.set_result(None)
            self._settling.clear()

    async def _write_waves(self) -> None:
        try:
            while wave := self._wave():
                await self._write_wave(wave)
                # Whoever was just answered may write at once; that belongs into the next wave, together.
                await asyncio.sleep(0)
        except BaseException:
            # The event loop is being closed: there is nobody left to write for those who wait.
            self._give_up(self._queue)
            self._queue.clear()
            raise
        finally:
            self._ended()

    def _wave(self) -> list[tuple[EntryT, asyncio.Future[ResultT]]]:
        """Take from the queue what can be written together, leaving out what has been given up."""
        waiting = [entry for entry in self._queue if not entry[1].done()]
        wave: list[tuple[EntryT, asyncio.Future[ResultT]]] = []
        self._queue = []
        seen = set(self._keys)
        shared: Hashable = None
        for entry in waiting:
            kind = None if self._kind is None else self._kind(entry[0])
            if not wave:
                shared = kind
            key = None if self._key is None else self._key(entry[0])
            if kind == shared and (key is None or key not in seen) and len(wave) < self._most:
                wave.append(entry)
            else:
                self._queue.append(entry)
            # What was left behind keeps its turn among those of the same key.
            seen.add(key)
        return wave

    async def _write_wave(self, wave: list[tuple[EntryT, asyncio.Future[ResultT]]]) -> None:
        try:
            outcomes = await self._timed([entry for entry, _ in wave])
        except Exception as error:
            if self._loop.is_closed():
                raise  # Nobody waits any longer, and there is no loop to try again in.
            await self._answer_failure(wave, error)
        except BaseException:
            self._give_up(wave)
            raise
        else:
            for (_, written), outcome in zip(wave, outcomes, strict=True):
                if written.done():
                    continue
                if isinstance(outcome, Exception):
                    written.set_exception(outcome)
                else:
                    written.set_result(outcome)

    async def _timed(self, entries: list[EntryT]) -> Sequence[ResultT | Exception]:
        keys = [] if self._key is None else list(map(self._key, entries))
        self._keys.update(keys)
        begun = self._loop.time()
        try:
            outcomes = await self._write(entries)
        finally:
            self._keys.difference_update(keys)
        self._usual = self._loop.time() - begun
        return outcomes

    def _give_up(self, entries: list[tuple[EntryT, asyncio.Future[ResultT]]]) -> None:
        if not self._loop.is_closed():
            for _, written in entries:
                written.cancel()

    async def _answer_failure(self, wave: list[tuple[EntryT, asyncio.Future[ResultT]]], error: Exception) -> None:
        if len(wave) == 1:
            _fail(wave[0][1], error)
        elif isinstance(error, StoreUnavailableError):
            for _, written in wave:
                own = StoreUnavailableError(*error.args)  # One exception in several coroutines would mix their traces.
                own.__cause__ = error
                _fail(written, own)
        else:
            for waiting in wave:
                if not waiting[1].done():
                    await self._write_wave([waiting])


def _fail(written: asyncio.Future[ResultT], error: Exception) -> None:
    if not written.done():
        written.set_exception(error)
