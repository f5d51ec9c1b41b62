"""Run the kit on mutants, each in a process forked from one that has imported everything else, up to the first failure.

A forked process imports memoranda's own modules again, the changed one among them: whatever another module has taken
from it is the changed one, too.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from itertools import product
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from targets import TARGETS, Target

_PART = (
    "test_random_histories_match_the_model",
    "test_random_tenants_never_meet",
    "test_random_lifetimes_match_the_model",
    "test_random_histories_outlive_the_store",
)
"""Cases whose first histories come before everything else: they find most mutants within a second."""

_FIRST = ("test_batches_that_straddle_a_scope_end_at_its_bounds", "test_every_change_reaches_every_read")
"""Cases that come next."""

_LAST = (
    "test_random_filters_match_the_model",
    "test_meaning_depends_on_what_is_stored_alone",
    "test_a_call_that_is_cancelled_at_any_await_is_done_or_not",
    "test_random_forks_show_what_lists_would",
    "test_a_large_scope_is_ranked_as_in_memory",
    "test_every_two_filters_hold_together",
    "test_a_few_are_found_among_many",
    *_PART,
    "test_twenty_megabytes_round_trip",
    "test_sizes_match_the_model",
)
"""Cases that take seconds, after all others."""


_PATIENCE = {"a part": 40.0, "a case": 120.0}
"""Seconds after which a case counts as failed; a quarter of them is left to each call. A busy machine needs them."""


class _Mutated(SourceFileLoader):
    """Loads a module from other text than its file's."""

    source = ""

    def get_code(self, fullname: str) -> CodeType:
        """Compile the mutated source."""
        return compile(self.source, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Finds the mutated module before any other finder does."""

    def __init__(self, target: Target, source: str) -> None:
        self._target = target
        self._source = source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how the mutated module is loaded."""
        if fullname != self._target.module:
            return None
        loader = _Mutated(fullname, str(self._target.path))
        loader.source = self._source
        return spec_from_file_location(fullname, self._target.path, loader=loader)


def import_the_rest() -> None:
    """Import what the kit and the stores need, and forget memoranda's own modules again."""
    stores = {target.module for target in TARGETS}
    for name in ("memoranda_testing.cases", "memoranda_testing.runner", *stores):
        import_module(name)
    for name in list(sys.modules):
        if name.startswith("memoranda") or name in stores:
            del sys.modules[name]


@dataclass
class KitRun:
    """The kit at work on a mutant, in a process of its own."""

    pid: int
    connection: Connection
    ends: float
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def begin(cls, target: Target, source: str, first: Sequence[str], *, thorough: bool, timeout: float) -> KitRun:
        """Fork a process that runs the kit on a changed module; the cases ``first`` come before others."""
        ours, theirs = Pipe(duplex=False)
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            ours.close()
            _run(target, source, first, theirs, thorough=thorough)
        theirs.close()
        return cls(pid, ours, time.monotonic() + timeout)

    @property
    def seconds(self) -> float:
        """The seconds since it began."""
        return time.monotonic() - self.started

    def result(self) -> str | None:
        """Return the case that failed, empty if none did; None while it runs. A run that hangs is ended and failed."""
        case = None
        if self.connection.poll():
            try:
                case = str(self.connection.recv())
            except EOFError:
                case = "the process ended"
        elif time.monotonic() > self.ends:
            case = "timeout"
        if case is not None:
            self.end()
        return case

    def end(self) -> None:
        """End the process and those that it has started."""
        self.connection.close()
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(self.pid, signal.SIGKILL)  # It has no group of its own yet.
        os.waitpid(self.pid, 0)


def _run(target: Target, source: str, first: Sequence[str], results: Connection, *, thorough: bool) -> None:
    """Run the kit in a forked process, send the case that failed, and wait to be ended."""
    try:
        os.setsid()
        silence = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(silence, descriptor)
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        sys.meta_path.insert(0, _Finder(target, source))
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            results.send(asyncio.run(first_failure(target, Path(folder), first, thorough=thorough)))
    except BaseException as error:  # noqa: BLE001  # a store that cannot be imported or opened is caught, too
        results.send(f"{type(error).__name__} before the first case")
    finally:
        os._exit(0)


async def first_failure(target: Target, folder: Path, first: Sequence[str], *, thorough: bool) -> str:
    """Return the name of the first case that fails; empty if the stores conform."""
    from memoranda_testing.model import histories
    from memoranda_testing.runner import Outcome, check_store

    histories.SHRINKING_STEPS = 0  # The name of the case is enough.
    for number, (open_store, (topic, name)) in enumerate(product(target.stores, _in_order(first))):
        data = folder / str(number)
        data.mkdir()
        report = await check_store(
            lambda data=data, open_store=open_store: open_store(data),
            exclusive=True,
            select=name.__eq__,
            timeout=_PATIENCE["a part" if topic.brief else "a case"],
            thorough=thorough,
            topics=[topic],
        )
        if report.of(Outcome.FAILED):
            return name
        if report.of(Outcome.NOT_REACHED):
            return f"{name} (not reached)"
    return ""


def _in_order(first: Sequence[str]) -> Iterator[tuple[Any, str]]:
    """Yield every case, and before them a part of some: those that find mutants soon come first."""
    from memoranda_testing.cases import TOPICS, case_names

    cases = {name: topic for topic in TOPICS for name in case_names(topic)}
    for name in _PART:
        yield type("Brief", (cases[name],), {"brief": True}), name
    soon = [*_FIRST, *(name for name in first if name in cases and name not in (*_FIRST, *_LAST))]
    rest = [name for name in cases if name not in soon and name not in _LAST]
    for name in (*soon, *rest, *_LAST):
        yield cases[name], name
