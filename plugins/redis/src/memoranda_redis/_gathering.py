"""Writes of many coroutines, sent together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

EntryT = TypeVar("EntryT")
ResultT = TypeVar("ResultT")

MOST = 256
"""The most entries that are sent at once, so that a crowd of writers does not keep the server from its readers."""


class Gathering(Generic[EntryT, ResultT]):
    """Sends what one caller brings at once, and what others bring meanwhile together as soon as that is done.

    ``send`` takes a list of entries and returns their results in the same order. If it raises, every entry of that list
    fails with the same error. A caller that is cancelled takes nobody with it.
    """

    def __init__(self, send: Callable[[list[EntryT]], Awaitable[list[ResultT]]]) -> None:
        self._send = send
        self._waiting: list[tuple[EntryT, asyncio.Future[ResultT]]] = []
        self._busy = False
        self._task: asyncio.Task[None] | None = None

    async def submit(self, entry: EntryT) -> ResultT:
        """Send the entry, alone or with others, and return its result."""
        if not self._busy:
            self._busy = True
            try:
                return (await self._send([entry]))[0]
            finally:
                self._hand_over()
        future: asyncio.Future[ResultT] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, future))
        return await future

    async def drain(self) -> None:
        """Return when everything that was submitted has been sent."""
        while self._task is not None:
            await asyncio.wait([self._task])

    def _hand_over(self) -> None:
        if self._waiting:
            self._task = asyncio.get_running_loop().create_task(self._send_waiting())
        else:
            self._busy = False

    async def _send_waiting(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                await self._send_batch([(entry, future) for entry, future in batch if not future.done()])
                # Those who were just answered may bring their next entry before the next batch leaves.
                await asyncio.sleep(0)
        finally:
            self._busy = False
            self._task = None
            for _, future in self._waiting:
                future.cancel()
            self._waiting.clear()

    async def _send_batch(self, batch: list[tuple[EntryT, asyncio.Future[ResultT]]]) -> None:
        try:
            results = await self._send([entry for entry, _ in batch]) if batch else []
        except Exception as error:  # noqa: BLE001  # whatever it is, it belongs to those who wait
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
        except asyncio.CancelledError:
            for _, future in batch:
                future.cancel()
            raise
        else:
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)
