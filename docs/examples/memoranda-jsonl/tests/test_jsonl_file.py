"""What is this store's own: the file, crashes, and other processes."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import memoranda
import pytest
from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import CorruptStoreError, InputError, SchemaTooNewError, StoreUnavailableError

from memoranda_jsonl import JsonLinesStore

WRITER = """
    import asyncio, sys
    from memoranda import HumanMemory
    from memoranda_jsonl import JsonLinesStore

    async def main(path, name, number):
        async with JsonLinesStore(path) as store:
            for position in range(number):
                await store.add(HumanMemory(id=f"{name}-{position}", content=f"{name} {position}"))
                print(position, flush=True)

    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def writer(path: Path, name: str, number: int) -> subprocess.Popen[str]:
    """Start a process that adds items and prints each position once it is stored."""
    code = textwrap.dedent(WRITER)
    return subprocess.Popen(
        [sys.executable, "-c", code, str(path), name, str(number)], stdout=subprocess.PIPE, text=True
    )


async def contents(path: Path) -> list[str]:
    async with JsonLinesStore(path) as store:
        return [item.content async for item in store.scan()]


async def test_a_url_opens_the_store_and_options_stand_in_its_query(tmp_path: Path) -> None:
    url = f"jsonl:///{tmp_path / 'memories.jsonl'}?sync=no"
    async with memoranda.open(url) as store:
        await store.add(HumanMemory(content="I like a window seat."))

    assert await contents(tmp_path / "memories.jsonl") == ["I like a window seat."]


@pytest.mark.parametrize("url", ["jsonl://", "jsonl:///x.jsonl?speed=high", "jsonl:///x.jsonl?sync=maybe"])
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(InputError):
        memoranda.open(url)


async def test_what_a_killed_process_had_acknowledged_is_there(tmp_path: Path) -> None:
    path = tmp_path / "memories.jsonl"
    with writer(path, "killed", 100_000) as process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(50)][-1]
        process.send_signal(signal.SIGKILL)

    stored = await contents(path)

    assert stored == [f"killed {position}" for position in range(len(stored))]
    assert len(stored) > acknowledged


async def test_two_processes_write_at_once_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memories.jsonl"
    with writer(path, "a", 100) as first, writer(path, "b", 100) as second:
        first.communicate()
        second.communicate()

    stored = await contents(path)

    assert sorted(stored) == sorted(f"{name} {position}" for name in "ab" for position in range(100))


async def test_an_open_store_sees_what_another_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "memories.jsonl"
    async with JsonLinesStore(path) as store:
        with writer(path, "other", 3) as process:
            process.communicate()

        assert await store.count() == 3


async def test_a_torn_last_line_is_cut_off_by_the_next_writer(tmp_path: Path) -> None:
    path = tmp_path / "memories.jsonl"
    async with JsonLinesStore(path) as store:
        await store.add(HumanMemory(content="whole"))
    with path.open("ab") as file:
        file.write(b'{"put":[{"id":"torn","cont')

    async with JsonLinesStore(path) as store:
        await store.add(HumanMemory(content="next"))

    assert await contents(path) == ["whole", "next"]
    assert b"torn" not in path.read_bytes()


async def test_damage_in_the_middle_is_said_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "memories.jsonl"
    async with JsonLinesStore(path) as store:
        for number in range(3):
            await store.add(HumanMemory(content=f"item {number}"))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b'{"put":[{"id\n'
    damaged = b"".join(lines)
    path.write_bytes(damaged)

    with pytest.raises(CorruptStoreError):
        await contents(path)

    assert path.read_bytes() == damaged


async def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text('{"note": 1}\n')

    with pytest.raises(CorruptStoreError, match="not a file of this store"):
        await contents(path)

    assert path.read_text() == '{"note": 1}\n'


async def test_a_file_of_a_later_release_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "memories.jsonl"
    path.write_text('{"memoranda-jsonl": 2, "generation": "x"}\n')

    with pytest.raises(SchemaTooNewError):
        await contents(path)


async def test_a_folder_that_is_not_there_makes_the_store_unavailable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError):
        await contents(tmp_path / "nowhere" / "memories.jsonl")


async def test_history_is_taken_out_when_there_is_much_of_it(tmp_path: Path) -> None:
    path = tmp_path / "memories.jsonl"
    async with JsonLinesStore(path, sync=False) as store, JsonLinesStore(path, sync=False) as other:
        await other.add(HumanMemory(id="kept", content="kept"))
        for number in range(1200):
            await store.add(HumanMemory(id="changing", content=f"version {number}"))

        assert len(path.read_bytes().splitlines()) < 1100
        assert [item.content async for item in other.scan()] == ["kept", "version 1199"]


async def test_what_was_purged_is_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "memories.jsonl"
    async with JsonLinesStore(path) as store:
        await store.add(HumanMemory(content="my secret", metadata=MemoryMetadata(user_id="ada")))
        await store.clear(metadata=MemoryMetadata(user_id="ada"))
        assert b"my secret" in path.read_bytes()

        await store.purge(metadata=MemoryMetadata(user_id="ada"))

    assert b"my secret" not in path.read_bytes()
    assert b'"ada"' not in path.read_bytes()


async def test_waiting_for_another_process_does_not_stop_the_event_loop(tmp_path: Path) -> None:
    path = tmp_path / "memories.jsonl"
    async with JsonLinesStore(path) as store:
        holder = f"""
            import sys
            from pathlib import Path
            from memoranda_jsonl.locking import locked
            with locked(Path({str(path) + ".lock"!r})):
                print("held", flush=True)
                sys.stdin.readline()
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            textwrap.dedent(holder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        await process.stdout.readline()
        waiting = asyncio.create_task(store.count())

        await asyncio.sleep(0.05)  # The loop turns while the store's thread waits.

        assert not waiting.done()
        await process.communicate(b"\n")
        assert await waiting == 0


def test_memoranda_lists_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "memoranda", "plugins", "--json"], capture_output=True, text=True, check=True
    )

    (row,) = (row for row in json.loads(done.stdout) if row["name"] == "jsonl")
    assert row["status"] == "ok"
    assert row["offers"][0]["schemes"] == ["jsonl"]
