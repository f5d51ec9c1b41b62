"""From a URL or a path to an open store."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import memoranda
from memoranda import HumanMemory
from memoranda.errors import InputError, StoreClosedError
from memoranda.store import Capability
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_sqlite import SQLiteMemoryStore


async def test_a_store_is_opened_by_its_url(tmp_path: Path) -> None:
    async with memoranda.open(f"sqlite:///{tmp_path / 'a.db'}") as store:
        assert isinstance(store, SQLiteMemoryStore)
        await store.add(HumanMemory(id="one", content="x"))
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        assert await store.get("one") is not None


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///relative.db", "relative.db"),
        ("sqlite:///with%20space%3F.db", "with space?.db"),
        ("sqlite:///deep/down.db", "deep/down.db"),
        ("sqlite:relative.db", "relative.db"),
    ],
)
async def test_a_relative_url_is_a_file_below_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").mkdir()
    async with SQLiteMemoryStore.from_url(url):
        pass
    assert (tmp_path / path).exists()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite:"])
async def test_a_url_without_a_file_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.chdir(tmp_path)
    async with SQLiteMemoryStore.from_url(url) as store:
        await store.add(HumanMemory(content="x"))
        assert Capability.PERSISTENT not in store.capabilities
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://host/a.db",
        "sqlite:///a.db?colour=blue",
        "sqlite:///a.db?durability=perfect",
        "sqlite:///a.db?busy_timeout=soon",
        "sqlite:///a.db?busy_timeout=-1",
    ],
)
def test_a_url_that_makes_no_sense_is_refused(url: str) -> None:
    with pytest.raises(InputError):
        SQLiteMemoryStore.from_url(url)


def test_options_of_the_url_and_keywords_are_the_stores(tmp_path: Path) -> None:
    store = SQLiteMemoryStore.from_url(
        f"sqlite:///{tmp_path / 'a.db'}?durability=normal&busy_timeout=2.5", embeddings=HashingEmbeddings()
    )
    assert {Capability.SEMANTIC, Capability.HYBRID} <= store.capabilities
    with pytest.raises(InputError, match="colour"):
        memoranda.open("sqlite:///a.db", colour="blue")


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(InputError):
        SQLiteMemoryStore(path)


async def test_odd_names_are_files_like_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite itself would take some of these for URIs."""
    monkeypatch.chdir(tmp_path)
    names = ["file:odd.db?mode=memory", "a?b#c%20.db", "ünïcode 😀.db"]
    for name in names:
        async with SQLiteMemoryStore(name) as store:
            await store.add(HumanMemory(content="x"))
        async with SQLiteMemoryStore(name) as store:
            assert await store.count() == 1
    assert {file.name for file in tmp_path.iterdir()} == set(names)


async def test_a_change_of_the_working_folder_does_not_move_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = SQLiteMemoryStore("a.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    async with store:
        await store.add(HumanMemory(content="x"))
    assert (tmp_path / "a.db").exists()


async def test_both_ways_of_life(tmp_path: Path) -> None:
    store = SQLiteMemoryStore(str(tmp_path / "a.db"))
    with pytest.raises(StoreClosedError):
        await store.count()
    await store.init()
    await store.init()
    await store.add(HumanMemory(content="x"))
    await store.close()
    await store.close()
    with pytest.raises(StoreClosedError):
        await store.count()
    async with store as opened:
        assert opened is store
        assert await store.count() == 1


async def test_nothing_is_left_beside_a_closed_file(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many([HumanMemory(content="x") for _ in range(500)])
        await store.search(query="zzzz", limit=1_000)
    assert [file.name for file in tmp_path.iterdir()] == ["a.db"]


async def test_a_cancelled_opening_leaves_nothing_open(tmp_path: Path) -> None:
    for pause in (0.0, 0.0005, 0.002, 0.01):
        store = SQLiteMemoryStore(tmp_path / "a.db")
        opening = asyncio.create_task(store.init())
        await asyncio.sleep(pause)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        await store.close()
    async with SQLiteMemoryStore(tmp_path / "a.db", busy_timeout=5) as store:
        await store.add(HumanMemory(content="x"))


async def test_two_stores_in_memory_share_nothing() -> None:
    async with SQLiteMemoryStore() as one, SQLiteMemoryStore() as other:
        await one.add(HumanMemory(content="x"))
        assert (await one.count(), await other.count()) == (1, 0)


def test_listing_plugins_loads_no_driver() -> None:
    code = "import sys, memoranda_sqlite.plugin as p; p.memoranda_backends(); print('aiosqlite' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"
