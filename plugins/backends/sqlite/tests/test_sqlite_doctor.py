"""The store examines its file."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from memoranda import HumanMemory
from memoranda.store import Examinable, Finding, Reindexable
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_sqlite import SQLiteMemoryStore


async def findings_of(store: SQLiteMemoryStore, *, repair: bool = False) -> dict[str, Finding]:
    return {finding.name: finding for finding in await store.doctor(repair)}


def change(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


async def test_a_sound_file_is_sound(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many([HumanMemory(content="x") for _ in range(10)])
        findings = await findings_of(store)
        assert all(finding.ok for finding in findings.values())
        assert list(findings) == ["integrity", "rows", "settings", "privacy", "log", "free room", "text index"]
        assert isinstance(store, Examinable)
        assert isinstance(store, Reindexable)


async def test_a_store_in_memory_can_be_examined() -> None:
    async with SQLiteMemoryStore() as store:
        await store.add(HumanMemory(content="x"))
        assert all(finding.ok for finding in (await findings_of(store)).values())


@pytest.mark.parametrize("durability", ["full", "normal"])
async def test_it_says_how_durable_commits_are(tmp_path: Path, durability: str) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db", durability=durability) as store:  # type: ignore[arg-type]
        settings = (await findings_of(store))["settings"]
        assert f"synchronous {durability}" in settings.detail
        assert "journal wal" in settings.detail


async def test_unreadable_rows_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path) as store:
        await store.add_many([HumanMemory(id=f"id-{number}", content="secret") for number in range(5)])
        change(path, "UPDATE memory_items SET metadata = '{' WHERE id IN ('id-1', 'id-3')")
        rows = (await findings_of(store))["rows"]
        assert not rows.ok
        assert "2 of 5" in rows.detail
        assert "id-1" in rows.detail
        assert "id-3" in rows.detail
        assert "secret" not in rows.detail
        assert rows.remedy
        await store.add(HumanMemory(id="id-1", content="new"))
        await store.purge("id-3")
        assert (await findings_of(store))["rows"].ok


async def test_a_damaged_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path) as store:
        await store.add_many([HumanMemory(content="x" * 300) for _ in range(500)])
    connection = sqlite3.connect(path)
    (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'memory_items_by_task'").fetchone()
    connection.close()
    whole = bytearray(path.read_bytes())
    whole[(root - 1) * 4096 : (root - 1) * 4096 + 8] = b"\0" * 8
    path.write_bytes(whole)
    async with SQLiteMemoryStore(path) as store:
        integrity = (await findings_of(store))["integrity"]
        assert not integrity.ok
        assert integrity.remedy


async def test_a_file_that_others_may_read_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path) as store:
        path.chmod(0o644)
        privacy = (await findings_of(store))["privacy"]
        assert not privacy.ok
        assert "0644" in privacy.detail
        assert "chmod 600" in privacy.remedy


async def test_rows_that_wait_for_the_index_are_counted_and_repaired(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many([HumanMemory(content="x") for _ in range(50)])
        assert "50 rows" in (await findings_of(store))["text index"].detail
        assert (await findings_of(store, repair=True))["text index"].detail == "complete"


async def test_missing_vectors_are_found_and_repaired(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path) as store:
        await store.add_many([HumanMemory(content=f"tea {number}") for number in range(300)])
    async with SQLiteMemoryStore(path, embeddings=HashingEmbeddings()) as store:
        vectors = (await findings_of(store))["vectors"]
        assert not vectors.ok
        assert "300" in vectors.detail
        assert (await findings_of(store, repair=True))["vectors"].ok
        assert len(await store.search(query="tea 7", mode="semantic", limit=300)) == 300


async def test_vectors_of_another_model_are_found(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path, embeddings=HashingEmbeddings()) as store:
        await store.add(HumanMemory(content="x"))
    async with SQLiteMemoryStore(path, embeddings=HashingEmbeddings(dimension=8)) as store:
        vectors = (await findings_of(store, repair=True))["vectors"]
        assert not vectors.ok
        assert "reindex" in vectors.remedy
