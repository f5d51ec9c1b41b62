"""How long a call blocks the event loop: by computing, in function calls, and by waiting, in turns of a thread."""

from __future__ import annotations

import asyncio
import gc
import math
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from unittest import mock

if sys.platform == "linux":
    import resource

LONG = 0.1
"""Seconds for which a call may hold the event loop without computing anything, as another thread counts them."""

TICK = 0.005
"""Seconds that the other thread sleeps before it counts on."""

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


async def longest_wait(work: Callable[[], Awaitable[object]]) -> float:
    """Return the most seconds for which the work holds the event loop and waits: for a disk, a server, a lock, a sleep.

    They are counted by another thread of this process, in turns of 5 ms, so a busy machine stretches both alike. What
    this thread computes does not count, nor, where the system counts it, a turn in which others had the processor but
    this thread never waited. The garbage collector is off: while it runs in a thread of the store, this one waits.
    Work that seems to wait for longer than ``LONG`` is done again, up to six times, and the least is returned: a busy
    machine may interrupt the thread, too.
    """
    least = math.inf
    with _nothing_collected():
        for _ in range(6):
            least = min(least, await _longest_wait(work()))
            if least <= LONG:
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


async def _longest_wait(work: Awaitable[object]) -> float:
    task, longest = asyncio.ensure_future(work), 0.0
    with _ticking() as ticks:
        while not task.done():
            waits, before, computed = _waits(), next(ticks), time.thread_time()
            await asyncio.sleep(0)
            seconds = (next(ticks) - before) * TICK - (time.thread_time() - computed)
            if waits is None or waits != _waits():
                longest = max(longest, seconds)
            time.sleep(A_TURN)  # noqa: ASYNC251 - otherwise the store's threads would not get the interpreter
    await task
    return longest


@contextmanager
def _ticking() -> Iterator[Iterator[int]]:
    """Count in a thread while the block runs; each ``next()`` returns how far it has come."""
    ticks, ended = 0, threading.Event()

    def count() -> None:
        nonlocal ticks
        while not ended.wait(TICK):
            ticks += 1

    thread = threading.Thread(target=count, name="memoranda-testing-ticks", daemon=True)
    thread.start()
    try:
        yield iter(lambda: ticks, None)
    finally:
        ended.set()
        thread.join()


def _waits() -> int | None:
    """Return how often this thread has waited for something; None where the system does not say."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw if sys.platform == "linux" else None


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
