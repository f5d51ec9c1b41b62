"""Run the kit on one mutant, up to the first case that fails; print the name of that case, or nothing."""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
import warnings
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from targets import TARGETS, Target


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


async def first_failure(target: Target, *, thorough: bool) -> str:
    """Return the name of the first case that fails; empty if the store conforms. Random histories come first."""
    from memoranda_testing.cases import TOPICS, case_names
    from memoranda_testing.cases.model import IsolationCases, ModelCases
    from memoranda_testing.model import histories
    from memoranda_testing.runner import Outcome, check_store

    histories.SHRINKING_STEPS = 0  # The name of the case is enough.
    for topic in sorted(TOPICS, key=lambda topic: topic not in (ModelCases, IsolationCases)):
        for name in case_names(topic):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                report = await check_store(
                    lambda folder=folder: target.open_store(Path(folder)),
                    exclusive=True,
                    select=name.__eq__,
                    timeout=60.0,
                    thorough=thorough,
                    topics=[topic],
                )
            if report.of(Outcome.FAILED):
                return name
    return ""


def main(module: str, *options: str) -> None:
    """Read the mutated source of a module, and run the kit on its store."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    target = next(target for target in TARGETS if target.module == module)
    sys.meta_path.insert(0, _Finder(target, sys.stdin.read()))
    try:
        failed = asyncio.run(first_failure(target, thorough="--thorough" in options))
    except BaseException as error:  # noqa: BLE001  # a store that cannot be imported or opened is caught, too
        failed = f"{type(error).__name__} before the first case"
    sys.stdout.write(failed)
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
