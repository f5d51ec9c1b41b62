"""A row whose text is no Unicode, as a damaged file or another program may leave it, is left out and named."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

import pytest

from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import CorruptStoreError
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_sqlite import SQLiteMemoryStore

COLUMNS = ["content", "memory_type", "status", "metadata", "extra_json", "created_at", "updated_at", "id"]
ADA = MemoryMetadata(user_id="ada")
SECRET = "zyzzyva"


async def damaged(path: Path, column: str, *, indexed: bool) -> Path:
    """Make a file with one row whose column holds text that is no Unicode, in the text indexes or not."""
    async with SQLiteMemoryStore(path) as store:
        await store.add_many(
            [HumanMemory(id=f"id-{n}", content=f"{SECRET} of green tea {n}", metadata=ADA) for n in range(20)]
        )
        if indexed:
            await store.fill_indexes()
    connection = sqlite3.connect(path)
    (value,) = connection.execute(f"SELECT {column} FROM memory_items WHERE id = 'id-7'").fetchone()
    broken = value.encode()[:-2] + b"\xff" + value.encode()[-2:]
    connection.execute(f"UPDATE memory_items SET {column} = CAST(? AS TEXT) WHERE id = 'id-7'", (broken,))
    connection.commit()
    connection.close()
    return path


OTHERS = {f"id-{n}" for n in range(20)} - {"id-7"}


@pytest.mark.parametrize("indexed", [True, False], ids=["indexed", "not indexed"])
@pytest.mark.parametrize("column", COLUMNS)
async def test_it_is_left_out_of_every_read(
    tmp_path: Path, column: str, indexed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path = await damaged(tmp_path / "a.db", column, indexed=indexed)
    caplog.clear()
    async with SQLiteMemoryStore(path) as store:
        assert {item.id for item in await store.search(limit=100)} == OTHERS
        assert {item.id for item in await store.search(limit=500)} == OTHERS
        assert {item.id for item in await store.search(query="GREEN tea", limit=100)} == OTHERS
        assert {item.id for item in await store.search(query="GREEN tea", limit=500)} == OTHERS
        assert {item.id async for item in store.scan()} == OTHERS
        ranked = await store.search_ranked(query="green tea", limit=100, mode="text")
        assert {found.item.id for found in ranked} == OTHERS
        await store.fill_indexes()
        assert {item.id for item in await store.search(query="GREEN tea", limit=500)} == OTHERS
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert any("left out" in warning for warning in warnings)
    assert column == "id" or any("'id-7'" in warning for warning in warnings)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("column", COLUMNS)
async def test_the_doctor_names_it_and_nothing_else_is_wrong(tmp_path: Path, column: str) -> None:
    path = await damaged(tmp_path / "a.db", column, indexed=False)
    async with SQLiteMemoryStore(path) as store:
        for repair in (False, True):
            bad = {finding.name: finding.detail for finding in await store.doctor(repair=repair) if not finding.ok}
            assert set(bad) == {"rows"}
            assert bad["rows"].startswith("1 of 20 cannot be read")
            assert column == "id" or "'id-7'" in bad["rows"]
    async with SQLiteMemoryStore(path) as store:
        assert {finding.name for finding in await store.doctor() if not finding.ok} == {"rows"}


@pytest.mark.parametrize("column", [column for column in COLUMNS if column != "id"])
async def test_it_can_be_replaced_and_purged_by_its_id(tmp_path: Path, column: str) -> None:
    path = await damaged(tmp_path / "a.db", column, indexed=True)
    async with SQLiteMemoryStore(path) as store:
        with pytest.raises(CorruptStoreError, match="id-7"):
            await store.get("id-7")
        assert await store.purge("id-7") == 1
        assert await store.purge("id-8") == 1
        assert await store.get("id-7") is None
        assert len(await store.search(query="green", limit=100)) == 18
        assert all(finding.ok for finding in await store.doctor())
        assert SECRET.encode() + b" of green tea 8" not in path.read_bytes()


async def test_it_has_no_vector_and_the_others_have(tmp_path: Path) -> None:
    path = await damaged(tmp_path / "a.db", "content", indexed=True)
    async with SQLiteMemoryStore(path, embeddings=HashingEmbeddings()) as store:
        await store.reindex()
        ranked = await store.search_ranked(query="green tea", limit=100, mode="semantic")
        assert {found.item.id for found in ranked} == OTHERS
        ranked = await store.search_ranked(query="green tea", limit=100, mode="hybrid")
        assert {found.item.id for found in ranked} == OTHERS
        assert {finding.name for finding in await store.doctor() if not finding.ok} == {"rows"}


async def test_extra_fields_are_compared_beside_it(tmp_path: Path) -> None:
    path = await damaged(tmp_path / "a.db", "metadata", indexed=True)
    async with SQLiteMemoryStore(path) as store:
        tagged = MemoryMetadata(extra={"k": 1})
        await store.add(HumanMemory(id="tagged", content="x", metadata=tagged))
        assert [item.id for item in await store.search(metadata=tagged)] == ["tagged"]
        assert await store.count(metadata=tagged) == 1


@pytest.mark.parametrize("column", COLUMNS)
async def test_a_plain_table_with_such_a_row_is_taken_over(tmp_path: Path, column: str) -> None:
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    data = Path(__file__).parent / "data" / "ten_columns.sql"
    connection.executescript(data.read_text(encoding="utf-8"))
    broken = b"2024\xff" if column.endswith("_at") else b"x\xff"
    connection.execute(f"UPDATE memory_items SET {column} = CAST(? AS TEXT) WHERE id = 'id-1'", (broken,))
    connection.commit()
    connection.close()
    async with SQLiteMemoryStore(path) as store:
        assert {item.id for item in await store.search(limit=100)} == {"id-0", "id-2", "id-3", "id-4"}
        assert await store.count() == 5


async def test_a_scan_goes_on_behind_many_of_them(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path, durability="normal") as store:
        await store.add_many([HumanMemory(id=f"{n:05}", content="x") for n in range(3_000)])
    connection = sqlite3.connect(path)
    broken = "UPDATE memory_items SET created_at = CAST(CAST(created_at AS BLOB) || x'ff' AS TEXT) WHERE rowid % 3 = 0"
    connection.execute(broken)
    connection.commit()
    connection.close()
    async with SQLiteMemoryStore(path) as store:
        assert len([item.id async for item in store.scan()]) == 2_000
