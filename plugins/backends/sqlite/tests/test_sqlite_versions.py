"""Files of every schema version are migrated step by step, and never half.

``data/`` holds a file of each version as SQL text, written by the release that had it; see ``dump_version.py``. The
migrations beyond those are made up.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from memoranda import AIMemory, HumanMemory, MemoryMetadata
from memoranda.errors import CorruptStoreError, SchemaTooNewError, StoreError
from memoranda_sqlite import SQLiteMemoryStore, schema

DATA = Path(__file__).parent / "data"
FILES = sorted(DATA.glob("*.sql"))
ADA = MemoryMetadata(user_id="ada")


def made(path: Path, text: Path) -> Path:
    """Create the file that a release wrote."""
    connection = sqlite3.connect(path)
    connection.executescript(text.read_text(encoding="utf-8"))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    return path


def version_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    ((version,),) = connection.execute("SELECT value FROM memoranda_meta WHERE key = 'schema_version'")
    connection.close()
    return int(version)


def add_mood(connection: sqlite3.Connection, path: str) -> None:
    """Add a column, as a later release might."""
    connection.execute("ALTER TABLE memory_items ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'")


def count_items(connection: sqlite3.Connection, path: str) -> None:
    """Create a table from the stored rows, as another later release might."""
    connection.execute("CREATE TABLE memoranda_totals AS SELECT count(*) AS items FROM memory_items")


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add two migrations to this release."""
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add_mood, count_items))


def test_there_is_a_file_of_every_version() -> None:
    versions = {int(found[1]) for file in FILES if (found := re.fullmatch(r"version_(\d+)\.sql", file.name))}
    assert versions == set(range(1, len(schema.MIGRATIONS) + 1))


async def test_the_present_version_is_what_its_file_says(tmp_path: Path) -> None:
    """A migration that was released is never changed: a new file has the tables of the old."""
    async with SQLiteMemoryStore(tmp_path / "new.db"):
        pass
    made(tmp_path / "old.db", DATA / f"version_{len(schema.MIGRATIONS)}.sql")
    assert tables_of(tmp_path / "new.db") == tables_of(tmp_path / "old.db")


def tables_of(path: Path) -> dict[str, str]:
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    connection.close()
    # What the text indexes are made of is their own layout's affair, which has a number of its own.
    ours = [(name, text) for name, text in rows if name.startswith("memory_items") or name == "memoranda_meta"]
    return {name: " ".join(text.split()) for name, text in ours}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_a_file_of_any_version_is_migrated_to_the_present_one(tmp_path: Path, file: Path) -> None:
    path = made(tmp_path / "a.db", file)
    async with SQLiteMemoryStore(path) as store:
        await assert_whole(store)
    assert version_of(path) == len(schema.MIGRATIONS)


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_a_file_of_any_version_is_migrated_to_a_later_one(tmp_path: Path, file: Path) -> None:
    path = made(tmp_path / "a.db", file)
    for _ in range(2):
        async with SQLiteMemoryStore(path) as store:
            await assert_whole(store)
    assert version_of(path) == len(schema.MIGRATIONS)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT DISTINCT mood FROM memory_items").fetchall() == [("calm",)]
    assert connection.execute(
        "SELECT items = (SELECT count(*) FROM memory_items) FROM memoranda_totals"
    ).fetchall() == [(1,)]
    connection.close()


async def assert_whole(store: SQLiteMemoryStore) -> None:
    """Assert that every item of the files is found in every way."""
    newest = await store.search(metadata=ADA, limit=100)
    assert {"id-0", "id-1", "id-2", "id-3"} <= {item.id for item in newest}
    assert [item.id for item in await store.search(query="CONTENT 3")] == ["id-3"]
    assert (await store.search_ranked(query="content 2", metadata=ADA, mode="text"))[0].item.content == "Content 2"
    assert await store.count(include_deleted=True) == await store.count() + 1
    assert any(isinstance(item, AIMemory) and item.tool_calls for item in newest)
    assert all(finding.ok for finding in await store.doctor() if finding.name in ("integrity", "rows", "text index"))


async def test_a_new_file_goes_through_every_step(tmp_path: Path, later: None) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add(HumanMemory(content="x"))
        assert await store.count() == 1
    assert version_of(tmp_path / "a.db") == len(schema.MIGRATIONS)


