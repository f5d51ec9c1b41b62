"""What goes wrong with files is a clear error that names the file, and what was stored stays."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import CorruptStoreError, StoreUnavailableError
from memoranda_sqlite import SQLiteMemoryStore

NOBODY = 65534


@pytest.mark.parametrize(
    "content", [b"x", b"Dear diary,\n" * 500, b"SQLite format 2\0" + b"x" * 5000, bytes(range(256)) * 40]
)
async def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "diary.txt"
    path.write_bytes(content)
    with pytest.raises(CorruptStoreError, match=r"diary\.txt"):
        await SQLiteMemoryStore(path).init()
    assert path.read_bytes() == content
    assert [file.name for file in tmp_path.iterdir()] == ["diary.txt"]


@pytest.mark.skipif(os.name == "nt", reason="Windows deletes no file that is open")
async def test_nothing_is_acknowledged_once_the_file_was_deleted_or_replaced(tmp_path: Path) -> None:
    path, other = tmp_path / "agent.db", tmp_path / "other.db"
    async with SQLiteMemoryStore(other) as store:
        await store.add(HumanMemory(content="of the other file"))
    for replace in (False, True):
        async with SQLiteMemoryStore(path) as store:
            await store.add(HumanMemory(content="before"))
            if replace:
                other.replace(path)
            else:
                for name in ("agent.db", "agent.db-wal", "agent.db-shm"):
                    (tmp_path / name).unlink()
            with pytest.raises(StoreUnavailableError, match=r"agent\.db"):
                await store.add(HumanMemory(content="after"))
            with pytest.raises(StoreUnavailableError, match=r"agent\.db"):
                await store.add_many([HumanMemory(content="after") for _ in range(3)])
            assert path.exists() == replace


@pytest.mark.skipif(os.name == "nt", reason="Windows deletes no file that is open")
async def test_a_deleted_file_is_not_made_again_by_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    async with SQLiteMemoryStore(path) as store:
        await store.add(HumanMemory(content="before"))
        path.unlink()
        with pytest.raises(StoreUnavailableError, match=r"agent\.db"):
            await store.search(limit=1_000)  # So many are read on a thread, whose connection is opened for it.
        assert not path.exists()


async def test_a_folder_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "folder.db").mkdir()
    with pytest.raises(StoreUnavailableError, match=r"folder\.db"):
        await SQLiteMemoryStore(tmp_path / "folder.db").init()


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="nowhere"):
        await SQLiteMemoryStore(tmp_path / "nowhere" / "a.db").init()
    assert list(tmp_path.iterdir()) == []


async def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "a.db").touch()
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add(HumanMemory(content="x"))
        assert await store.count() == 1


async def test_a_truncated_file_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path) as store:
        await store.add_many([HumanMemory(content="x" * 500) for _ in range(500)])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 3])
    with pytest.raises(CorruptStoreError, match=r"a\.db"):
        await read_all(path)


async def test_damaged_pages_are_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path) as store:
        await store.add_many([HumanMemory(content="x" * 500) for _ in range(500)])
    whole = bytearray(path.read_bytes())
    for page in range(8, len(whole) // 4096, 2):
        whole[page * 4096 : page * 4096 + 100] = b"\xa5" * 100
    path.write_bytes(whole)
    with pytest.raises(CorruptStoreError, match=r"a\.db"):
        await read_all(path)


async def read_all(path: Path) -> None:
    async with SQLiteMemoryStore(path) as store:
        await store.search(limit=10_000)
        await store.search(query="xxxx", limit=10_000)
        await store.count(include_deleted=True)


READ_ONLY = textwrap.dedent(
    """
    import asyncio, os, sys
    import memoranda_backend.ranking
    from memoranda import HumanMemory
    from memoranda.errors import StoreUnavailableError
    from memoranda_sqlite import SQLiteMemoryStore

    item = HumanMemory(content="y")
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)

    async def main():
        try:
            async with SQLiteMemoryStore(sys.argv[1]) as store:
                await store.add(item)
        except StoreUnavailableError as error:
            print(error)

    asyncio.run(main())
    """
)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter: pytest's own are closed to them."""
    folder = Path(tempfile.mkdtemp(prefix="memoranda-read-only-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def as_nobody(code: str, path: Path) -> str:
    """Run code as a user who may not write here; whoever is not root already is one."""
    if os.getuid() != 0:
        code = code.replace("os.setgroups([])", "").replace("os.setgid(65534)", "").replace("os.setuid(65534)", "")
    finished = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, cwd="/")
    assert finished.returncode == 0, finished.stderr.decode()
    return finished.stdout.decode()


@pytest.mark.rare
async def test_a_read_only_folder_is_a_clear_error(open_folder: Path) -> None:
    open_folder.chmod(0o555)
    message = as_nobody(READ_ONLY, open_folder / "a.db")
    assert "a.db" in message
    assert "folder" in message
    assert list(open_folder.iterdir()) == []


@pytest.mark.rare
async def test_a_read_only_file_is_a_clear_error_and_keeps_what_it_has(open_folder: Path) -> None:
    path = open_folder / "a.db"
    async with SQLiteMemoryStore(path) as store:
        await store.add(HumanMemory(id="one", content="x"))
    path.chmod(0o444)
    open_folder.chmod(0o555)
    message = as_nobody(READ_ONLY, path)
    assert "a.db" in message
    open_folder.chmod(0o755)
    path.chmod(0o644)
    async with SQLiteMemoryStore(path) as store:
        assert await store.get("one") is not None


FULL_DISK = textwrap.dedent(
    """
    import asyncio, resource, signal, sys
    from memoranda import HumanMemory
    from memoranda.errors import StoreUnavailableError
    from memoranda_sqlite import SQLiteMemoryStore

    async def main():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        async with SQLiteMemoryStore(sys.argv[1]) as store:
            await store.add(HumanMemory(id="before", content="x"))
            resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
            try:
                for number in range(1000):
                    await store.add(HumanMemory(id=f"n{number}", content="x" * 5000))
                    print(f"n{number}")
            except StoreUnavailableError as error:
                print("refused", error)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            await store.add(HumanMemory(id="after", content="x"))
            assert (await store.get("before")) is not None

    asyncio.run(main())
    """
)


@pytest.mark.rare
async def test_a_full_disk_is_a_clear_error_and_keeps_what_was_stored(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: both refuse a write in the middle of a commit."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    path = tmp_path / "a.db"
    finished = subprocess.run([sys.executable, "-c", FULL_DISK, str(path)], capture_output=True)
    assert finished.returncode == 0, finished.stderr.decode()
    *added, refused = finished.stdout.decode().splitlines()
    assert refused.startswith("refused")
    assert "a.db" in refused
    async with SQLiteMemoryStore(path) as store:
        for item_id in ["before", "after", *added]:
            assert await store.get(item_id) is not None
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_a_file_that_cannot_be_written_is_still_ranked(tmp_path: Path) -> None:
    """A search fills the indexes first when many rows wait for them; where it cannot, it reads what waits."""
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path, busy_timeout=0.05, durability="normal") as store:
        await store.add_many([HumanMemory(id=f"n{number}", content=f"word{number}") for number in range(2_100)])
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        found = await store.search(query="word7", mode="text", limit=1)
        other.close()
    assert [item.id for item in found] == ["n7"]


BROKEN = {
    "metadata": "{not json",
    "extra_json": "[1, 2",
    "status": "no such status",
    "content": b"\xff\xfe",
}


@pytest.mark.parametrize("column", BROKEN)
async def test_one_unreadable_row_is_skipped_and_named_in_the_log(
    tmp_path: Path, column: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.db"
    scope = MemoryMetadata(user_id="ada")
    async with SQLiteMemoryStore(path) as store:
        await store.add_many([HumanMemory(id=f"id-{number}", content="secret", metadata=scope) for number in range(5)])
        connection = sqlite3.connect(path)
        connection.execute(f"UPDATE memory_items SET {column} = ? WHERE id = 'id-3'", (BROKEN[column],))
        connection.commit()
        connection.close()
        caplog.set_level(logging.INFO)
        assert [item.id for item in await store.search(limit=3)] == ["id-4", "id-2", "id-1"]
        assert [item.id async for item in store.scan()] == ["id-0", "id-1", "id-2", "id-4"]
        assert len(await store.search(query="SECRET", limit=100)) == 4
        assert len(await store.search(query="secret", mode="text", limit=100)) == 4
        with pytest.raises(CorruptStoreError, match="id-3"):
            await store.get("id-3")
        assert "id-3" in caplog.text
        assert "secret" not in caplog.text
        assert await store.add_many([HumanMemory(id="id-9", content="secret", metadata=scope)]) is None


@pytest.mark.parametrize("column", ["metadata", "extra_json"])
@pytest.mark.parametrize(
    "text", ["", "null", "[]", "1", '"x"', "{", '{"user_id": {}, "archived_by": {}}', '{"name": 5}', "[" * 5000]
)
async def test_odd_json_in_one_row_spoils_no_search(tmp_path: Path, column: str, text: str) -> None:
    path = tmp_path / "agent.db"
    async with SQLiteMemoryStore(path) as store:
        await store.add(HumanMemory(id="good", content="a garden"))
        await store.add(HumanMemory(id="odd", content="a garden"))
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE memory_items SET {column} = ? WHERE id = 'odd'", (text,))
    connection.close()

    async with SQLiteMemoryStore(path) as store:
        found = [
            await store.search(limit=1000),
            await store.search(query="garden", limit=1000),
            await store.search(query="garden", mode="text"),
            [item async for item in store.scan()],
        ]
        assert ["good" in [item.id for item in items] for items in found] == [True] * 4
        assert await store.purge("odd") == 1


async def test_an_unreadable_row_can_be_purged(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path) as store:
        await store.add_many([HumanMemory(id=f"id-{number}", content="x") for number in range(3)])
        connection = sqlite3.connect(path)
        connection.execute("UPDATE memory_items SET metadata = '{', content = x'ff' WHERE id = 'id-1'")
        connection.commit()
        connection.close()
        assert await store.purge("id-1") == 1
        assert await store.count(include_deleted=True) == 2
