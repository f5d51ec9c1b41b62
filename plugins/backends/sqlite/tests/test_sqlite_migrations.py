"""Files of other programs and later releases: adopted once, left alone, or refused untouched."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from memoranda import AIMemory, HumanMemory, MemoryMetadata
from memoranda.errors import SchemaTooNewError, StoreError
from memoranda_sqlite import SQLiteMemoryStore

SEED_TABLE = """
CREATE TABLE {name} (
    id TEXT PRIMARY KEY,
    content TEXT NOT NULL,
    memory_type TEXT NOT NULL,
    status TEXT NOT NULL,
    metadata TEXT NOT NULL,
    extra_json TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    deleted INTEGER NOT NULL,
    version INTEGER NOT NULL
){suffix}
"""

SEED_COLUMNS = {
    "id": "TEXT",
    "content": "TEXT",
    "memory_type": "TEXT",
    "status": "TEXT",
    "metadata": "TEXT",
    "extra_json": "TEXT",
    "created_at": "TEXT",
    "updated_at": "TEXT",
    "deleted": "INTEGER",
    "version": "INTEGER",
}


def seed_file(path: Path, name: str = "memory_items", suffix: str = "", rows: int = 6) -> None:
    """Make a file as the plain documented table has it, with times of several forms and one row deleted."""
    connection = sqlite3.connect(path)
    name = name.replace('"', '""')
    connection.execute(SEED_TABLE.format(name=f'"{name}"', suffix=suffix))
    metadata = {"user_id": "ada", "session_id": "s", "task_id": None, "agent_id": None, "extra": {"k": 1}}
    for number in range(rows):
        connection.execute(
            f'INSERT INTO "{name}" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
            (
                f"id-{number}",
                f"Content {number}",
                "ai" if number == 2 else "human",
                "accepted",
                json.dumps(metadata),
                json.dumps({"tool_calls": [{"id": "c"}]} if number == 2 else {}),
                ["2024-05-01T10:00:00", "2024-05-01T12:30:00+02:00", "2024-05-01 11:00:00Z"][number % 3],
                "2024-05-01T10:00:00",
                int(number == 5),
                number + 1,
            ),
        )
    connection.commit()
    connection.close()


def test_a_new_file_has_the_documented_columns(tmp_path: Path) -> None:
    asyncio.run(opened_and_closed(tmp_path / "a.db"))
    columns = sqlite3.connect(tmp_path / "a.db").execute("PRAGMA table_info(memory_items)").fetchall()
    assert {column[1]: column[2] for column in columns[:10]} == SEED_COLUMNS
    assert [column[1] for column in columns if column[5]] == ["id"]
    assert all(column[3] for column in columns[:10])
    # A program that writes the ten alone need not know the others.
    assert not any(column[3] and column[4] is None for column in columns[10:])


async def opened_and_closed(path: Path) -> None:
    async with SQLiteMemoryStore(path):
        pass


@pytest.mark.parametrize("name", ["memory_items", "memories", 'odd "name"'])
@pytest.mark.parametrize("suffix", ["", " WITHOUT ROWID"])
async def test_a_file_of_the_plain_table_is_adopted(tmp_path: Path, name: str, suffix: str) -> None:
    seed_file(tmp_path / "a.db", name, suffix)
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        assert await store.count() == 5
        assert await store.count(include_deleted=True) == 6
        item = await store.get("id-2")
        assert isinstance(item, AIMemory)
        assert (item.content, item.version, item.tool_calls) == ("Content 2", 3, [{"id": "c"}])
        assert item.metadata == MemoryMetadata(user_id="ada", session_id="s", extra={"k": 1})
        # Ten o'clock, half past ten (in another zone) and eleven: the order of time, whatever the form.
        newest = await store.search(metadata=MemoryMetadata(user_id="ada"))
        assert [found.id for found in newest] == ["id-2", "id-4", "id-1", "id-3", "id-0"]
        assert {found.id for found in await store.search(query="CONTENT 3")} == {"id-3"}
        await store.add(HumanMemory(id="id-0", content="new", metadata=MemoryMetadata(user_id="ada")))
        replaced = await store.get("id-0")
        assert replaced is not None
        assert replaced.version == 2
        assert await store.restore("id-5") == 1


async def test_rows_that_other_programs_write_are_found_in_their_scope(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    bob = MemoryMetadata(user_id="bob", namespace=("a/b", "c"))
    async with SQLiteMemoryStore(path) as store:
        await store.add(HumanMemory(id="ours", content="x", metadata=MemoryMetadata(user_id="ada")))
        connection = sqlite3.connect(path)
        columns = ", ".join(SEED_COLUMNS)
        for item_id, extra, deleted in (("shown", "{}", 0), ("archived", '{"archived_by": "x"}', 0), ("bin", "{}", 1)):
            metadata = '{"user_id": "bob", "session_id": "s", "namespace": ["a/b", "c"]}'
            time = "2024-05-01T10:00:00.000000+00:00"
            values = (item_id, "y", "human", "accepted", metadata, extra, time, time, deleted, 1)
            connection.execute(f"INSERT INTO memory_items ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        connection.commit()
        assert [item.id for item in await store.search(metadata=bob)] == ["shown"]
        assert await store.count(metadata=MemoryMetadata(session_id="s")) == 2
        assert await store.count(metadata=bob, include_deleted=True) == 3
        assert [owner.value async for owner in store.owners("namespace")] == [("a/b", "c")]
        connection.execute("UPDATE memory_items SET metadata = '{\"user_id\": \"ada\"}' WHERE id = 'shown'")
        connection.execute("UPDATE memory_items SET deleted = 1 WHERE id = 'ours'")
        connection.execute("UPDATE memory_items SET deleted = 0 WHERE id = 'bin'")
        connection.execute("UPDATE memory_items SET metadata = '{' WHERE id = 'archived'")
        connection.commit()
        connection.close()
        assert [item.id for item in await store.search(metadata=MemoryMetadata(user_id="ada"))] == ["shown"]
        assert [item.id for item in await store.search(metadata=bob)] == ["bin"]
        assert await store.count(metadata=bob, include_deleted=True) == 1


async def test_views_and_triggers_of_other_programs_survive_adoption(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    seed_file(path, rows=8)
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE VIEW contents AS SELECT content FROM memory_items;
        CREATE TABLE seen (id TEXT);
        CREATE TRIGGER see AFTER INSERT ON memory_items BEGIN INSERT INTO seen VALUES (new.id); END;
        CREATE TABLE inbox (id TEXT);
        CREATE TRIGGER clear AFTER INSERT ON inbox BEGIN DELETE FROM memory_items WHERE id = new.id; END;
        """
    )
    connection.close()
    async with SQLiteMemoryStore(path) as store:
        await store.add(HumanMemory(id="new", content="x"))
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM contents").fetchone() == (9,)
    assert connection.execute("SELECT id FROM seen").fetchall() == [("new",)]
    connection.execute("INSERT INTO inbox VALUES ('new')")
    assert connection.execute("SELECT count(*) FROM contents").fetchone() == (8,)
    connection.close()


