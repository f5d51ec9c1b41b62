"""Several event loops in one process: one after the other, as ``asyncio.run`` twice makes them, or one in each thread.

A lock, a future or a connection of asyncio serves only the loop that made it; what is here serves them all. One loop
waits for another by polling: a loop that is closed in the middle of something notifies no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import socket
import threading
import time
import types
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])
Loop = asyncio.AbstractEventLoop

_LOOK = 0.002
"""Seconds between two looks at another loop."""

_LOOKS = 50
"""How many looks may find a loop not running, as between the steps of its end, before it is given up."""

BLOCKED_AFTER = 10.0
"""Seconds without a turn after which a running loop counts as blocked: ``close()`` goes on without it."""

_asked: weakref.WeakKeyDictionary[Loop, float] = weakref.WeakKeyDictionary()


def takes_turns(loop: Loop) -> bool:
    """Return True if a loop runs and is not blocked: this asks it for a turn, and later calls see if it came."""
    asked = _asked.get(loop)
    if asked is None and loop.is_running():
        asked = _asked[loop] = time.monotonic()
        with contextlib.suppress(RuntimeError):  # It was closed in this moment.
            loop.call_soon_threadsafe(_asked.pop, loop, None)
    return asked is not None and loop.is_running() and time.monotonic() - asked <= BLOCKED_AFTER


class LoopLock:
    """A lock among the coroutines of all event loops; those of one loop take turns in order.

    ``async with lock.held():`` A loop that was closed, or that belongs to the process this one was forked from, holds
    it no longer. What is left of its coroutines releases nothing when it is collected.
    """

    def __init__(self) -> None:
        self._own: PerLoop[asyncio.Lock] = PerLoop(asyncio.Lock)
        self._guard = threading.Lock()
        self._holder: tuple[Loop, int] | None = None

    @contextlib.asynccontextmanager
    async def held(self, *, by_force: bool = False) -> AsyncGenerator[None, None]:
        """Hold the lock during a block; ``by_force`` takes it from a loop that takes no turns."""
        own, holder = self._own.here(), (asyncio.get_running_loop(), os.getpid())
        await own.acquire()
        try:
            while not self._take(holder, by_force):  # noqa: ASYNC110 - an Event would be of one loop
                await asyncio.sleep(_LOOK)
            yield
        finally:
            with self._guard:
                if self._holder is holder:  # Another loop may have taken it by force.
                    self._holder = None
            with contextlib.suppress(RuntimeError):  # The loop is closed, and nothing waits in it any more.
                own.release()

    def _take(self, holder: tuple[Loop, int], by_force: bool) -> bool:
        """Give the lock to the holder, unless another holds it that can still finish."""
        with self._guard:
            if self._holder is not None:
                loop, process = self._holder
                if not loop.is_closed() and process == os.getpid() and (not by_force or takes_turns(loop)):
                    return False
            self._holder = holder
            return True


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
            await asyncio.sleep(_LOOK)
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
        await asyncio.sleep(_LOOK)
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


class _Count:
    """The number of calls under way in one loop; each is a block with this as its context manager."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls = 0

    def __enter__(self) -> None:
        self.calls += 1

    def __exit__(self, *_: object) -> None:
        self.calls -= 1


class CallsUnderWay:
    """Counts calls in every event loop, so that closing waits for them, but for none whose loop is gone."""

    def __init__(self) -> None:
        self._counts: PerLoop[_Count] = PerLoop(_Count)

    def call(self) -> contextlib.AbstractContextManager[object]:
        """Count a call from the beginning to the end of a block."""
        return self._counts.here()

    async def ended(self) -> None:
        """Wait until no call is under way in any loop that takes turns."""
        here = self._counts.here()
        while here.calls or any(count.calls and takes_turns(loop) for loop, count in self._counts.elsewhere()):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK)


@types.coroutine
def _steps(work: Any, guard: contextlib.AbstractContextManager[Any]) -> Generator[Any, Any, Any]:
    """Await something and hold the guard while it runs, but not while it waits."""
    sent = raised = None
    while True:
        with guard:
            try:
                waits = work.send(sent) if raised is None else work.throw(raised)
            except StopIteration as done:
                return done.value
        sent = raised = None
        try:
            sent = yield waits
        except BaseException as error:  # noqa: BLE001 - whatever it is, it goes to what is awaited
            raised = error


_OVER = object()


def guarded(method: Method) -> Method:
    """Mark a method that guards itself against other threads, where :func:`undivided` would cost too much."""
    method.__dict__["guarded"] = True
    return method


def undivided(method: Any) -> Any:
    """Return an async method, or async generator, whose steps between two ``await`` no other thread interrupts.

    The object's ``_turn``, a lock of threads, is held during each step. Code that counts on nothing changing while it
    does not wait, as all code in one event loop may, can then count on it in several. Methods that are not async, or
    are :func:`guarded`, are returned as they are.
    """
    if getattr(method, "guarded", False):
        return method
    if inspect.isasyncgenfunction(method):

        async def stream(self: Any, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
            async with contextlib.aclosing(method(self, *args, **kwargs)) as items:
                while (item := await _steps(anext(items, _OVER), self._turn)) is not _OVER:
                    yield item

        return functools.wraps(method)(stream)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _steps(method(self, *args, **kwargs), self._turn)

    return functools.wraps(method)(call) if inspect.iscoroutinefunction(method) else method
