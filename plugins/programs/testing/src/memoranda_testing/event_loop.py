"""How long a call blocks the event loop: by computing, in function calls, and by waiting, in looks of a thread."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Self
from unittest import mock

LOOKS = 20
"""In so many looks in a row, the thread of the event loop may be seen to sleep within one call."""

LOOK_SECONDS = 0.005
"""Seconds that the thread that looks sleeps before each look."""

COMPUTED_SECONDS = 0.0005
"""Seconds of the processor that a thread which sleeps may have used since the last look: less than it takes to wake."""

A_TURN = 1e-4
"""Seconds for which the loop leaves the interpreter to other threads after each turn, which count as nobody's."""

A_CALL = 1e-6
"""Seconds per function call on the clock that the measured work sees."""


async def longest_block(work: Awaitable[object]) -> int:
    """Await the work and return the most function calls that this thread made without yielding to the event loop.

    The number is the same on every machine: ``time.perf_counter`` advances by a microsecond with each call, and the
    garbage collector is off, because it might call other code. If work yields regularly, or runs in another thread, the
    number stays the same while the input grows. A profiler that is set on this thread is restored afterwards.
    """
    longest = calls = before_this_turn = 0
    done = False

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    def clock() -> float:
        return (before_this_turn + calls) * A_CALL

    async def take_turns() -> None:
        nonlocal longest, calls, before_this_turn
        while not done:
            before_this_turn += calls
            longest, calls = max(longest, calls), 0
            await asyncio.sleep(0)

    others = asyncio.ensure_future(take_turns())
    await asyncio.sleep(0)
    before = sys.getprofile()
    try:
        with _nothing_collected(), mock.patch("time.perf_counter", clock):
            sys.setprofile(count)
            await work
    finally:
        sys.setprofile(before)
        done = True
        await others
    return max(longest, calls)


async def longest_wait(work: Callable[[], Awaitable[object]]) -> int:
    """Return in how many looks in a row the work held the event loop and slept: on a disk, a server, a lock, a timer.

    Another thread looks whether this one sleeps within a turn of the loop and has computed nothing since the last look.
    No clock decides: on a busy machine there are fewer looks, and whoever has to wait for the processor does not sleep.
    The garbage collector is off: while it runs in a thread of the store, this one waits. Work that is seen to sleep in
    more than ``LOOKS`` is done again, up to six times, and the least is returned. Without Linux, it is always 0.
    """
    least = sys.maxsize
    with _nothing_collected():
        for _ in range(6):
            least = min(least, await _longest_wait(work()))
            if least <= LOOKS:
                break
    return least


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Turn the garbage collector off within the block."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


async def _longest_wait(work: Awaitable[object]) -> int:
    task = asyncio.ensure_future(work)
    with _Witness() as witness:
        while not task.done():
            witness.turn += 1
            witness.is_watching = True
            await asyncio.sleep(0)
            witness.is_watching = False
            time.sleep(A_TURN)  # noqa: ASYNC251 - otherwise the store's threads would not get the interpreter
    await task
    return witness.longest


class _Witness:
    """A thread that looks again and again whether the one that made it sleeps."""

    def __init__(self) -> None:
        self.turn = 0
        """The number of the turn that the event loop takes."""
        self.is_watching = False
        """True within a turn, False between two of them."""
        self.longest = 0
        """The most looks in a row that found the thread asleep."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="memoranda-testing-witness", daemon=True)
        if sys.platform == "linux":
            self._status = Path(f"/proc/self/task/{threading.get_native_id()}/stat")
            self._processor = time.pthread_getcpuclockid(threading.get_ident())

    def __enter__(self) -> Self:
        if sys.platform == "linux":
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _look(self) -> None:
        asleep, turn, computed = 0, 0, 0.0
        while not self._ended.wait(LOOK_SECONDS):
            before, turn = (turn, computed), self.turn
            computed = time.clock_gettime(self._processor)
            is_still = turn == before[0] and computed - before[1] < COMPUTED_SECONDS
            asleep = asleep + 1 if self.is_watching and is_still and self._sleeps() else 0
            self.longest = max(self.longest, asleep)

    def _sleeps(self) -> bool:
        """Return True if the thread waits for something else than a processor."""
        return self._status.read_text().rpartition(")")[2].split()[0] in ("S", "D")


class Stepped:
    """A coroutine, and what is to be done when it waits for the n-th time."""

    def __init__(self, work: Coroutine[Any, Any, Any], at: int, then: Callable[[], object]) -> None:
        self._work = work
        self._at = at
        self._then = then
        self.waits = 0
        """How often it has waited."""

    async def run(self) -> Any:
        """Return what the coroutine returns."""
        return await self

    def __await__(self) -> Generator[Any, Any, Any]:
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                signal = self._work.send(value) if error is None else self._work.throw(error)
            except StopIteration as stop:
                return stop.value
            self.waits += 1
            if self.waits == self._at:
                self._then()
            value, error = None, None
            try:
                value = yield signal
            except BaseException as raised:  # noqa: BLE001  # it is the coroutine's to handle
                error = raised


def cancel_this() -> None:
    """Cancel the task that runs."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def some_turns(count: int) -> None:
    """Let the event loop take so many turns."""
    for _ in range(count):
        await asyncio.sleep(0)


@contextmanager
def threads_that_meet() -> Iterator[None]:
    """Let threads take turns so often that they meet in the middle of a call; with the usual 5 ms they rarely do."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)
