"""The exit codes, on which scripts may rely, and how Ctrl-C ends a command."""

from __future__ import annotations

import _thread
import asyncio
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, TypeVar

from memoranda import errors


class ExitCode(IntEnum):
    """The exit codes of the command."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    UNAVAILABLE = 5
    UNSUPPORTED = 6
    UNREADABLE = 7
    REFUSED = 8
    INTERRUPTED = 130


MEANINGS: dict[ExitCode, str] = {
    ExitCode.DONE: "done",
    ExitCode.FAILED: "it failed, or a check did not pass",
    ExitCode.USAGE: "wrong usage or input",
    ExitCode.NOT_FOUND: "there is no such item, store, file, template or plugin",
    ExitCode.CONFLICT: "what is stored does not allow the change",
    ExitCode.UNAVAILABLE: "the store or the model cannot be reached",
    ExitCode.UNSUPPORTED: "this store cannot do that",
    ExitCode.UNREADABLE: "what is stored is damaged, or from a later release",
    ExitCode.REFUSED: "nothing was done: it was not confirmed (--yes confirms)",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
}


class CommandError(errors.MemoryError):
    """A command cannot go on. It has an exit code, and ``document``: what ``--json`` prints beside the message."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED, document: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.document = document or {}


_CODES: tuple[tuple[type[Exception], ExitCode], ...] = (
    (errors.InputError, ExitCode.USAGE),
    (errors.PluginNotFoundError, ExitCode.NOT_FOUND),
    (errors.StoreNotFoundError, ExitCode.NOT_FOUND),
    (FileNotFoundError, ExitCode.NOT_FOUND),
    (errors.ConflictError, ExitCode.CONFLICT),
    (errors.StoreUnavailableError, ExitCode.UNAVAILABLE),
    (errors.SummarizerUnavailableError, ExitCode.UNAVAILABLE),
    (errors.UnsupportedError, ExitCode.UNSUPPORTED),
    (errors.CorruptStoreError, ExitCode.UNREADABLE),
    (errors.SchemaTooNewError, ExitCode.UNREADABLE),
)


def code_of(error: Exception) -> ExitCode:
    """Return the exit code of an error."""
    if isinstance(error, CommandError):
        return error.code
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.FAILED)


@contextmanager
def not_found(*kinds: type[errors.MemoryError], hint: str = "") -> Iterator[None]:
    """Give errors of these kinds the exit code for what was not found, and say the hint behind their message."""
    try:
        yield
    except kinds as error:
        raise CommandError(f"{error}{hint}", ExitCode.NOT_FOUND) from error


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
    runner = asyncio.Runner()
    pressed = _Pressed(runner.get_loop())

    async def cancellable() -> T:
        pressed.task = asyncio.current_task()
        return await work

    signal.signal(signal.SIGINT, pressed)
    try:
        return runner.run(cancellable())
    except (asyncio.CancelledError, Exception) as error:
        if pressed.once:
            raise KeyboardInterrupt from error
        raise
    finally:
        try:
            if not pressed.twice:
                runner.close()
        finally:
            pressed.over()
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
