"""Extraction while a program runs: an observer that reads what is added, in a task of its own."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Self

from memoranda.errors import InputError
from memoranda.items import MemoryItem
from memoranda.store import Observer, Store
from memoranda.store.spaces import is_reserved, space_of
from memoranda_facts.extraction.extractors import FactExtractor, is_spoken
from memoranda_facts.extraction.running import ExtractionReport, ExtractionRun
from memoranda_facts.facts import Facts
from memoranda_facts.schema import Schema

logger = logging.getLogger(__name__)

_SAVED_EVERY = 32
"""After how many items the mark of a user is stored, if there is no pause before."""

_COLLAPSED_AT = 500
"""How many items a mark names one by one before the owner is looked through and the mark is moved."""

_KEPT_USERS = 256
"""How many users are remembered; of any other, the mark is read again when they speak."""


class BackgroundExtraction(Observer):
    """Extracts facts from every item that is added to a store, without holding up the add.

    Use it with ``async with``, around the part of a program that adds items:

    - The facts of an item belong to its user. Items without a user are not read.
    - ``queue_size`` bounds what is waiting. What does not fit is not lost: its owner is looked through later.
    - Nothing is lost when the process is killed: items that were not marked as read are found when it is started again,
      with ``catch_up`` at once, otherwise when something is added for their user.
    - A failure is logged without any content and tried again with the next item of that user; see :attr:`failures`.
    """

    def __init__(
        self,
        store: Store,
        extractor: FactExtractor,
        *,
        schema: Schema | None = None,
        queue_size: int = 1000,
        catch_up: bool = True,
    ) -> None:
        if queue_size < 1:
            raise InputError("queue_size is at least 1.", field="queue_size")
        self.failures: Counter[str] = Counter()
        self.report = ExtractionReport()
        self._store, self._extractor, self._schema = store, extractor, schema
        self._catch_up = catch_up
        self._queue: asyncio.Queue[MemoryItem] = asyncio.Queue(queue_size)
        self._behind: dict[str, None] = {}
        self._runs: dict[str, ExtractionRun] = {}
        self._unsaved: Counter[str] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        if self._catch_up:
            async with aclosing(self._store.owners("user_id", counts=False)) as owners:
                async for owner in owners:
                    if not is_reserved(str(owner.value)):
                        self._behind[str(owner.value)] = None
        self._store.observe(self)
        self._wake.set()
        self._worker = self._loop.create_task(self._work())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Read what is waiting, and stop."""
        if self._worker is not None:
            await self.drain()
            self._worker.cancel()
            with suppress(asyncio.CancelledError):
                await self._worker
            self._worker = None

    async def drain(self) -> None:
        """Wait until everything that was added so far has been read, or has failed."""
        await asyncio.sleep(0)  # What another thread has added arrives.
        await self._idle.wait()

    def gauges(self) -> dict[str, int]:
        """Return the backlog for telemetry: queued items, and users to scan."""
        return {"extraction.backlog": self._queue.qsize() + len(self._behind)}

    def added(self, items: Sequence[MemoryItem]) -> None:
        """Queue what people said, but for what they said in spaces: nobody speaks as the owner of one."""
        spoken = [
            item for item in items if is_spoken(item) and item.metadata.user_id is not None and space_of(item) is None
        ]
        if not spoken or self._loop is None or self._worker is None:
            return
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if here:
            self._take(spoken)
        else:
            self._loop.call_soon_threadsafe(self._take, spoken)

    def _take(self, items: Sequence[MemoryItem]) -> None:
        self._idle.clear()
        for item in items:
            if self._queue.full():
                self._behind[str(item.metadata.user_id)] = None
            else:
                self._queue.put_nowait(item)
        self._wake.set()

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._behind or not self._queue.empty():
                await self._next()
            for user in list(self._unsaved):
                await self._guarded(user, self._save(user))
            for user in list(self._runs)[:-_KEPT_USERS]:
                del self._runs[user]
            if not self._behind and self._queue.empty():
                self._idle.set()

    async def _next(self) -> None:
        """Read the next items of one user, or scan a user whose backlog overflowed."""
        if self._behind:
            user = next(iter(self._behind))
            del self._behind[user]
            await self._guarded(user, self._look_through(user))
            return
        first = self._queue.get_nowait()
        user = str(first.metadata.user_id)
        if user not in self._runs:
            self._behind[user] = None  # The first that is heard of them: there may be more from before.
        else:
            more = self._queued(user, self._extractor.batch_size - 1)
            await self._guarded(user, self._read(user, [first, *more]))

    def _queued(self, user: str, most: int) -> list[MemoryItem]:
        """Take some items of a user out of the queue."""
        taken: list[MemoryItem] = []
        for _ in range(self._queue.qsize()):
            item = self._queue.get_nowait()
            if item.metadata.user_id == user and len(taken) < most:
                taken.append(item)
            else:
                self._queue.put_nowait(item)
        return taken

    async def _look_through(self, user: str) -> None:
        run = self._runs.get(user) or ExtractionRun(
            Facts(self._store.scoped(user_id=user), schema=self._schema), self._extractor
        )
        if user not in self._runs and await run.is_complete():
            self._runs[user] = run
            return
        self._queued(user, self._queue.qsize())  # They are among what is looked through.
        self._note(await run.run())
        self._runs[user] = run
        del self._unsaved[user]

    async def _read(self, user: str, items: Sequence[MemoryItem]) -> None:
        run = self._runs[user]
        self._note(await run.read(items))
        self._unsaved[user] += len(items)
        if run.mark is not None and len(run.mark.done) > _COLLAPSED_AT:
            await run.save()
            await self._look_through(user)
        elif self._unsaved[user] >= _SAVED_EVERY:
            await self._save(user)

    async def _save(self, user: str) -> None:
        await self._runs[user].save()
        del self._unsaved[user]

    def _note(self, report: ExtractionReport) -> None:
        total = self.report
        total.read += report.read
        total.proposed += report.proposed
        total.applied += report.applied
        total.unread += report.unread
        total.rejected.update(report.rejected)
        total.usage.add(report.usage)

    async def _guarded(self, user: str, work: object) -> None:
        """Do some work for a user; if it fails, forget the user's state, so that the user is scanned again."""
        try:
            await work  # type: ignore[misc]  # it is a coroutine
        except Exception as error:  # One user's failure must not stop the others.
            self.failures[type(error).__name__] += 1
            self._runs.pop(user, None)
            del self._unsaved[user]
            logger.error("Facts could not be extracted: %s. They are tried again.", type(error).__name__)
            logger.debug("What was raised:", exc_info=error)
