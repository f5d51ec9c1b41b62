"""What was purged goes off the disk as soon as nobody reads an older state of the file."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import Erasing, Finding
from memoranda_sqlite import SQLiteMemoryStore, erasing

SECRET = b"Zyzzyvaflorescent"
ADA = MemoryMetadata(user_id="hushhush")


def traces(folder: Path) -> list[str]:
    """Return the files that hold bytes of what was purged: its text, its owner or a term of the index."""
    wanted = (SECRET, SECRET.lower(), b"florescent", b"hushhush")
    return [file.name for file in folder.iterdir() if any(text in file.read_bytes() for text in wanted)]


async def gone(folder: Path, seconds: float = 120.0) -> bool:
    """Wait until there are no traces, and return whether that came to be."""
    deadline = time.monotonic() + seconds
    while traces(folder):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True


async def told_gone(store: SQLiteMemoryStore, seconds: float = 120.0) -> bool:
    """Wait until the store says that nothing waits; another one may be about to say in the file that it is done."""
    deadline = time.monotonic() + seconds
    while await store.unerased():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True


def store_of(path: Path) -> SQLiteMemoryStore:
    return SQLiteMemoryStore(path, busy_timeout=0.2)


async def fill(store: SQLiteMemoryStore) -> None:
    await store.add_many([HumanMemory(content=f"Something else, number {number}") for number in range(100)])
    secret = SECRET.decode()
    await store.add_many([HumanMemory(content=f"{secret} of number {n}", metadata=ADA) for n in range(50)])
    await store.fill_indexes()


class Reader:
    """Another program's connection that reads one state of the file until it is told to go on."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("BEGIN")
        self._connection.execute("SELECT count(*) FROM memory_items").fetchone()

    def end(self) -> None:
        """End the transaction; the connection stays open, so that nobody else is the last to close the file."""
        if self._connection.in_transaction:
            self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    return folder / "a.db"


@pytest.fixture
def filled(path: Path) -> Path:
    async def made() -> None:
        async with store_of(path) as store:
            await fill(store)

    asyncio.run(made())
    return path


@pytest.fixture
def reader(filled: Path) -> Iterator[Reader]:
    opened = Reader(filled)
    yield opened
    opened.close()


async def test_an_open_store_erases_by_itself_once_the_reader_has_ended(filled: Path, reader: Reader) -> None:
    async with store_of(filled) as store:
        assert await store.purge(metadata=ADA) == 50
        assert traces(filled.parent)
        reader.end()
        assert await gone(filled.parent)


