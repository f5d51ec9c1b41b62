"""The file is its owner's, and what was purged is not in it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from memoranda import HumanMemory, MemoryMetadata
from memoranda_sqlite import SQLiteMemoryStore


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_new_file_and_its_log_are_the_owners_alone(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        async with SQLiteMemoryStore(tmp_path / "a.db") as store:
            await store.add(HumanMemory(content="x"))
            modes = {file.name: mode_of(file) for file in tmp_path.iterdir()}
    finally:
        os.umask(previous)
    assert modes == {"a.db": 0o600, "a.db-wal": 0o600, "a.db-shm": 0o600}


async def test_the_mode_of_an_existing_file_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.db").touch(mode=0o640)
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add(HumanMemory(content="x"))
    assert mode_of(tmp_path / "a.db") == 0o640


SECRET = "Zyzzyvaflorescent"


def traces(folder: Path) -> dict[str, list[bytes]]:
    """Return the files that hold the secret's bytes, whole or folded or as a term of the index."""
    wanted = [SECRET.encode(), SECRET.lower().encode(), b"florescent", b"Zyzzy", b"zyzzy", b"hushhush"]
    found = {}
    for file in folder.iterdir():
        content = file.read_bytes()
        if seen := [text for text in wanted if text in content]:
            found[file.name] = seen
    return found


@pytest.mark.parametrize("indexed", [False, True], ids=["before the index is filled", "after"])
@pytest.mark.parametrize("replaced", [False, True], ids=["as added", "replaced before"])
async def test_a_purge_leaves_no_bytes(tmp_path: Path, indexed: bool, replaced: bool) -> None:
    scope = MemoryMetadata(user_id="hushhush")
    others = [HumanMemory(content=f"Something else, number {number}") for number in range(300)]
    secrets = [HumanMemory(content=f"The {SECRET} of number {number}", metadata=scope) for number in range(50)]
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many([*others[:150], *secrets, *others[150:]])
        if indexed:
            await store.fill_indexes()
        if replaced:
            await store.add_many([item.model_copy(update={"content": "Nothing to see"}) for item in secrets])
        assert traces(tmp_path) != {}
        assert await store.purge(metadata=scope) == 50
        assert traces(tmp_path) == {}
        assert await store.search(query=SECRET) == []
        assert len(await store.search(query="something", limit=1_000)) == 300
    assert traces(tmp_path) == {}


async def test_one_purged_item_leaves_no_bytes(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many([HumanMemory(content=f"Something else, number {number}") for number in range(300)])
        await store.add(HumanMemory(id="secret", content=SECRET * 1_000))
        await store.fill_indexes()
        await store.delete("secret")
        assert await store.purge(deleted_only=True) == 1
        assert traces(tmp_path) == {}


async def test_a_purge_gives_room_back(tmp_path: Path) -> None:
    scope = MemoryMetadata(user_id="ada")
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add(HumanMemory(content="x"))
        await store.add_many([HumanMemory(content="y" * 2_000, metadata=scope) for _ in range(2_000)])
        await store.fill_indexes()
    before = (tmp_path / "a.db").stat().st_size
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.purge(metadata=scope)
        assert (tmp_path / "a.db").stat().st_size < before / 10


async def test_the_log_of_the_program_holds_no_content(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add(HumanMemory(id="one", content=SECRET))
        await store.search(query=SECRET)
        await store.search(query=SECRET, mode="text")
        await store.purge("one")
    assert SECRET not in caplog.text
