"""Many processes open, migrate, write, compact and forget on one store at the same moment."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import memoranda
from servers import fresh_database, postgres_server

WORKER = Path(__file__).parent / "many_processes_worker.py"
# As the worker has them.
RAISES, ITEMS, TURNS, KEPT_TURNS = 5, 10, 12, 4


class Workers:
    """Processes that are told a URL at the same moment."""

    def __init__(self, processes: list[asyncio.subprocess.Process]) -> None:
        self._processes = processes
        self.count = len(processes)

    async def work(self, url: str) -> list[dict[str, Any]]:
        """Have all of them work on the store of a URL, and return what each was told."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{url}\n".encode())
        return [json.loads(line) for line in await asyncio.gather(*map(_line, self._processes))]


async def _line(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    return await process.stdout.readline()


@pytest_asyncio.fixture
async def workers(request: pytest.FixtureRequest) -> AsyncIterator[Workers]:
    count = 8 if request.config.getoption("everything", default=False) else 3
    async with contextlib.AsyncExitStack() as stack:
        processes = []
        for number in range(count):
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(WORKER),
                str(number),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            stack.push_async_callback(_ended, process)
            processes.append(process)
        assert await asyncio.gather(*map(_line, processes)) == [b"ready\n"] * count
        yield Workers(processes)


async def _ended(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    await process.wait()


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with postgres_server() as server:
        yield server.url


@contextlib.contextmanager
def new_store(kind: str, folder: Path, request: pytest.FixtureRequest, number: int) -> Iterator[str]:
    """Give the URL of a store that nobody has opened yet."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/{number}.db"
        return
    with fresh_database(request.getfixturevalue("postgres")) as url:
        yield url


@pytest.mark.rare("many processes", one_in=1000)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.timeout(1800)
async def test_processes_that_start_together_lose_nothing_and_compact_once(
    workers: Workers, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    rounds = 50 if request.config.getoption("everything", default=False) else 1
    for number in range(rounds):
        with new_store(kind, tmp_path, request, number) as url:
            told = await workers.work(url)
            assert [each.get("error") for each in told] == [None] * workers.count
            assert [(each["purged"], each["kept"]) for each in told] == [(ITEMS, ITEMS)] * workers.count
            assert sum(each["compacted"] for each in told) == 1
            async with memoranda.open(url) as store:
                there = {item.id: item async for item in store.scan()}
            counter = there.pop("counter")
            assert (counter.content, counter.version) == (str(RAISES * workers.count), RAISES * workers.count)
            summaries = [item for item in there.values() if item.memory_type == "summary"]
            archived = [item.archived_by for item in there.values() if item.archived_by is not None]
            assert len(summaries) == 1
            assert len(archived) == TURNS - KEPT_TURNS
            assert len(set(archived)) == 1
            assert len(there) == workers.count * ITEMS + TURNS + 1
