"""Reading very many rows: in parts, from connections that are open only while they read."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import aiosqlite
import pytest

from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import StoreClosedError
from memoranda_sqlite import SQLiteMemoryStore, streaming

ROWS = 12_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    async def made() -> None:
        async with SQLiteMemoryStore(tmp_path / "a.db", durability="normal") as store:
            await store.add_many(
                [
                    HumanMemory(id=f"{number:05}", content="x", metadata=MemoryMetadata(extra={"odd": number % 2 == 1}))
                    for number in range(ROWS)
                ]
            )

    asyncio.run(made())
    return tmp_path / "a.db"


@pytest.mark.rare
async def test_every_item_is_scanned_once_and_in_order(path: Path) -> None:
    async with SQLiteMemoryStore(path) as store:
        assert [item.id async for item in store.scan()] == [f"{number:05}" for number in range(ROWS)]
        odd = [item.id async for item in store.scan(metadata=MemoryMetadata(extra={"odd": True}))]
        assert odd == [f"{number:05}" for number in range(1, ROWS, 2)]


@pytest.mark.rare
async def test_long_rows_end_a_chunk_early(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "MOST_BYTES", 600)
    async with SQLiteMemoryStore(path) as store:
        assert [item.id async for item in store.scan()] == [f"{number:05}" for number in range(ROWS)]


@pytest.mark.rare
async def test_nothing_is_held_while_whoever_scans_takes_his_time(path: Path) -> None:
    async with SQLiteMemoryStore(path) as store:
        scan = store.scan()
        for _ in range(700):
            await anext(scan)
        await store.add(HumanMemory(content="Written meanwhile"))
        connection = sqlite3.connect(path, isolation_level=None)
        assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
        connection.close()
        assert len([item async for item in scan]) == ROWS + 1 - 700


@pytest.mark.rare
async def test_a_scan_that_was_begun_ends_with_the_store(path: Path) -> None:
    store = SQLiteMemoryStore(path)
    await store.init()
    scan = store.scan()
    for _ in range(700):
        await anext(scan)
    await store.close()
    assert [file.name for file in path.parent.iterdir()] == ["a.db"]
    with pytest.raises(StoreClosedError):
        _ = [item async for item in scan]


@pytest.mark.rare
async def test_a_cancelled_scan_leaves_no_thread(path: Path) -> None:
    before = threading.active_count()
    async with SQLiteMemoryStore(path) as store:

        async def read() -> None:
            async for _ in store.scan():
                pass

        for turn in range(20):
            task = asyncio.create_task(read())
            await asyncio.sleep(turn * 0.003)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert len([item async for item in store.scan()]) == ROWS
    async with asyncio.timeout(200):
        while threading.active_count() > before:
            await asyncio.sleep(0.01)


async def test_a_connection_is_closed_if_its_reader_is_cancelled_while_it_opens(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, go_on = asyncio.Event(), threading.Event()
    closed: list[object] = []
    loop, connect = asyncio.get_running_loop(), aiosqlite.connect

    def slow(*arguments: Any, factory: Any, **options: Any) -> aiosqlite.Connection:
        class Slow(factory):  # type: ignore[misc]  # the connection that the store asks for
            def __init__(self, *given: Any, **named: Any) -> None:
                loop.call_soon_threadsafe(opening.set)
                go_on.wait(60)
                super().__init__(*given, **named)

            def close(self) -> None:
                closed.append(self)
                super().close()

        return connect(*arguments, factory=Slow, **options)

    async with SQLiteMemoryStore(path) as store:
        monkeypatch.setattr(aiosqlite, "connect", slow)

        async def read() -> None:
            async for _ in store.scan():
                pass

        task = asyncio.create_task(read())
        await opening.wait()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        go_on.set()
        assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)

    assert len(closed) == 1


HALF_READ = textwrap.dedent(
    """
    import asyncio, sys
    from memoranda_sqlite import SQLiteMemoryStore

    async def main():
        store = SQLiteMemoryStore(sys.argv[1])
        await store.init()
        scan = store.scan()
        for _ in range(700):
            await anext(scan)
        return store, scan

    loop = asyncio.new_event_loop()
    kept = loop.run_until_complete(main())
    print("left")
    """
)


@pytest.mark.rare
def test_a_program_that_leaves_a_scan_half_read_comes_to_its_end(path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", HALF_READ, str(path)], capture_output=True, text=True, timeout=240, check=True
    )
    assert ended.stdout == "left\n"


@pytest.mark.rare
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # From Python 3.12 on.
async def test_a_fork_in_the_middle_of_a_scan_does_the_file_no_harm(path: Path) -> None:
    async with SQLiteMemoryStore(path) as store:
        scan = store.scan()
        for _ in range(700):
            await anext(scan)
        child = os.fork()
        if not child:
            os._exit(0)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert status == 0
        assert len([item async for item in scan]) == ROWS - 700
        await store.add(HumanMemory(content="After the fork"))
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


@pytest.mark.rare
async def test_a_search_does_not_wait_behind_an_export(path: Path) -> None:
    """However many exports are under way, a read has a thread of the readers."""
    async with SQLiteMemoryStore(path) as store:
        exports = [asyncio.create_task(_counted(store)) for _ in range(6)]
        assert await store.count() == ROWS
        assert len(await store.search(limit=1_000)) == 1_000
        assert await asyncio.gather(*exports) == [ROWS] * 6


async def _counted(store: SQLiteMemoryStore) -> int:
    return len([item async for item in store.scan()])


@pytest.mark.rare
async def test_the_doctor_reads_every_row(path: Path) -> None:
    async with SQLiteMemoryStore(path) as store:
        rows = next(finding for finding in await store.doctor() if finding.name == "rows")
    assert (rows.ok, rows.detail) == (True, f"all {ROWS} can be read")
