"""Batch the writes of concurrent tasks: each batch is one call of the server.

A write that finds nothing under way starts at once. Writes that arrive meanwhile form the next batch. One large batch
costs less than two small ones, so there is usually one at a time; a second may start where the first takes unusually
long, as on a slow disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from memoranda.errors import StoreUnavailableError
from memoranda.per_loop import PerLoop

EntryT = TypeVar("EntryT")
ResultT = TypeVar("ResultT")


class WriteBatcher(Generic[EntryT, ResultT]):
    """Batches writes within each event loop; different loops never share a batch or wait for each other.

    ``write`` takes entries and returns the outcome of each, in order: its result, or the exception to raise for it.

    * If it raises StoreUnavailableError, so does every entry of the batch. After any other exception each entry is
      written again by itself, so that none fails because of another. Writing an entry twice must store it once.
    * Cancelling a caller affects no other. A waiting entry is left out; a batch of several is finished; only an entry
      that is written alone is cancelled with its caller.

    A batch holds at most ``most`` entries, and at most ``parallel`` batches are under way. Another batch starts when
    entries have waited ``patience`` seconds, or twice as long as the last batch took; once one of them is written, what
    waits is left to the others. Entries of one ``key`` are never written at the same time and keep their order within
    their loop. Only entries of one ``kind`` share a batch.
    """

    def __init__(
        self,
        write: Callable[[list[EntryT]], Awaitable[Sequence[ResultT | Exception]]],
        *,
        key: Callable[[EntryT], Hashable] | None = None,
        kind: Callable[[EntryT], Hashable] | None = None,
        most: int = 256,
        parallel: int = 1,
        patience: float = 0.003,
    ) -> None:
        make = partial(_LoopBatcher[EntryT, ResultT], write, key, kind, most, parallel, patience)
        self._loops: PerLoop[_LoopBatcher[EntryT, ResultT]] = PerLoop(make)

    def add(self, entry: EntryT) -> Coroutine[Any, Any, ResultT]:
        """Write the entry, alone or in a batch, and return its result."""
        return self._loops.here().add(entry)

    @property
    def waiting(self) -> int:
        """How many entries wait for the next batch, in all loops."""
        return sum(len(batcher._queue) for batcher in self._loops.values())

    async def settled(self) -> None:
        """Wait until every entry so far, of each running loop, is written or has failed."""
        await self._loops.each(_LoopBatcher.settled)


@dataclass(eq=False)
class _LoopBatcher(Generic[EntryT, ResultT]):
    """Batches the writes of one event loop."""

    _write: Callable[[list[EntryT]], Awaitable[Sequence[ResultT | Exception]]]
    _key: Callable[[EntryT], Hashable] | None
    _kind: Callable[[EntryT], Hashable] | None
    _most: int
    _parallel: int
    _patience: float

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: list[tuple[EntryT, asyncio.Future[ResultT]]] = []
        self._active = 0
        self._active_keys: set[Hashable] = set()
        self._last_duration = 0.0
        self._tasks: set[asyncio.Task[None]] = set()  # The loop holds only weak references to tasks.
        self._settling: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None

    async def add(self, entry: EntryT) -> ResultT:
        """Write the entry, alone or in a batch, and return its result."""
        if not self._active:
            self._active = 1
            try:
                (outcome,) = await self._timed([entry])
            finally:
                self._finished()
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        written: asyncio.Future[ResultT] = self._loop.create_future()
        self._queue.append((entry, written))
        self._look_later()
        return await written

    async def settled(self) -> None:
        """Wait until every entry so far is written or has failed."""
        if self._active:
            settled: asyncio.Future[None] = self._loop.create_future()
            self._settling.append(settled)
            await settled

    def _look_later(self) -> None:
        """Look again when the queue has waited too long for the batch under way."""
        if self._queue and self._timer is None and self._active < self._parallel:
            delay = max(self._patience, 2 * self._last_duration)
            self._timer = self._loop.call_later(delay, self._start_another)

    def _start_another(self) -> None:
        self._timer = None
        if self._queue and self._active < self._parallel:
            self._start()

    def _start(self) -> None:
        """Start writing batches in a task; by its first step all ready callers have queued their entries."""
        self._active += 1
        task = self._loop.create_task(self._write_batches())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _finished(self) -> None:
        self._active -= 1
        if self._loop.is_closed():
            return
        if self._active:
            self._look_later()  # The other writer takes what is queued.
            return
        if self._queue:
            self._start()
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for settled in self._settling:
            if not settled.done():
                settled.set_result(None)
        self._settling.clear()

    async def _write_batches(self) -> None:
        try:
            while batch := self._next_batch():
                await self._write_batch(batch)
                # Callers that just got their result may write again at once; those entries belong in one batch.
                await asyncio.sleep(0)
                if self._active > 1:
                    break  # Two writers that share the queue would go on with two small batches instead of one.
        except BaseException:
            # The event loop is closing, and nothing is left to write the queue.
            self._cancel(self._queue)
            self._queue.clear()
            raise
        finally:
            self._finished()

    def _next_batch(self) -> list[tuple[EntryT, asyncio.Future[ResultT]]]:
        """Take entries from the queue that can be written together, dropping cancelled ones."""
        waiting = [entry for entry in self._queue if not entry[1].done()]
        if self._key is None and self._kind is None:
            self._queue = waiting[self._most :]
            return waiting[: self._most]
        batch: list[tuple[EntryT, asyncio.Future[ResultT]]] = []
        self._queue = []
        seen = set(self._active_keys)
        shared: Hashable = None
        for entry in waiting:
            kind = None if self._kind is None else self._kind(entry[0])
            if not batch:
                shared = kind
            key = None if self._key is None else self._key(entry[0])
            if kind == shared and (key is None or key not in seen) and len(batch) < self._most:
                batch.append(entry)
            else:
                self._queue.append(entry)
            # A later entry of the same key must not overtake one that stays in the queue.
            seen.add(key)
        return batch

    async def _write_batch(self, batch: list[tuple[EntryT, asyncio.Future[ResultT]]]) -> None:
        try:
            outcomes = await self._timed([entry for entry, _ in batch])
        except Exception as error:
            if self._loop.is_closed():
                raise  # No caller waits any longer, and no loop is left to try again in.
            await self._handle_failure(batch, error)
        except BaseException:
            self._cancel(batch)
            raise
        else:
            for (_, written), outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, Exception):
                    _fail(written, outcome)
                elif not written.done():
                    written.set_result(outcome)

    async def _timed(self, entries: list[EntryT]) -> Sequence[ResultT | Exception]:
        keys = [] if self._key is None else list(map(self._key, entries))
        self._active_keys.update(keys)
        started = self._loop.time()
        try:
            outcomes = await self._write(entries)
        finally:
            self._active_keys.difference_update(keys)
        self._last_duration = self._loop.time() - started
        return outcomes

    def _cancel(self, entries: list[tuple[EntryT, asyncio.Future[ResultT]]]) -> None:
        if not self._loop.is_closed():
            for _, written in entries:
                written.cancel()

    async def _handle_failure(self, batch: list[tuple[EntryT, asyncio.Future[ResultT]]], error: Exception) -> None:
        if len(batch) == 1:
            _fail(batch[0][1], error)
        elif isinstance(error, StoreUnavailableError):
            for _, written in batch:
                own = StoreUnavailableError(*error.args)  # One exception in several coroutines would mix tracebacks.
                own.__cause__ = error
                _fail(written, own)
        else:
            for entry in batch:
                if not entry[1].done():
                    await self._write_batch([entry])


def _fail(written: asyncio.Future[ResultT], error: Exception) -> None:
    if not written.done():
        written.set_exception(error)
