"""Run Strands' own tests of its session manager on our repository: ``python strands_suite.py --suite PATH [options]``.

PATH is the source of a release of ``strands-agents``: its source distribution, unpacked, has the tests. Wherever a test
makes the repository that Strands made for its tests, it gets ours, on the engine that ``--engine`` names: ``memory``,
``sqlite`` or ``postgres``. Nothing is left out. Further options are pytest's.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import uuid
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import pytest

import memoranda.sync
from memoranda_strands import MemorandaSessionRepository

# Run as a program, it has to be told where the servers of the repository's tests are.
sys.path.append(str(Path(__file__).resolve().parents[4] / "tests"))
from servers import postgres_server

MODULE = "tests/strands/session/test_repository_session_manager.py"
_opened = ExitStack()


class Stores:
    """Opens an empty store for every repository that a test makes."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._server = _opened.enter_context(postgres_server()) if engine == "postgres" else None
        self._folder = _opened.enter_context(tempfile.TemporaryDirectory())

    def open(self) -> memoranda.sync.SyncStore:
        """Return a store."""
        url = "memory://" if self._engine == "memory" else f"sqlite:///{self._folder}/{uuid.uuid4().hex}.db"
        if self._server is not None:
            url = _opened.enter_context(self._server.database())
        return _opened.enter_context(memoranda.sync.open(url))


class Instead:
    """A plugin of pytest that has tests use our repository instead of Strands' own."""

    def __init__(self, stores: Stores) -> None:
        class Ours(MemorandaSessionRepository):
            def __init__(self) -> None:
                super().__init__(stores.open())

        self._ours = Ours

    def pytest_collection(self) -> None:
        """Replace the class before the tests are imported."""
        import_module("tests.fixtures.mock_session_repository").MockedSessionRepository = self._ours

    def pytest_unconfigure(self) -> None:
        """Close the stores."""
        _opened.close()


def main() -> int:
    """Run the suite that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--suite", type=Path, required=True, help="the source of a release of strands-agents")
    parser.add_argument("--engine", choices=("memory", "sqlite", "postgres"), default="memory")
    given, further = parser.parse_known_args()
    suite = given.suite.resolve()
    if not (suite / MODULE).is_file():
        parser.error(f"There is no {MODULE} in {suite}. Give the unpacked source distribution of strands-agents.")
    # The tests alone: the installed package is what is tested.
    os.chdir(suite)
    sys.path.insert(0, str(suite))
    options = ["-q", "-c", "/dev/null", "--rootdir", str(suite), "-o", "asyncio_mode=auto", "-p", "no:cacheprovider"]
    return int(pytest.main([*options, *further, MODULE], plugins=[Instead(Stores(given.engine))]))


if __name__ == "__main__":
    sys.exit(main())
