"""Several event loops in one process: one after the other, as ``asyncio.run`` twice makes them, or one in each thread.

A lock, a future or a connection of asyncio serves the loop that made it and no other. Here is what a store needs to
serve all of them. Whoever waits for another loop looks again and again whether that one still lives, since a loop that
was closed in the middle of something tells nobody. A program with one event loop never waits like that.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import socket
import threading
import types
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])
Loop = asyncio.AbstractEventLoop

_LOOK = 0.002
"""How many seconds pass between two looks at what another loop does."""

_LOOKS = 50
"""How often a loop is looked at that does not run, as it may between the steps of its end, before it is given up."""


class LoopLock:
    """A lock among the coroutines of all event loops; those of one loop take turns in order.

    ``async with lock.held():`` A loop that was closed, or stayed behind in the process that this one was forked from,
    holds it no longer, and what is left of its coroutines releases nothing when it is collected.
    """

    def __init__(self) -> None:
        self.own: PerLoop[asyncio.Lock] = PerLoop(asyncio.Lock)
        self._guard = threading.Lock()
        self._holder: _Held | None = None

    def held(self) -> _Held:
        """Return what holds the lock from the beginning of an ``async with`` to its end."""
        return _Held(self)

    def take(self, holder: _Held) -> bool:
        """Give the lock to the holder and return whether that could be."""
        with self._guard:
            if self._holder is not None and self._holder.lives():
                return False
            self._holder = holder
            return True

    def release(self, holder: _Held) -> None:
        """Take the lock back, unless another has it by now."""
        with self._guard:
            if self._holder is holder:
                self._holder = None


class _Held:
    """One holding of a lock."""

    def __init__(self, lock: LoopLock) -> None:
        self._lock = lock
        self._loop = asyncio.get_running_loop()
        self._process = os.getpid()
        self._own = lock.own.here()

    def lives(self) -> bool:
        """Whether the one who holds it can still come to his end."""
        return not self._loop.is_closed() and self._process == os.getpid()

    async def __aenter__(self) -> None:
        await self._own.acquire()
        try:
            while not self._lock.take(self):  # noqa: ASYNC110 - an Event would be of one loop
                await asyncio.sleep(_LOOK)
        except BaseException:
            self._own.release()
            raise

    async def __aexit__(self, *exc_info: object) -> None:
        self._lock.release(self)
        with contextlib.suppress(RuntimeError):  # Its loop is closed, and so is that of those who wait there.
            self._own.release()


class _Entry(Generic[T]):
    """What a loop has, and what is told when the loop ends."""

    def __init__(self, value: T) -> None:
        self.value = value
        self.process = os.getpid()
        self.watch: AsyncGenerator[None, None] | None = None
        self.ended = False
        self._turn = asyncio.Lock()

    async def end(self, end: Callable[[T], Awaitable[None]]) -> None:
        """Await its end in its loop, once: who comes second waits for the first, unless that one is broken off."""
        async with self._turn:
            if not self.ended:
                await end(self.value)
                self.ended = True


class PerLoop(Generic[T]):
    """Something that every event loop has for itself, made when a loop first asks for it.

    ``end`` is awaited with it when its loop comes to its end, still in that loop: at the end of ``asyncio.run`` and of
    whatever else calls ``loop.shutdown_asyncgens()``. ``abandon`` is called with it where nobody can await anything in
    its loop any more: it was closed before, or does not run while :meth:`close` is called elsewhere. What stayed behind
    in a parent process is left to the parent.
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

    def __len__(self) -> int:
        return len(self._entries)

    def here(self) -> T:
        """Return what the running loop has."""
        entry = self._entries.get(asyncio.get_running_loop())
        return self._new().value if entry is None else entry.value

    def elsewhere(self) -> list[tuple[Loop, T]]:
        """Return what the other loops have that live."""
        self.sweep()
        here = asyncio.get_running_loop()
        with self._guard:
            return [(loop, entry.value) for loop, entry in self._entries.items() if loop is not here]

    def sweep(self) -> None:
        """Let go of what loops had that were closed."""
        with self._guard:
            gone = [
                self._entries.pop(loop)
                for loop, entry in list(self._entries.items())
                if loop.is_closed() or entry.process != os.getpid()
            ]
        for entry in gone:
            self._abandoned(entry)

    async def each(self, work: Callable[[T], Coroutine[Any, Any, None]]) -> None:
        """Do the work with what each loop has, in that loop, all at once; what does not run is left out."""
        self.sweep()
        with self._guard:
            entries = list(self._entries.items())
        await asyncio.gather(*(run_in(loop, functools.partial(work, entry.value)) for loop, entry in entries))

    async def close(self, end: Callable[[T], Awaitable[None]] | None = None) -> None:
        """End what every loop has, in that loop, with ``end`` where it is given; whoever asks later has a new one."""
        self.sweep()
        with self._guard:
            entries, self._entries = self._entries, {}
        await asyncio.gather(*(self._ended(loop, entry, end or self._end) for loop, entry in entries.items()))

    async def _ended(self, loop: Loop, entry: _Entry[T], end: Callable[[T], Awaitable[None]] | None) -> None:
        async def finish() -> None:
            if end is not None:
                await entry.end(end)
            if entry.watch is not None:
                with contextlib.suppress(RuntimeError):  # The loop comes to its end, and is about to do so itself.
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
        self.sweep()
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
    """Do the work in a loop, this one or another, and return whether that could be: not if it does not run any more."""
    if loop is asyncio.get_running_loop():
        await work()
        return True
    tasks: list[asyncio.Task[None]] = []
    try:
        loop.call_soon_threadsafe(lambda: tasks.append(loop.create_task(work())))
    except RuntimeError:  # It is closed.
        return False
    looks = 0
    while not (tasks and tasks[0].done()):
        looks = 0 if loop.is_running() else looks + 1
        if loop.is_closed() or looks > _LOOKS:
            _leave(tasks)
            return False
        await asyncio.sleep(_LOOK)
    if tasks[0].cancelled():  # The loop was being ended meanwhile.
        return False
    tasks[0].result()
    return True


