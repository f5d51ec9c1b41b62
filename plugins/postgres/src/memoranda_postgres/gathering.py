"""Adds of many coroutines, gathered into waves: each wave is one statement and one commit.

Nobody waits for company. An add that finds nothing else going on is written at once; those that arrive meanwhile are
written together when their turn comes. Large waves cost least, so there is one at a time; only where it takes long, as
with a slow disk or network, a second one is executed while the first waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from memoranda.errors import IdConflictError, MemoryError, StoreUnavailableError
from memoranda.items import MemoryMetadata
from memoranda.sql import Row

_MOST_TOGETHER = 256
_MOST_WAVES = 2
_PATIENCE = 0.003  # seconds that adds wait for the wave before them, until a second one is begun


class Addition(NamedTuple):
    """An item on its way into the table: its columns so far, and which scope fields a row of its id must share.

    ``times`` is how often the item was given; ``within`` is kept only where fields cannot say it. With ``deleted`` the
    row is hidden from the first moment.
    """

    row: Row
    further: tuple[Any, ...]
    token: int
    fields: tuple[str, ...]
    within: MemoryMetadata | None
    vector: Sequence[float] | None = None
    times: int = 1
    number: int | None = None
    deleted: bool = False


Waiting = tuple[Addition, asyncio.Future[None]]


class Gathering:
    """Gathers adds for one store. ``write`` writes items of different ids and returns the ids that were refused."""

    def __init__(self, write: Callable[[list[Addition]], Awaitable[set[str]]]) -> None:
        self._write = write
        self._queue: list[Waiting] = []
        self._under_way = 0
        self._tasks: set[asyncio.Task[None]] = set()  # held here, since the loop alone would let them be collected
        self._settling: list[asyncio.Future[None]] = []
        self._patience: asyncio.TimerHandle | None = None

    async def add(self, addition: Addition) -> None:
        """Write one item. Raises IdConflictError where it was refused."""
        if not self._under_way:
            self._under_way = 1
            try:
                refused = await self._write([addition])
            finally:
                self._ended()
            if refused:
                raise IdConflictError(addition.row.id)
            return
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        self._queue.append((addition, written))
        if self._patience is None and self._under_way < _MOST_WAVES:
            self._patience = loop.call_later(_PATIENCE, self._lose_patience)
        await written

    async def settled(self) -> None:
        """Wait until every add that has begun is done."""
        if self._under_way:
            settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._settling.append(settled)
            await settled

    def _lose_patience(self) -> None:
        self._patience = None
        if self._queue and self._under_way < _MOST_WAVES:
            self._start()

    def _start(self) -> None:
        """Begin a run of waves; it looks at the queue when all who are ready have added."""
        self._under_way += 1
        task = asyncio.get_running_loop().create_task(self._write_waves())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _ended(self) -> None:
        self._under_way -= 1
        if self._queue:
            self._start()
        elif not self._under_way:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None
            for settled in self._settling:
                if not settled.done():
                    settled.set_result(None)
            self._settling.clear()

    async def _write_waves(self) -> None:
        try:
            while self._queue:
                await self._write_wave(self._wave())
                # Whoever was just answered may add at once; those adds belong into the next wave, together.
                await asyncio.sleep(0)
        finally:
            self._ended()

    def _wave(self) -> list[Waiting]:
        """Take from the queue what one statement can write: no id twice, and the same shared fields."""
        wave: list[Waiting] = []
        left = []
        seen: set[str] = set()
        for entry in self._queue:
            addition, written = entry
            if written.done():
                continue  # Whoever added it has given up.
            alike = not wave or (
                addition.fields == wave[0][0].fields and addition.within is None and wave[0][0].within is None
            )
            if alike and addition.row.id not in seen and len(wave) < _MOST_TOGETHER:
                wave.append(entry)
            else:
                left.append(entry)
            # What was left behind keeps its turn among the adds of the same id.
            seen.add(addition.row.id)
        self._queue = left
        return wave

    async def _write_wave(self, wave: list[Waiting]) -> None:
        if not wave:
            return
        try:
            refused = await self._write([addition for addition, _ in wave])
        except MemoryError as error:
            await self._answer_failure(wave, error)
        except BaseException:
            for _, written in wave:
                written.cancel()
            raise
        else:
            for addition, written in wave:
                if addition.row.id in refused:
                    _fail(written, IdConflictError(addition.row.id), None)
                elif not written.done():
                    written.set_result(None)

    async def _answer_failure(self, wave: list[Waiting], error: MemoryError) -> None:
        if len(wave) == 1:
            _fail(wave[0][1], error, error.__cause__)
        elif isinstance(error, StoreUnavailableError):
            for _, written in wave:
                _fail(written, StoreUnavailableError(*error.args), error)
        else:
            # One of them cannot be stored; alone, each gets its own answer.
            for entry in wave:
                await self._write_wave([entry])


def _fail(written: asyncio.Future[None], error: MemoryError, cause: BaseException | None) -> None:
    if not written.done():
        error.__cause__ = cause
        written.set_exception(error)