async def test_a_file_is_adopted_once(tmp_path: Path) -> None:
    seed_file(tmp_path / "a.db")
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add(HumanMemory(id="later", content="x"))
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        assert await store.count() == 6
        assert await store.get("later") is not None


@pytest.mark.rare
def test_eight_processes_adopt_a_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    seed_file(path, rows=3_000)
    code = textwrap.dedent(
        """
        import asyncio, sys
        from memoranda import HumanMemory
        from memoranda_sqlite import SQLiteMemoryStore

        async def main():
            async with SQLiteMemoryStore(sys.argv[1]) as store:
                await store.add(HumanMemory(content="from " + sys.argv[2]))
                print(await store.count() >= 3000)

        asyncio.run(main())
        """
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(path), str(number)], stdout=subprocess.PIPE)
        for number in range(8)
    ]
    assert [process.communicate(timeout=240)[0] for process in processes] == [b"True\n"] * 8
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM memory_items").fetchone() == (3_008,)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_tables_of_others_are_left_alone(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("PRAGMA user_version = 77")
    connection.execute("PRAGMA application_id = 5")
    connection.execute("CREATE TABLE customers (id TEXT, content TEXT)")
    connection.execute("INSERT INTO customers VALUES ('c', 'hers')")
    connection.commit()
    connection.close()
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add(HumanMemory(content="x"))
        await store.clear()
        await store.purge(deleted_only=True)
    connection = sqlite3.connect(tmp_path / "a.db")
    assert connection.execute("SELECT * FROM customers").fetchall() == [("c", "hers")]
    assert connection.execute("PRAGMA user_version").fetchone() == (77,)
    assert connection.execute("PRAGMA application_id").fetchone() == (5,)


@pytest.mark.parametrize(
    "tables",
    [
        ["CREATE TABLE memory_items (id TEXT PRIMARY KEY, content TEXT)"],
        [SEED_TABLE.format(name="one", suffix=""), SEED_TABLE.format(name="two", suffix="")],
    ],
    ids=["other columns", "two that fit"],
)
async def test_a_file_that_cannot_be_understood_is_refused_untouched(tmp_path: Path, tables: list[str]) -> None:
    connection = sqlite3.connect(tmp_path / "a.db")
    for table in tables:
        connection.execute(table)
    connection.close()
    before = (tmp_path / "a.db").read_bytes()
    with pytest.raises(StoreError, match=r"a\.db"):
        await SQLiteMemoryStore(tmp_path / "a.db").init()
    assert (tmp_path / "a.db").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["a.db"]


@pytest.mark.parametrize("in_log", [False, True], ids=["in the file", "in the log alone"])
async def test_a_later_version_is_refused_untouched(tmp_path: Path, in_log: bool) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path) as store:
        await store.add(HumanMemory(content="x"))
    connection = sqlite3.connect(path)
    connection.execute("UPDATE memoranda_meta SET value = 99 WHERE key = 'schema_version'")
    connection.commit()
    if not in_log:
        connection.close()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")}
    with pytest.raises(SchemaTooNewError, match="99"):
        await SQLiteMemoryStore(path).init()
    after = {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")}
    assert after == before
    connection.close()


async def test_an_unreadable_time_in_an_adopted_row_does_no_harm(tmp_path: Path) -> None:
    seed_file(tmp_path / "a.db")
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("UPDATE memory_items SET created_at = 'long ago' WHERE id = 'id-1'")
    connection.commit()
    connection.close()
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        assert await store.count() == 5