async def test_what_waits_is_said_until_it_is_erased(
    filled: Path, reader: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    async with store_of(filled) as store:
        assert isinstance(store, Erasing)
        assert await store.unerased() == ""
        await store.purge(metadata=ADA)
        assert "log" in await store.unerased()
        assert "a.db" in caplog.text
        log = next(finding for finding in await store.doctor() if finding.name == "log")
        assert not log.ok
        reader.end()
        assert await store.unerased() == ""
        assert traces(filled.parent) == []
        log = next(finding for finding in await store.doctor() if finding.name == "log")
        assert log.ok


async def test_closing_erases(filled: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasing, "FIRST_RETRY_SECONDS", 1_000.0)
    async with store_of(filled) as store:
        await store.purge(metadata=ADA)
        reader.end()
    assert traces(filled.parent) == []


async def test_the_next_store_that_opens_the_file_erases(filled: Path, reader: Reader) -> None:
    async with store_of(filled) as store:
        await store.purge(metadata=ADA)
    assert traces(filled.parent)
    reader.end()
    async with store_of(filled):
        assert traces(filled.parent) == []


async def test_a_store_that_opens_the_file_meanwhile_erases_later(filled: Path, reader: Reader) -> None:
    async with store_of(filled) as store:
        await store.purge(metadata=ADA)
    async with store_of(filled) as store:
        assert await store.unerased() != ""
        reader.end()
        assert await gone(filled.parent)


async def test_another_store_erases_when_it_writes(
    filled: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasing, "LOOK_SECONDS", 0.0)
    async with store_of(filled) as other:
        async with store_of(filled) as store:
            await store.purge(metadata=ADA)
        reader.end()
        assert traces(filled.parent)
        await other.add(HumanMemory(content="Something new"))
        assert await gone(filled.parent)


async def test_writes_and_searches_go_on_while_something_waits(filled: Path, reader: Reader) -> None:
    async with store_of(filled) as store:
        await store.purge(metadata=ADA)
        for number in range(20):
            await store.add(HumanMemory(content=f"Something new, number {number}"))
        assert len(await store.search(query="something new", limit=100)) == 20
        assert await store.search(query="florescent") == []
        reader.end()
        assert await gone(filled.parent)
        assert await store.count() == 120


def test_a_store_that_is_used_from_one_event_loop_after_another_erases(filled: Path, reader: Reader) -> None:
    """The loop in which the next attempt was to be made may be closed by then."""
    store = store_of(filled)

    async def purge() -> None:
        await store.init()
        await store.purge(metadata=ADA)

    async def write() -> bool:
        await store.add(HumanMemory(content="Something new"))
        return await gone(filled.parent)

    asyncio.run(purge())
    assert traces(filled.parent)
    reader.end()
    assert asyncio.run(write())
    asyncio.run(store.close())


PURGE = textwrap.dedent(
    """
    import asyncio, os, signal, sys
    from memoranda import MemoryMetadata
    from memoranda_sqlite import SQLiteMemoryStore

    async def main():
        store = SQLiteMemoryStore(sys.argv[1], busy_timeout=0.2)
        await store.init()
        await store.purge(metadata=MemoryMetadata(user_id="hushhush"))
        os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(main())
    """
)


@pytest.mark.rare
async def test_what_a_killed_program_could_not_erase_is_erased_by_the_next(filled: Path, reader: Reader) -> None:
    subprocess.run([sys.executable, "-c", PURGE, str(filled)], timeout=240)
    assert traces(filled.parent)
    reader.end()
    async with store_of(filled) as store:
        assert traces(filled.parent) == []
        assert await store.count(metadata=ADA, include_deleted=True) == 0


READ = textwrap.dedent(
    """
    import sqlite3, sys

    connection = sqlite3.connect(sys.argv[1], isolation_level=None)
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM memory_items").fetchone()
    print("reading", flush=True)
    sys.stdin.read()
    """
)


async def test_a_reader_in_another_process_is_waited_for(filled: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", READ, str(filled)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "reading\n"
    async with store_of(filled) as store:
        await store.purge(metadata=ADA)
        assert traces(filled.parent)
        process.communicate("", timeout=240)
        assert await gone(filled.parent)


async def test_two_purges_at_once_leave_nothing(filled: Path, reader: Reader) -> None:
    """Neither store takes the other's content for erased with its own."""
    # The second waits while the first, which tries again, writes the file anew.
    async with store_of(filled) as first, SQLiteMemoryStore(filled) as second:
        await first.add(HumanMemory(content=f"{SECRET.decode()} again", metadata=MemoryMetadata(user_id="bob")))
        await first.purge(metadata=ADA)
        timer = threading.Timer(0.05, reader.end)
        timer.start()
        await second.purge(metadata=MemoryMetadata(user_id="bob"))
        assert await gone(filled.parent)
        timer.join()
        assert await told_gone(first)
        assert await told_gone(second)


@pytest.mark.parametrize("seed", range(16))
async def test_no_copy_stays_in_the_free_room_of_pages(tmp_path: Path, seed: int) -> None:
    """Pages that were divided and joined keep copies of what they held; where depends on what was added when."""
    choices = random.Random(seed)
    items = [
        HumanMemory(content=f"Something else, number {number} " + "x" * choices.randrange(200))
        for number in range(choices.choice([50, 200, 600]))
    ]
    secret = SECRET.decode()
    items += [
        HumanMemory(content=f"{secret} {number} " + "y" * choices.randrange(200), metadata=ADA)
        for number in range(choices.choice([5, 50, 200]))
    ]
    if seed % 2:
        choices.shuffle(items)
    async with SQLiteMemoryStore(tmp_path / "a.db", durability="normal") as store:
        for start in range(0, len(items), 40):
            await store.add_many(items[start : start + 40])
        await store.fill_indexes()
        assert await store.purge(metadata=ADA) > 0
        assert traces(tmp_path) == []


async def test_the_rows_of_others_keep_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE notes (text)")
    connection.executemany("INSERT INTO notes (rowid, text) VALUES (?, 'x')", [(3,), (7,)])
    connection.commit()
    connection.close()
    async with store_of(path) as store:
        await fill(store)
        await store.purge(metadata=ADA)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT rowid FROM notes").fetchall() == [(3,), (7,)]
    connection.close()


async def test_a_damaged_file_that_cannot_be_written_anew_is_purged_and_opened(filled: Path) -> None:
    connection = sqlite3.connect(filled)
    connection.execute("CREATE TABLE memoranda_of_later (x)")
    query = "SELECT rootpage FROM sqlite_master WHERE name = 'memoranda_of_later'"
    (root,) = connection.execute(query).fetchone()
    connection.commit()
    connection.close()
    content = bytearray(filled.read_bytes())
    content[(root - 1) * 4096 : (root - 1) * 4096 + 100] = b"\xa5" * 100
    filled.write_bytes(content)
    async with store_of(filled) as store:
        assert await store.purge(metadata=ADA) == 50
        assert "malformed" in await store.unerased()
    async with store_of(filled) as store:
        assert await store.count() == 100
        assert "malformed" in await store.unerased()


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file counts as too large to be written anew by a purge."""
    monkeypatch.setattr(erasing, "SMALL_FILE_BYTES", 0)


async def finding(store: SQLiteMemoryStore, name: str, *, repair: bool = False) -> Finding:
    return next(found for found in await store.doctor(repair=repair) if found.name == name)


def shuffled() -> list[HumanMemory]:
    """Return items so that dividing pages leaves copies of some in the free room of others."""
    choices = random.Random(3)
    items = [HumanMemory(content=f"Other {n} " + "x" * choices.randrange(200)) for n in range(600)]
    secret = SECRET.decode()
    items += [HumanMemory(content=f"{secret} {n} " + "y" * choices.randrange(200), metadata=ADA) for n in range(200)]
    choices.shuffle(items)
    return items


async def fill_mixed(path: Path) -> None:
    async with store_of(path) as store:
        items = shuffled()
        for start in range(0, len(items), 40):
            await store.add_many(items[start : start + 40])
        await store.fill_indexes()


@pytest.mark.usefixtures("large")
async def test_a_purge_of_a_large_file_leaves_writing_it_anew_to_whoever_asks(path: Path) -> None:
    await fill_mixed(path)
    async with store_of(path) as store:
        assert await store.purge(metadata=ADA) == 200
        assert "free room" in await store.unerased()
        assert not (await finding(store, "free room")).ok
        assert (await finding(store, "log")).ok
        assert await store.erase() == ""
        assert traces(path.parent) == []
        assert await store.unerased() == ""
        assert (await finding(store, "free room")).ok


@pytest.mark.usefixtures("large")
async def test_the_log_of_a_large_file_is_emptied_at_once(filled: Path) -> None:
    async with store_of(filled) as store:
        await store.purge(metadata=ADA)
        assert (filled.parent / "a.db-wal").stat().st_size < 10_000
        assert "a.db-wal" not in traces(filled.parent)


@pytest.mark.usefixtures("large")
async def test_what_is_left_is_known_to_the_next_store_and_one_erasing_does_for_many_purges(path: Path) -> None:
    await fill_mixed(path)
    async with store_of(path) as store:
        for number, item in enumerate(await store.search(metadata=ADA, limit=30)):
            assert await store.purge(item.id) == 1
            if number % 10 == 0:
                assert "free room" in await store.unerased()
        await store.purge(metadata=ADA)
    async with store_of(path) as store:
        assert "free room" in await store.unerased()
        repaired = await finding(store, "free room", repair=True)
        assert repaired.ok
    assert traces(path.parent) == []


@pytest.mark.usefixtures("large")
async def test_the_log_and_the_room_of_a_large_file_are_both_waited_for(filled: Path, reader: Reader) -> None:
    async with store_of(filled) as store:
        await store.purge(metadata=ADA)
        assert "log" in await store.unerased()
        assert "log" in await store.erase()
        reader.end()
        assert await gone(filled.parent)
        assert await store.unerased() == ""


@pytest.mark.usefixtures("large")
async def test_a_purge_during_which_an_earlier_one_waits_waits_as_well(filled: Path) -> None:
    """The mark of a purge whose log is emptied does not stand for the next one."""
    async with store_of(filled) as store, store_of(filled) as other:
        await store.purge(metadata=ADA)
        await store.add(HumanMemory(content=SECRET.decode(), metadata=ADA))
        await other.purge(metadata=ADA)
        assert "free room" in await store.unerased()
        assert await other.erase() == await store.unerased() == ""
    assert traces(filled.parent) == []


async def test_a_file_of_which_little_is_left_is_written_anew_however_large_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill_mixed(path)
    monkeypatch.setattr(erasing, "SMALL_FILE_BYTES", path.stat().st_size // 2)
    async with store_of(path) as store:
        (item,) = await store.search(metadata=ADA, limit=1)
        await store.purge(item.id)
        assert "free room" in await store.unerased()
        await store.clear()
        await store.purge(deleted_only=True)
        assert await store.unerased() == ""
    assert traces(path.parent) == []


async def test_tables_of_others_are_a_reason_that_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE notes (text)")
    connection.commit()
    connection.close()
    await fill_mixed(path)
    async with store_of(path) as store:
        await store.purge(metadata=ADA)
        assert "'notes'" in await store.unerased()
        assert "'notes'" in await store.erase()
        assert not (await finding(store, "free room", repair=True)).ok
        assert await store.erase(others=True) == ""
        assert traces(tmp_path) == []
        assert await store.unerased() == ""


@pytest.mark.usefixtures("large")
def test_forgetting_writes_a_large_file_anew(path: Path) -> None:
    asyncio.run(fill_mixed(path))
    code, _, receipt = forget(path)
    assert (code, receipt["removed"], receipt["complete"]) == (0, 200, True)
    assert traces(path.parent) == []


def forget(path: Path) -> tuple[int, str, dict[str, object]]:
    from memoranda_cli.app import app

    url = f"sqlite:///{path}?busy_timeout=0.2"
    receipt = path.parent.parent / "receipt.json"
    result = CliRunner().invoke(app, ["forget", "hushhush", "--yes", "--receipt", str(receipt), "--store", url])
    return result.exit_code, result.output, json.loads(receipt.read_text())


def test_a_receipt_says_what_is_still_pending(filled: Path, reader: Reader) -> None:
    code, output, receipt = forget(filled)
    assert code == 1
    assert "still pending" in output
    assert (receipt["removed"], receipt["complete"]) == (50, False)
    assert "log" in str(receipt["pending"])
    reader.end()
    code, output, receipt = forget(filled)
    assert code == 0
    assert (receipt["complete"], receipt["pending"]) == (True, "")
    assert traces(filled.parent) == []
