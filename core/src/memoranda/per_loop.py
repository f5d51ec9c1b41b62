"""Connections in several event loops: one value for each loop, ended with it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import socket
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

from memoranda.loops import POLL_SECONDS, Loop, takes_turns

T = TypeVar("T")

_LOOKS = 50
"""How many looks may find a loop not running, as between the steps of its end, before it is given up."""


class _Entry(Generic[T]):
    """The value of one loop, and the generator that sees the loop end."""

    def __init__(self, value: T) -> None:
        self.value = value
        self.process = os.getpid()
        self.watch: AsyncGenerator[None, None] | None = None
        self.ended = False
        self._turn = asyncio.Lock()

    async def end(self, end: Callable[[T], Awaitable[None]]) -> None:
        """Await ``end`` in the loop, once: a second caller waits for the first, unless that one is broken off."""
        async with self._turn:
            if not self.ended:
                await end(self.value)
                self.ended = True


class PerLoop(Generic[T]):
    """A value that every event loop has for itself, made when a loop first asks for it.

    ``end`` is awaited with the value when its loop ends, still in that loop: at the end of ``asyncio.run``, and of
    anything else that calls ``loop.shutdown_asyncgens()``. ``abandon`` is called with it if its loop was closed before
    that, or takes no turns (and may go on at any moment) while :meth:`close` is called elsewhere. Values of a parent
    process are left to the parent.
    """

    def __init__(
        self,
        make: Callable[[], T],
        *,
        end: Callable[[T], Awaitable[None]] | None = None,
        abandon: Callable[[T], object] | None = None,
    ) -> None:
        self._make = make
        self._end = end
        self._abandon = abandon
        self._entries: dict[Loop, _Entry[T]] = {}
        self._guard = threading.Lock()

    def here(self) -> T:
        """Return the value of the running loop."""
        entry = self._entries.get(asyncio.get_running_loop())
        return self._new().value if entry is None else entry.value

    def values(self) -> list[T]:
        """Return the values of all loops, in any thread."""
        with self._guard:
            return [entry.value for entry in self._entries.values()]

    def elsewhere(self) -> list[tuple[Loop, T]]:
        """Return the values of the other loops that are not closed."""
        here = asyncio.get_running_loop()
        return [(loop, entry.value) for loop, entry in self._living() if loop is not here]

    async def each(self, work: Callable[[T], Coroutine[Any, Any, None]]) -> None:
        """Do the work with the value of each loop, in that loop, all at once; loops that do not run are left out."""
        await asyncio.gather(*(run_in(loop, functools.partial(work, entry.value)) for loop, entry in self._living()))

    async def close(self, end: Callable[[T], Awaitable[None]] | None = None) -> None:
        """End the value of every loop, in that loop, with ``end`` if it is given; :meth:`here` then makes a new one."""
        self._living()
        with self._guard:
            closing, self._entries = self._entries, {}
        await asyncio.gather(*(self._ended(loop, entry, end or self._end) for loop, entry in closing.items()))

    def _living(self) -> list[tuple[Loop, _Entry[T]]]:
        """Return the entries of loops that are not closed, and let go of the others."""
        with self._guard:
            entries = list(self._entries.items())
            gone = [loop for loop, entry in entries if loop.is_closed() or entry.process != os.getpid()]
            abandoned = [self._entries.pop(loop) for loop in gone]
            living = list(self._entries.items())
        for entry in abandoned:
            self._abandoned(entry)
        return living

    async def _ended(self, loop: Loop, entry: _Entry[T], end: Callable[[T], Awaitable[None]] | None) -> None:
        async def finish() -> None:
            if end is not None:
                await entry.end(end)
            if entry.watch is not None:
                with contextlib.suppress(RuntimeError):  # The loop is ending, and about to close it.
                    await entry.watch.aclose()

        if await run_in(loop, finish) or self._abandon is None:
            return
        for _ in range(_LOOKS):
            if entry.ended or loop.is_closed():
                break
            await asyncio.sleep(POLL_SECONDS)
        if not entry.ended:
            self._abandoned(entry)

    def _new(self) -> _Entry[T]:
        self._living()
        loop = asyncio.get_running_loop()
        entry = _Entry(self._make())
        if self._end is not None:
            entry.watch = self._watch(loop, entry, self._end)
            with contextlib.suppress(StopIteration):
                entry.watch.__anext__().__await__().send(None)  # From here on the loop knows of it.
        with self._guard:
            self._entries[loop] = entry
        return entry

    async def _watch(
        self, loop: Loop, entry: _Entry[T], end: Callable[[T], Awaitable[None]]
    ) -> AsyncGenerator[None, None]:
        """Wait for the end of the loop, which closes all generators that are still open in it."""
        try:
            yield
        finally:
            with self._guard:
                if self._entries.get(loop) is entry:
                    del self._entries[loop]
            await entry.end(end)

    def _abandoned(self, entry: _Entry[T]) -> None:
        if self._abandon is not None and entry.process == os.getpid():
            entry.ended = True
            self._abandon(entry.value)


async def run_in(loop: Loop, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
    """Do the work in a loop, this one or another. Return False if the loop takes no turns."""
    if loop is asyncio.get_running_loop():
        await work()
        return True
    tasks: list[asyncio.Task[None]] = []
    looks = 0

    def begin() -> None:
        if looks <= _LOOKS:  # It was not given up meanwhile.
            tasks.append(loop.create_task(work()))

    try:
        loop.call_soon_threadsafe(begin)
    except RuntimeError:  # It is closed.
        return False
    while not (tasks and tasks[0].done()):
        looks = 0 if takes_turns(loop) else looks + 1
        if loop.is_closed() or looks > _LOOKS:
            for task in tasks:
                coroutine = task.get_coro()
                if loop.is_running():
                    loop.call_soon_threadsafe(task.cancel)
                elif inspect.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                    coroutine.close()  # Python would warn of a coroutine that never begins.
            return False
        await asyncio.sleep(POLL_SECONDS)
    if tasks[0].cancelled():  # The loop was being ended meanwhile.
        return False
    tasks[0].result()
    return True


def hang_up(transport: Any, loop: Loop) -> None:
    """Close the connection of a transport whose loop is closed or takes no turns; the other side sees it end."""
    known = transport.get_extra_info("socket")
    number = -1 if known is None else known.fileno()
    if number >= 0:
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as same:
            same.shutdown(socket.SHUT_RDWR)
    if not loop.is_running():  # A blocked loop sees it when it goes on.
        with contextlib.suppress(RuntimeError):  # The loop is closed.
            transport.abort()
    # The transports of asyncio leave the last step to their loop, and a closed one never takes it.
    last_step = getattr(transport, "_call_connection_lost", None)
    if loop.is_closed() and last_step is not None:
        with contextlib.suppress(Exception):  # The protocol that it notifies may be gone as well.
            last_step(None)
