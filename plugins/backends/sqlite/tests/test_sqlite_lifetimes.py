"""Expired items: gone for every process from the moment on, by its clock, and then off the disk."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import lifetimes
from memoranda_sqlite import SQLiteMemoryStore, erasing

ADA = MemoryMetadata(user_id="ada", session_id="s")
START = 1_714_557_600.0
YEAR = 365 * 86_400.0


@pytest.mark.parametrize("seconds", [60.0, 10 * YEAR, -10 * YEAR])
async def test_a_clock_that_was_wrong_before_a_restart_decides_nothing_after_it(tmp_path: Path, seconds: float) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path) as store:
        store.clock = lambda: START
        await store.add(HumanMemory(id="long", content="x"), ttl=1_000)
        store.clock = lambda: START + seconds
        await store.add(HumanMemory(id="by the wrong clock", content="x"), ttl=5)
        await store.touch(["by the wrong clock"])
        assert await store.search(limit=0) == []
    async with SQLiteMemoryStore(path) as again:
        again.clock = lambda: START + 1
        await again.add(HumanMemory(id="brief", content="x"), ttl=60)
        brief = await again.get("brief")
        assert brief is not None
        assert str(brief.expires_at).startswith("2024-05-01T10:01:01")
        again.clock = lambda: START + 60
        assert {"brief", "long"} <= {item.id for item in await again.search()}
        again.clock = lambda: START + 61
        assert "brief" not in {item.id for item in await again.search()}
        assert await again.get("brief") is None


async def test_a_file_that_was_kept_by_a_clock_ten_years_ahead_heals(tmp_path: Path) -> None:
    """Earlier releases wrote down the latest time that they saw."""
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path) as store:
        await store.add(HumanMemory(id="old", content="x"), ttl=3600)
    connection = sqlite3.connect(path)
    with connection:
        kept = ("latest_time", "2099-01-01T00:00:00.000000+00:00")
        connection.execute("INSERT OR REPLACE INTO memoranda_meta (key, value) VALUES (?, ?)", kept)
    connection.close()
    async with SQLiteMemoryStore(path) as store:
        present = time.time()
        store.clock = lambda: present
        await store.add(HumanMemory(id="new", content="x"), ttl=60)
        assert {item.id for item in await store.search()} == {"new", "old"}
        store.clock = lambda: present + 60
        assert {item.id for item in await store.search()} == {"old"}


async def test_what_a_clock_keeps_calling_over_is_removed_in_passing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifetimes, "CONFIRMED_SECONDS", 0.0)
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path) as store:
        store.clock = lambda: START
        await store.add(HumanMemory(id="short", content="x"), ttl=10)
        store.clock = lambda: START + 20
        assert [await store.search(), await store.search()] == [[], []]  # It jumps, and stays there.
    async with SQLiteMemoryStore(path) as store:
        store.clock = lambda: START
        assert await store.get("short") is None


async def test_what_another_process_stored_expires_here(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path) as store:
        async with SQLiteMemoryStore(path) as other:
            other.clock = lambda: START
            await other.add(HumanMemory(id="theirs", content="x", metadata=ADA), ttl=10)
        assert await store.get("theirs") is None
        assert await store.search(metadata=ADA) == []
        assert await store.count() == 0
        assert [owner async for owner in store.owners()] == []
        await store.add(HumanMemory(id="theirs", content="mine", metadata=MemoryMetadata(user_id="bob")))
        mine = await store.get("theirs")
        assert mine is not None
        assert (mine.content, mine.version) == ("mine", 1)


async def test_what_was_swept_is_off_the_disk_when_the_store_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path) as store:
        store.clock = lambda: START
        await store.add_many([HumanMemory(content=f"keep {number}") for number in range(50)])
        await store.add(HumanMemory(content="the xylophone secret"), ttl=10)
        await store.fill_indexes()
        store.clock = lambda: START + 20
        assert await store.sweep() == 1
        assert await store.search(query="xylophone") == []
    assert b"xylophone" not in path.read_bytes()


async def test_sweeps_share_one_erasing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing the file anew for every item that expires would keep writers waiting."""
    monkeypatch.setattr(erasing, "SWEPT_SECONDS", 1_000.0)
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path) as store:
        now = START
        store.clock = lambda: now
        for _ in range(3):
            await store.add(HumanMemory(content="x"), ttl=1)
            now += 5
            assert await store.sweep() == 1
        connection = sqlite3.connect(path)
        marks = connection.execute("SELECT value FROM memoranda_meta WHERE key = 'erasing'").fetchall()
        connection.close()
        assert len(marks) == 1
        assert await store.unerased() == ""


async def test_popped_items_leave_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path) as store:
        await store.add_many([HumanMemory(content=f"keep {number}", metadata=ADA) for number in range(50)])
        await store.add(HumanMemory(content="the xylophone secret", metadata=ADA))
        await store.fill_indexes()
        popped = await store.pop(metadata=ADA, purge=True)
        assert popped is not None
        assert popped.content == "the xylophone secret"
        for file in tmp_path.iterdir():
            assert b"xylophone" not in file.read_bytes(), file.name


PROGRAM = textwrap.dedent(
    """
    import asyncio, sys
    from memoranda import HumanMemory, MemoryMetadata
    from memoranda.errors import TurnConflictError
    from memoranda_sqlite import SQLiteMemoryStore

    ADA = MemoryMetadata(user_id="ada", session_id="s")

    async def main():
        async with SQLiteMemoryStore(sys.argv[1]) as store:
            heard = 0
            while heard < 10:
                head = await store.head(metadata=ADA)
                turn = [HumanMemory(content=f"{sys.argv[2]} {heard} {part}", metadata=ADA) for part in "abc"]
                try:
                    await store.append(turn, after=head)
                    heard += 1
                except TurnConflictError:
                    await asyncio.sleep(0)
            mine = []
            while len(mine) < 6:
                item = await store.pop(metadata=ADA)
                if item is None:
                    break
                mine.append(item.id)
            print(*mine)

    asyncio.run(main())
    """
)


@pytest.mark.rare
async def test_turns_of_several_processes_are_whole_and_nothing_is_popped_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path) as store:
        processes = [
            subprocess.Popen([sys.executable, "-c", PROGRAM, str(path), str(number)], stdout=subprocess.PIPE)
            for number in range(3)
        ]
        outputs = [
            (await asyncio.to_thread(process.communicate, timeout=240))[0].decode().split() for process in processes
        ]
        popped = [item_id for output in outputs for item_id in output]
        assert len(popped) == len(set(popped)) == 18
        every = [item async for item in store.scan(include_deleted=True, order="added")]
        said = [item.content.split() for item in every]
    assert len(said) == 90
    for turn in range(0, 90, 3):
        assert [word[2] for word in said[turn : turn + 3]] == ["a", "b", "c"]
        assert len({(word[0], word[1]) for word in said[turn : turn + 3]}) == 1
