"""Filling the index of terms in the background, while nothing else is to be done."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from contextvars import Context

from memoranda_postgres.dialect import PostgresStatements
from memoranda_postgres.reindexing import has_other_terms, remade_terms
from memoranda_postgres.server import Server
from memoranda_postgres.term_index import TermIndex

logger = logging.getLogger(__name__)

FILL_AT_REST = 100
"""How many items may wait once nothing has been written for a while; ranked searches read them one by one."""

MOST_WAITING = 100_000
"""How many may wait while others are written."""

REST = 0.5
"""How many seconds without a write make a rest."""

BATCH = 100
"""How many items are indexed in one transaction, during which a connection is in use and a purge waits."""

BREATH, LONG_BREATH = 1, 9
"""How long it rests after a batch, by the time that the batch took; the longer while the store is in use. Dividing text
into words takes the processor's time."""


class IndexFiller:
    """Counts the items that this store has written, and fills the index of terms with whatever waits in the database.

    It works in the event loop that last wrote, one batch after the other. What it leaves, because the process ends or
    the server is away, waits for the next store that writes or searches, in any process. An ``idle`` one does nothing.
    """

    def __init__(self, server: Server, statements: PostgresStatements, index: TermIndex, *, idle: bool) -> None:
        self._server = server
        self._statements = statements
        self._index = index
        self._stopped = idle
        self._waiting = FILL_AT_REST  # Another process may have left some.
        self._written = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def written(self, count: int) -> None:
        """Take note of written items; called in the event loop that wrote them."""
        self._waiting += count
        self._written += count
        self._look_later()

    @property
    def waiting(self) -> int:
        """About how many of the items that this store has written wait for the index."""
        return min(self._waiting, self._written)

    def searched(self, waiting: int) -> None:
        """Take note of how many items of a scope a ranked search had to read one by one."""
        if waiting >= FILL_AT_REST:
            self._waiting = max(self._waiting, waiting)
            self._look_later()

    def start(self) -> None:
        """Look for what other processes have left."""
        self._look_later()

    async def stop(self) -> None:
        """Begin no further batch, and wait for the one under way if it is in this event loop."""
        self._stopped = True
        task, timer = self._task, self._timer
        if self._loop is asyncio.get_running_loop():
            if timer is not None:
                timer.cancel()
            if task is not None:
                await asyncio.wait([task])

    def _look_later(self) -> None:
        """Fill the index after a rest, unless that is to happen already in an event loop that is still open."""
        if self._stopped or self._waiting < FILL_AT_REST or (self._loop is not None and not self._loop.is_closed()):
            return
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(REST, self._look, self._written)

    def _look(self, written: int) -> None:
        loop, self._timer, self._loop = self._loop, None, None
        if self._stopped:
            return
        if self._written != written and self._waiting < MOST_WAITING:
            self._look_later()
        elif loop is not None:
            self._loop = loop
            # In a context of its own: a read that started this must not send it to a replica.
            self._task = loop.create_task(self._fill(), context=Context())

    async def _fill(self) -> None:
        try:
            exists = await self._index.create_if_needed()
            if exists:
                await self._renew_terms()
            while not self._stopped:
                calls, begun = self._server.calls, time.monotonic()
                done = await self._index.fill(BATCH) if exists else 0
                if not done:
                    # Another process may end before it has come to what this one wrote.
                    self._waiting = 0 if done == 0 else FILL_AT_REST
                    break
                self._waiting = max(0, self._waiting - done)
                await self._rest(begun, alone=self._server.calls == calls + 1)
        except Exception as error:  # noqa: BLE001 - no caller waits for this; the items wait, and searches read them
            logger.info("The index of terms could not be filled now: %s", type(error).__name__)
            self._waiting = 0
        finally:
            self._task = self._loop = None
        with contextlib.suppress(RuntimeError):  # The event loop is closed.
            self._look_later()

    async def _renew_terms(self) -> None:
        """Make the terms of another release anew: a search would miss what that release took for other words."""
        if not await has_other_terms(self._server, self._statements):
            return
        pages = remade_terms(self._server, self._statements, self._index, has_terms=True)
        async with contextlib.aclosing(pages):
            begun = time.monotonic()
            async for _ in pages:
                if self._stopped:
                    return
                await self._rest(begun, alone=False)
                begun = time.monotonic()

    async def _rest(self, begun: float, *, alone: bool) -> None:
        """Rest after a batch that began at this moment; ``alone`` says that nothing else used the store meanwhile."""
        await asyncio.sleep((BREATH if alone else LONG_BREATH) * (time.monotonic() - begun))
