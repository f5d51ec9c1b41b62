"""Running a command so that Ctrl-C ends it soon, whatever it is doing, and says how far it came."""

from __future__ import annotations

import _thread
import asyncio
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

CLOSING_SECONDS = 0.6
"""How many seconds a command has to close its store after Ctrl-C before the process ends anyway."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C was pressed. The message says how far the work came; ``document`` is what ``--json`` prints."""

    def __init__(self, message: str, document: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.document = document or {}


@contextmanager
def uncertain(message: str) -> Iterator[None]:
    """Give this message if Ctrl-C ends the block, since it is not known how far the store has come."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"Interrupted. {message}") from None


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine. Ctrl-C cancels it, so that stores are closed and files removed on the way out.

    Work that does not end soon after that (a statement of an engine, a computation that never awaits) is abandoned:
    engines keep what they acknowledged when a process ends, and files are removed here, in the main thread.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or not _is_main_thread():
        return asyncio.run(work)  # A background process ignores Ctrl-C, and keeps doing so.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    pressed = _Pressed(loop)
    signal.signal(signal.SIGINT, pressed)
    try:
        task = loop.create_task(work)
        pressed.task = task
        return loop.run_until_complete(task)
    except (asyncio.CancelledError, Exception) as error:
        if pressed.once:
            raise KeyboardInterrupt from error
        raise
    finally:
        try:
            if not pressed.twice:
                _close(loop)
        finally:
            pressed.over()
            asyncio.set_event_loop(None)
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


class _Pressed:
    """Handles Ctrl-C: the first cancels the task; the second, or waiting too long, interrupts the main thread."""

    task: asyncio.Task[Any] | None = None

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer = threading.Timer(CLOSING_SECONDS, self._insist)
        self._timer.daemon = True
        self.once = self.twice = False

    def __call__(self, number: int, frame: object) -> None:
        if self.once:
            self.twice = True
            raise KeyboardInterrupt
        self.once = True
        self._timer.start()
        if self.task is not None:
            self._loop.call_soon_threadsafe(self.task.cancel)

    def _insist(self) -> None:
        _thread.interrupt_main()
        self._loop.call_soon_threadsafe(lambda: None)  # This wakes up a loop that waits for files.

    def over(self) -> None:
        self._timer.cancel()


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Close the loop as asyncio.run does."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