async def test_the_release_before_refuses_a_later_file_untouched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.db"
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add_mood))
        async with SQLiteMemoryStore(path) as store:
            await store.add(HumanMemory(content="x"))
    before = path.read_bytes()
    with pytest.raises(SchemaTooNewError, match=str(len(schema.MIGRATIONS) + 1)):
        await SQLiteMemoryStore(path).init()
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["a.db"]


async def test_a_step_that_fails_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(connection: sqlite3.Connection, path: str) -> None:
        connection.execute("CREATE TABLE memoranda_half (x)")
        connection.execute("SELECT * FROM nowhere")

    path = made(tmp_path / "a.db", DATA / "version_1.sql")
    first = schema.MIGRATIONS
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*first, add_mood, fail))
        with pytest.raises(StoreError, match=r"a\.db"):
            await SQLiteMemoryStore(path).init()
    assert version_of(path) == len(first) + 1
    assert "memoranda_half" not in all_tables(path)
    monkeypatch.setattr(schema, "MIGRATIONS", (*first, add_mood, count_items))
    async with SQLiteMemoryStore(path) as store:
        await assert_whole(store)


def all_tables(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    return names


LATER_RELEASE = textwrap.dedent(
    """
    import asyncio, os, signal, sys
    from memoranda_sqlite import SQLiteMemoryStore, schema

    def add_mood(connection, path):
        connection.execute("ALTER TABLE memory_items ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'")

    def change(connection, path):
        connection.execute("CREATE TABLE IF NOT EXISTS memoranda_changes (x)")
        connection.execute("INSERT INTO memoranda_changes VALUES (1)")
        connection.execute("UPDATE memory_items SET mood = mood || '!'")
        if sys.argv[2] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)

    async def main():
        async with SQLiteMemoryStore(sys.argv[1]) as store:
            print(await store.count() > 0)

    schema.MIGRATIONS = (*schema.MIGRATIONS, add_mood, change)
    asyncio.run(main())
    """
)


def started(path: Path, kind: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", LATER_RELEASE, str(path), kind], stdout=subprocess.PIPE)


@pytest.mark.rare
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_program_killed_within_a_step_leaves_the_one_before_and_the_next_goes_on(tmp_path: Path, file: Path) -> None:
    path = made(tmp_path / "a.db", file)
    process = started(path, "killed")
    process.communicate(timeout=240)
    assert process.returncode == -signal.SIGKILL
    assert version_of(path) == len(schema.MIGRATIONS) + 1
    assert "memoranda_changes" not in all_tables(path)
    assert started(path, "whole").communicate(timeout=240)[0] == b"True\n"
    assert_changed_once(path)


@pytest.mark.rare
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_programs_that_open_a_file_at_once_do_each_step_once(tmp_path: Path, file: Path) -> None:
    path = made(tmp_path / "a.db", file)
    processes = [started(path, "whole") for _ in range(6)]
    assert [process.communicate(timeout=240)[0] for process in processes] == [b"True\n"] * 6
    assert_changed_once(path)


def assert_changed_once(path: Path) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT x FROM memoranda_changes").fetchall() == [(1,)]
    assert connection.execute("SELECT DISTINCT mood FROM memory_items").fetchall() == [("calm!",)]
    connection.close()
    assert version_of(path) == len(schema.MIGRATIONS) + 2


@pytest.mark.parametrize("version", [0, -1, 1.5, "one", None])
async def test_an_unreadable_version_is_refused_untouched(tmp_path: Path, version: object) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path):
        pass
    connection = sqlite3.connect(path)
    connection.execute("UPDATE memoranda_meta SET value = ? WHERE key = 'schema_version'", (version,))
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises((CorruptStoreError, StoreError)):
        await SQLiteMemoryStore(path).init()
    assert path.read_bytes() == before


def test_two_releases_open_a_file_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that is open while a later release migrates the file goes on; only opening it again is refused."""
    path = made(tmp_path / "a.db", DATA / "version_1.sql")

    async def both() -> None:
        async with SQLiteMemoryStore(path) as store:
            with monkeypatch.context() as patch:
                patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add_mood))
                async with SQLiteMemoryStore(path) as later:
                    await later.add(HumanMemory(id="later", content="x"))
            assert await store.get("later") is not None

    asyncio.run(both())
    with pytest.raises(SchemaTooNewError):
        asyncio.run(SQLiteMemoryStore(path).init())