def _leave(tasks: list[asyncio.Task[None]]) -> None:
    """Close what a loop was given in its last moment and will never begin, of which Python would complain."""
    for work in (task.get_coro() for task in tasks):
        if inspect.iscoroutine(work) and inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
            work.close()


def hang_up(transport: Any) -> None:
    """Close the connection of a transport whose loop is closed or stands still, so that the other side sees its end."""
    known = transport.get_extra_info("socket")
    number = -1 if known is None else known.fileno()
    if number >= 0:
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as same:
            same.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(RuntimeError):  # The loop is closed.
        transport.abort()
    # The transports of asyncio leave the last step to their loop, and a closed one never takes it.
    loop, last_step = getattr(transport, "_loop", None), getattr(transport, "_call_connection_lost", None)
    if loop is not None and loop.is_closed() and last_step is not None:
        with contextlib.suppress(Exception):  # Whom it tells of the end is gone as well.
            last_step(None)


class _Count:
    """How many calls are under way in one loop; each is a block in which this is the context."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls = 0

    def __enter__(self) -> None:
        self.calls += 1

    def __exit__(self, *_: object) -> None:
        self.calls -= 1


class CallsUnderWay:
    """Counts calls, each in its event loop, so that whoever closes waits for them, and for none whose loop is gone."""

    def __init__(self) -> None:
        self._counts: PerLoop[_Count] = PerLoop(_Count)

    def __len__(self) -> int:
        return sum(count.calls for count in self._running())

    def call(self) -> contextlib.AbstractContextManager[object]:
        """Count a call from the beginning to the end of a block."""
        return self._counts.here()

    async def ended(self) -> None:
        """Wait until no call is under way in any loop that runs."""
        while len(self):  # noqa: ASYNC110 - an Event would be of one loop
            await asyncio.sleep(_LOOK)

    def _running(self) -> list[_Count]:
        return [self._counts.here(), *(count for loop, count in self._counts.elsewhere() if loop.is_running())]


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


def guarded(method: Method) -> Method:
    """Mark a method that sees to threads by itself, where :func:`undivided` would cost more than what it does."""
    method.__dict__["guarded"] = True
    return method


def undivided(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return an async method, or async generator, that no other thread's runs beside, from one ``await`` to the next.

    The object's ``_turn``, a lock of threads, says whose step it is. Code that counts on nothing changing while it does
    not wait, as all code in one event loop may, can then count on it in several.
    """
    if inspect.isasyncgenfunction(method):

        async def stream(self: Any, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
            items = method(self, *args, **kwargs)
            try:
                while True:
                    try:
                        item = await _steps(items.__anext__(), self._turn)
                    except StopAsyncIteration:
                        return
                    yield item
            finally:
                await items.aclose()

        return functools.wraps(method)(stream)

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _steps(method(self, *args, **kwargs), self._turn)

    return call
