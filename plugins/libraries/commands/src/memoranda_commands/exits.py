"""The exit codes, on which scripts may rely, and the one for each error."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

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
