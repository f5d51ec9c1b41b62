"""Opening a file to read or to change it: nothing is made, and reading writes nothing, whatever the disk."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import StoreError, StoreNotFoundError, StoreUnavailableError, UnsupportedError
from memoranda.store import Store
from memoranda_sqlite import SQLiteMemoryStore

ADA = MemoryMetadata(user_id="ada")


async def filled(path: Path, number: int = 300) -> None:
    """Make a file with memories, part of which the text indexes do not hold yet."""
    async with SQLiteMemoryStore(path) as store:
        await store.add_many([HumanMemory(content=f"tea number {each}", metadata=ADA) for each in range(number)])
        await store.fill_indexes()
        await store.add_many([HumanMemory(content=f"late coffee {each}", metadata=ADA) for each in range(150)])


def look(folder: Path) -> dict[str, str]:
    """Return what is in a folder: every file with the hash of what it holds."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def reading(path: Path, **options: Any) -> Store:
    return memoranda.open(f"sqlite:///{path}", access="read", **options)


@pytest.mark.parametrize("access", ["change", "read"])
async def test_a_file_that_is_not_there_is_not_made(tmp_path: Path, access: Any) -> None:
    store = memoranda.open(f"sqlite:///{tmp_path / 'agent.db'}", access=access)

    with pytest.raises(StoreNotFoundError, match=r"agent\.db"):
        await store.init()

    assert not await store.exists()
    assert not await store.scoped(user_id="ada").exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", "a database of another program"])
async def test_a_file_without_memories_is_no_store(tmp_path: Path, content: bytes | str) -> None:
    path = tmp_path / "agent.db"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE recipes (name TEXT)")
        connection.close()
    before = look(tmp_path)

    with pytest.raises(StoreNotFoundError):
        await reading(path).init()

    assert look(tmp_path) == before


async def test_files_beside_it_that_look_alike_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    await filled(tmp_path / "agent.db", 1)
    (tmp_path / "agnet.txt").write_text("no database")
    with sqlite3.connect(tmp_path / "agents.db") as connection:
        connection.execute("CREATE TABLE others (name TEXT)")
    connection.close()

    with pytest.raises(StoreNotFoundError) as refused:
        await reading(tmp_path / "agnet.db").init()

    assert refused.value.alike == ("sqlite:///agent.db",)
    async with memoranda.open(refused.value.alike[0], access="read") as store:
        assert await store.count() == 151


async def read_everything(store: Store) -> tuple[Any, ...]:
    """Use every way of reading."""
    found = await store.search(query="number 7", metadata=ADA, limit=1000)
    ranked = await store.search_ranked(query="late coffee 12", metadata=ADA, limit=3)
    scanned = [item.id async for item in store.scan()]
    findings = await store.doctor()  # type: ignore[attr-defined]  # this store can
    assert await store.get(scanned[0]) is not None
    return (
        len(found),
        ranked[0].item.content,
        len(scanned),
        await store.count(),
        [each.name for each in findings if not each.ok],
    )


async def test_reading_finds_what_writing_finds_and_changes_no_byte(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    await filled(path)
    before = look(tmp_path)

    async with reading(path) as store:
        read = await read_everything(store)

    assert look(tmp_path) == before
    async with SQLiteMemoryStore(path) as store:
        assert await read_everything(store) == read


async def test_what_a_killed_program_left_in_the_log_is_read_and_left_there(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "open.db") as store:
        await store.add(HumanMemory(content="only in the log", metadata=ADA))
        (tmp_path / "killed").mkdir()
        for name in ("open.db", "open.db-wal"):
            shutil.copy(tmp_path / name, tmp_path / "killed" / name)
    path = tmp_path / "killed" / "open.db"
    before = look(path.parent)

    async with reading(path) as store:
        assert [item.content for item in await store.search()] == ["only in the log"]

    assert look(path.parent).items() >= before.items()


async def test_a_store_that_is_being_written_can_be_read(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "agent.db") as writer, reading(tmp_path / "agent.db") as reader:
        await writer.add(HumanMemory(content="new"))
        assert await reader.count() == 1
        with pytest.raises(UnsupportedError):
            await reader.add(HumanMemory(content="newer"))


async def test_tables_of_another_program_are_taken_over_only_by_writing(tmp_path: Path) -> None:
    path = tmp_path / "seed.db"
    columns = "id TEXT, content TEXT, memory_type TEXT, status TEXT, metadata TEXT, extra_json TEXT, "
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE notes ({columns} created_at TEXT, updated_at TEXT, deleted, version)")
    connection.close()
    before = look(tmp_path)

    with pytest.raises(StoreError, match="--repair"):
        await reading(path).init()

    assert look(tmp_path) == before
    async with memoranda.open(f"sqlite:///{path}", access="change") as store:
        assert await store.count() == 0


async def test_a_read_that_fails_does_not_speak_of_writes(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    await filled(path, 1)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        other.execute("DELETE FROM memory_items")

        with pytest.raises(StoreUnavailableError, match="locked") as refused:
            async with reading(path, busy_timeout=0.05) as store:
                await store.count()

        other.execute("ROLLBACK")
    other.close()
    assert "stored" not in str(refused.value)


READ_ONLY = """
import asyncio, sys
sys.path.insert(0, sys.argv[2])
from test_sqlite_access import read_everything, reading
from pathlib import Path

async def main():
    async with reading(Path(sys.argv[1])) as store:
        print(await read_everything(store))

asyncio.run(main())
"""


@pytest.mark.rare
def test_a_file_on_a_read_only_disk_can_be_read(tmp_path: Path) -> None:
    asyncio.run(filled(tmp_path / "agent.db"))
    mount = f"mount --bind {tmp_path} {tmp_path} && mount -o remount,bind,ro {tmp_path}"
    program = [sys.executable, "-c", READ_ONLY, str(tmp_path / "agent.db"), str(Path(__file__).parent)]
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-rm", "sh", "-c", mount], check=False, timeout=240).returncode:
        pytest.skip("a mount of one's own is not allowed here")

    done = subprocess.run(
        [unshare, "-rm", "sh", "-c", f'{mount} && exec "$@"', "sh", *program],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )

    assert done.returncode == 0, done.stderr
    assert "'late coffee 12', 450, 450, [])" in done.stdout
