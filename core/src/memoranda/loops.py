"""Event loops: what serves several of them in one process, and what keeps one responsive during long work.

A lock, a future or a connection of asyncio serves only the loop that made it; what is here serves them all. One loop
waits for another by polling: a loop that is closed in the middle of something notifies no other.

Work on a snapshot runs in a thread, which Python interrupts every few milliseconds. Changes stay on the loop, where
they need no locks, and are made in slices.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import sys
import threading
import time
import types
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from importlib import import_module
from typing import Any, Generic, ParamSpec, TypeVar

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])
Loop = asyncio.AbstractEventLoop

POLL_SECONDS = 0.002
"""Seconds between two looks at another loop."""

BLOCKED_AFTER = 10.0
"""Seconds without a turn after which a running loop counts as blocked: ``close()`` goes on without it."""

_asked: weakref.WeakKeyDictionary[Loop, float] = weakref.WeakKeyDictionary()


def takes_turns(loop: Loop) -> bool:
    """Return True if a loop runs and is not blocked: each call requests a turn, and later calls check for it."""
    asked = _asked.get(loop)
    if asked is None and loop.is_running():
        asked = _asked[loop] = time.monotonic()
        with contextlib.suppress(RuntimeError):  # It was closed in this moment.
            loop.call_soon_threadsafe(_asked.pop, loop, None)
    return asked is not None and loop.is_running() and time.monotonic() - asked <= BLOCKED_AFTER


class _OfEachLoop(Generic[T]):
    """A value that every event loop of this process has for itself, made when a loop first asks for it."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._values: dict[tuple[Loop, int], T] = {}
        self._guard = threading.Lock()

    def here(self) -> T:
        """Return the value of the running loop."""
        key = asyncio.get_running_loop(), os.getpid()
        value = self._values.get(key)
        if value is None:
            with self._guard:
                self._values = {other: held for other, held in self._values.items() if not other[0].is_closed()}
                value = self._values[key] = self._make()
        return value

    def elsewhere(self) -> list[tuple[Loop, T]]:
        """Return the values of the other loops that are not closed."""
        here, process, held = asyncio.get_running_loop(), os.getpid(), list(self._values.items())
        return [
            (loop, value) for (loop, of), value in held if loop is not here and of == process and not loop.is_closed()
        ]


class LoopLock:
    """A lock among the coroutines of all event loops; those of one loop take turns in order.

    ``async with lock.held():`` A loop that was closed, or that belongs to the process this one was forked from, holds
    it no longer. What is left of its coroutines releases nothing when it is collected.
    """

    def __init__(self) -> None:
        self._own: _OfEachLoop[asyncio.Lock] = _OfEachLoop(asyncio.Lock)
        self._guard = threading.Lock()
        self._holder: tuple[Loop, int] | None = None

    @contextlib.asynccontextmanager
    async def held(self, *, by_force: bool = False) -> AsyncGenerator[None, None]:
        """Hold the lock during a block; ``by_force`` takes it from a loop that takes no turns."""
        own, holder = self._own.here(), (asyncio.get_running_loop(), os.getpid())
        await own.acquire()
        try:
            while not self._take(holder, by_force):  # noqa: ASYNC110 - an Event would be of one loop
                await asyncio.sleep(POLL_SECONDS)
            yield
        finally:
            with self._guard:
                if self._holder is holder:  # Another loop may have taken it by force.
                    self._holder = None
            with contextlib.suppress(RuntimeError):  # The loop is closed, and nothing waits in it any more.
                own.release()

    def _take(self, holder: tuple[Loop, int], by_force: bool) -> bool:
        """Take the lock, unless a holder that can still finish has it."""
        with self._guard:
            if self._holder is not None:
                loop, process = self._holder
                if not loop.is_closed() and process == os.getpid() and (not by_force or takes_turns(loop)):
                    return False
            self._holder = holder
            return True


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
    """Counts calls in every event loop, so that closing can wait for all whose loop still exists."""

    def __init__(self) -> None:
        self._counts: _OfEachLoop[_Count] = _OfEachLoop(_Count)

    def call(self) -> contextlib.AbstractContextManager[object]:
        """Count a call from the beginning to the end of a block."""
        return self._counts.here()

    async def ended(self) -> None:
        """Wait until no call is under way in any loop that takes turns."""
        here = self._counts.here()
        while here.calls or any(count.calls and takes_turns(loop) for loop, count in self._counts.elsewhere()):  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)


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
    """Mark a method that guards itself against other threads, where :func:`uninterrupted` would cost too much."""
    method.__dict__["guarded"] = True
    return method


