"""What was acknowledged is there after a kill, and in every copy of the file and its log."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from memoranda import HumanMemory
from memoranda_sqlite import SQLiteMemoryStore

WRITER = textwrap.dedent(
    """
    import asyncio, sys
    from memoranda import HumanMemory
    from memoranda_sqlite import SQLiteMemoryStore

    async def one(store, number):
        turn = 0
        while True:
            item = HumanMemory(content=f"item {number}/{turn} " + "x" * (turn % 3000))
            await store.add(item)
            sys.stdout.write(item.id + "\\n")
            sys.stdout.flush()
            turn += 1

    async def main(path):
        async with SQLiteMemoryStore(path) as store:
            await asyncio.gather(*(one(store, number) for number in range(8)))

    asyncio.run(main(sys.argv[1]))
    """
)


def acknowledged(lines: bytes) -> list[str]:
    """Return the ids of the whole lines; the last one may be torn."""
    return [line.decode() for line in lines.split(b"\n")[:-1] if line]


async def all_found(path: Path, ids: list[str]) -> None:
    async with SQLiteMemoryStore(path) as store:
        for item_id in ids:
            assert await store.get(item_id) is not None


@pytest.mark.rare
@pytest.mark.parametrize("after", [100, 700, 2000])
async def test_acknowledged_adds_survive_a_kill(tmp_path: Path, after: int) -> None:
    path = tmp_path / "memories.db"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = b"".join(process.stdout.readline() for _ in range(after))
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.read()
    ids = acknowledged(lines)
    assert len(ids) >= after
    await all_found(path, ids)
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_a_copy_at_any_moment_holds_what_was_acknowledged_before(tmp_path: Path) -> None:
    """The log holds whole commits as soon as they are acknowledged, as after a power cut with the disk in order."""
    path = tmp_path / "memories.db"
    copies: list[tuple[Path, list[str]]] = []
    acknowledged_ids: list[str] = []

    async def writes(store: SQLiteMemoryStore) -> None:
        while len(copies) < 6:
            item = HumanMemory(content="x" * 500)
            await store.add(item)
            acknowledged_ids.append(item.id)

    async with SQLiteMemoryStore(path) as store:
        writing = asyncio.gather(*(writes(store) for _ in range(4)))
        while len(copies) < 6:
            while len(acknowledged_ids) < 60 * (len(copies) + 1):
                await asyncio.sleep(0.001)
            before = list(acknowledged_ids)
            folder = tmp_path / f"copy-{len(copies)}"
            folder.mkdir()
            # The file first: what a checkpoint moves into it meanwhile is still in the log, which is copied later.
            for name in ("memories.db", "memories.db-wal"):
                shutil.copy(tmp_path / name, folder / name)
            copies.append((folder / "memories.db", before))
        await writing
    for copy, before in copies:
        await all_found(copy, before)
