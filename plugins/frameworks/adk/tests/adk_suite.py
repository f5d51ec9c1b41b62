"""Run ADK's own tests of session services on ours: ``python adk_suite.py --suite PATH [options of pytest]``.

PATH is a copy of ADK's repository; the released packages do not have the tests. Its registry of backends
(``tests/unittests/sessions/_conformance.py``) is given ours, on three engines, with no divergence declared. Every test
of ``test_session_service.py`` that takes a backend of the registry is run on each of them. The other tests of that
module are left out: they make one of ADK's own services by themselves.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import memoranda
from memoranda_adk import MemorandaSessionService

# Run as a program, it has to be told where the servers of the repository's tests are.
sys.path.append(str(Path(__file__).resolve().parents[4] / "tests"))
from servers import postgres_server

MODULE = "tests/unittests/sessions/test_session_service.py"
FIXTURE = "session_service"
_servers = ExitStack()


@asynccontextmanager
async def on_memory(place: Path) -> AsyncIterator[MemorandaSessionService]:
    """Yield a service on an in-memory store."""
    async with memoranda.open("memory://") as store:
        yield MemorandaSessionService(store)


@asynccontextmanager
async def on_sqlite(place: Path) -> AsyncIterator[MemorandaSessionService]:
    """Yield a service on a file."""
    async with memoranda.open(f"sqlite:///{place / 'sessions.db'}") as store:
        yield MemorandaSessionService(store)


class OnPostgres:
    """Makes services on databases of one server, which is started for the first of them."""

    def __init__(self) -> None:
        self._server = None

    @asynccontextmanager
    async def __call__(self, place: Path) -> AsyncIterator[MemorandaSessionService]:
        """Yield a service on a database of its own."""
        self._server = self._server or _servers.enter_context(postgres_server())
        with self._server.database() as url:
            async with memoranda.open(url) as store:
                yield MemorandaSessionService(store)


@dataclass(frozen=True)
class Backend:
    """A backend as ADK's registry has them."""

    name: str
    make: Callable[[Path], AbstractAsyncContextManager[MemorandaSessionService]]
    divergences: Mapping[str, str] = field(default_factory=dict)


BACKENDS = [
    Backend("memoranda-memory", on_memory),
    Backend("memoranda-sqlite", on_sqlite),
    Backend("memoranda-postgres", OnPostgres()),
]


class Registered:
    """A plugin of pytest that registers our backends instead of ADK's."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run a test on our backends."""
        if FIXTURE in metafunc.fixturenames and not _names_its_backend(metafunc.definition):
            ours = pytest.mark.parametrize(FIXTURE, BACKENDS, ids=lambda backend: backend.name, indirect=True)
            metafunc.definition.add_marker(ours)

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out the tests of ADK's own services."""
        ours = [item for item in items if isinstance(_backend(item), Backend)]
        theirs = [item for item in items if item not in ours]
        config.hook.pytest_deselected(items=theirs)
        items[:] = ours
        print(f"\nleft out, since they make one of ADK's own services: {len(theirs)}")
        for item in theirs:
            print(f"  {item.name}")

    def pytest_unconfigure(self) -> None:
        """Stop the server."""
        _servers.close()


def _names_its_backend(definition: pytest.Item) -> bool:
    return any(FIXTURE in str(mark.args[0]) for mark in definition.iter_markers("parametrize"))


def _backend(item: pytest.Item) -> object:
    return item.callspec.params.get(FIXTURE) if hasattr(item, "callspec") else None


def main() -> int:
    """Run the suite that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--suite", type=Path, required=True, help="a copy of ADK's repository")
    given, further = parser.parse_known_args()
    suite = given.suite.resolve()
    if not (suite / MODULE).is_file():
        parser.error(f"There is no {MODULE} in {suite}. Give a copy of https://github.com/google/adk-python.")
    options = ["-q", "-c", "/dev/null", "--rootdir", str(suite), "-o", "asyncio_mode=auto", "-p", "no:cacheprovider"]
    return int(pytest.main([*options, *further, str(suite / MODULE)], plugins=[Registered()]))


if __name__ == "__main__":
    sys.exit(main())