def uninterrupted(method: Any) -> Any:
    """Return an async method or generator that no other thread interrupts between two ``await``.

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


ITEMS_PER_TURN = 500
"""Items read or checked in one turn: a few milliseconds of work, too little to be worth a thread. Larger arguments are
copied, so that the caller may change them while a thread works."""

ROWS_PER_SLICE = 256
"""Rows of a large batch that are made before an engine is given them: enough that handing them over costs little."""

ITEMS_FILTERED_PER_TURN = 2_000
"""Items compared with a filter in one turn; filtering takes a fraction of the work of ranking."""

ITEMS_RANKED_PER_TURN = 3_000
"""Items ranked in one turn if their words are known: arrays are compared in a few milliseconds."""

ITEMS_CHANGED_PER_TURN = 200
"""Items changed in one turn."""

TEXTS_EMBEDDED_PER_TURN = 100
"""Short texts embedded in one turn by an embedder that runs in the process."""

LETTERS_SPLIT_PER_TURN = 25_000
"""Characters divided into words in one turn."""

LETTERS_SEARCHED_PER_TURN = 1_000_000
"""Characters searched for a substring in one turn."""

_A_FEW, _BRIEF = 10, 0.003
_BREATH = 0.0001
"""How many seconds a thread sleeps to give way: long enough for another one to take the interpreter."""

P = ParamSpec("P")


async def offload(size: int, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Run the work at once for a few items, in a thread for many, and return its result.

    The work is given all that it needs and changes nothing that others see. When the caller is cancelled, a thread goes
    on to its end and its result is dropped.
    """
    if size <= ITEMS_PER_TURN:
        return work(*arguments, **named)
    return await asyncio.to_thread(work, *arguments, **named)


async def import_in_thread(module: str) -> None:
    """Import a module in a thread, unless it is imported already: a large one would block the event loop."""
    found = sys.modules.get(module)
    if found is None or getattr(found.__spec__, "_initializing", False):  # Another thread is in the middle of it.
        await asyncio.to_thread(import_module, module)


def filter_weight(count: int) -> int:
    """Return the weight of filtering ``count`` items, for :func:`offload`."""
    return count * ITEMS_PER_TURN // ITEMS_FILTERED_PER_TURN


def word_weight(letters: int) -> int:
    """Return the weight of dividing a text of so many letters into words, for :func:`offload`."""
    return letters * ITEMS_PER_TURN // LETTERS_SPLIT_PER_TURN


def ranking_weight(count: int, new: Iterable[str]) -> int:
    """Return the weight of ranking ``count`` items, for :func:`offload`; ``new`` texts are divided into words first.

    The texts are read only as far as decides it: to measure all texts of a large scope would hold the loop, too.
    """
    weight, letters = count * ITEMS_PER_TURN // ITEMS_RANKED_PER_TURN, 0
    texts = iter(new)
    while weight + word_weight(letters) <= ITEMS_PER_TURN:
        text = next(texts, None)
        if text is None:
            break
        weight, letters = weight + 1, letters + len(text)
    return weight + word_weight(letters)


def give_way() -> None:
    """Let other threads run; long work in a thread calls this every few milliseconds.

    Python takes the interpreter from a thread only after five milliseconds, and never within one call of C code.
    """
    time.sleep(_BREATH)


async def in_slices(items: Sequence[T], size: int) -> AsyncGenerator[Sequence[T], None]:
    """Yield the items in slices, with a turn of the event loop between two of them."""
    for start in range(0, len(items), size):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + size]


async def in_short_steps(items: Sequence[T]) -> AsyncGenerator[Sequence[T], None]:
    """Yield the items a few at a time, with a turn of the event loop whenever a few milliseconds have passed."""
    began = time.perf_counter()
    for start in range(0, len(items), _A_FEW):
        if time.perf_counter() - began > _BRIEF:
            await asyncio.sleep(0)
            began = time.perf_counter()
        yield items[start : start + _A_FEW]
