"""Keys are rotated, and stores are encrypted and decrypted in place, while others go on and whatever is killed."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from ciphertext import all_stored, encryption

import memoranda
from memoranda import HumanMemory, MemoryMetadata, ToolMemory
from memoranda.errors import InputError
from memoranda.store import InMemoryStore, Store
from memoranda_encrypt import KeyRing, LocalMasterKey, NotSealedError, decrypt, encrypt, rotate, with_encryption
from memoranda_encrypt.sealing import key_id_of
from memoranda_sqlite import SQLiteMemoryStore
from servers import Engines

USERS = ("ada", "ben", None)
SCRIPT = Path(__file__).with_name("rotating.py")


def items(count: int) -> list[HumanMemory]:
    return [
        HumanMemory(
            id=f"{number:03}",
            content=f"tea number {number}",
            metadata=MemoryMetadata(user_id=USERS[number % 3], session_id="s"),
        )
        for number in range(count)
    ]


async def contents(store: Store | SQLiteMemoryStore) -> dict[str, str]:
    return {item.id: item.content async for item in store.scan(include_deleted=True)}


async def keys_used(store: Store) -> dict[str, str]:
    return {held.id: key_id_of(held.payload or "") async for held in all_stored(store, deleted=True)}


async def test_rotation_of_all_keys_encrypts_every_item_anew(store: Store) -> None:
    await store.add_many(items(30))
    await store.delete("004")
    before, said, seen = await keys_used(store), await contents(store), []
    done = await rotate(store, progress=lambda *each: seen.append(each), grace=0)
    after = await keys_used(store)
    assert (done.items, done.keys) == (30, 3)
    assert not set(before.values()) & set(after.values())
    assert await contents(store) == said
    assert await store.get("004") is None
    assert seen[-1] == (30, 30)
    assert not encryption(store).ring.rotating
    assert await store.restore("004") == 1


@pytest.mark.parametrize(
    "engine",
    ["memory", *(pytest.param(name, marks=pytest.mark.rare(name)) for name in ("postgres", "redis"))],
)
async def test_deleted_items_are_encrypted_anew_and_stay_deleted(
    engine: str, engines: Engines, tmp_path: Path, ring: KeyRing
) -> None:
    with engines.empty_store(engine, tmp_path) as url:
        async with memoranda.open(url, encrypt=ring) as store:
            await store.add_many(items(6))
            await store.clear(metadata=MemoryMetadata(user_id="ben"))
            assert (await rotate(store, grace=0)).items == 6
            assert len(await store.search()) == 4
            assert await store.restore() == 2
            assert {item.content for item in await store.search()} == {f"tea number {number}" for number in range(6)}


async def test_rotation_of_one_user_leaves_the_others(store: Store) -> None:
    await store.add_many(items(9))
    before = await keys_used(store)
    assert (await rotate(store, "ada", grace=0)).items == 3
    after = await keys_used(store)
    assert {item_id for item_id in before if before[item_id] != after[item_id]} == {"000", "003", "006"}


async def test_a_retired_key_is_kept_for_writers_that_are_late(store: Store) -> None:
    await store.add_many(items(3))
    assert (await rotate(store)).keys == 0
    assert sorted(key.state for key in encryption(store).ring.list()) == ["active"] * 3 + ["retired"] * 3
    assert (await rotate(store, grace=0)).keys == 6


async def test_others_read_and_write_during_a_rotation(
    tmp_path: Path, ring: KeyRing, master: LocalMasterKey, store: Store
) -> None:
    await store.add_many(items(300))
    other = with_encryption(SQLiteMemoryStore(tmp_path / "store.db"), KeyRing(master, tmp_path / "keys.db"))
    chosen, written = random.Random(1), {}

    async def work() -> None:
        while ring.rotating or not written:
            number = chosen.randrange(300)
            item = items(300)[number]
            if number % 2:
                item.content = written[item.id] = f"coffee {len(written)}"
                await other.add(item)
            found = await other.get(item.id)
            assert found is not None
            assert found.content == written.get(item.id, f"tea number {number}")
            await asyncio.sleep(0)

    async with other:
        working = asyncio.create_task(work())
        await rotate(store, grace=0)
        await working
        assert await contents(other) == {item.id: written.get(item.id, item.content) for item in items(300)}


async def test_rotation_keeps_vectors_and_branches(tmp_path: Path, ring: KeyRing) -> None:
    from memoranda_backend.ranking import HashingEmbeddings

    inner = SQLiteMemoryStore(tmp_path / "vectors.db", embeddings=HashingEmbeddings(32))
    async with with_encryption(inner, ring) as store:
        await store.add_many(items(6))
        branch = await store.fork("s", at="003")
        await rotate(store, grace=0)
        assert (await store.search(query="tea number 3", mode="semantic", limit=1))[0].id == "003"
        shown = await store.search(metadata=MemoryMetadata(session_id=branch))
        assert [item.id for item in shown] == ["003", "000"]


async def test_a_store_is_encrypted_and_decrypted_in_place(tmp_path: Path, ring: KeyRing) -> None:
    path = tmp_path / "plain.db"
    async with SQLiteMemoryStore(path) as inner:
        await inner.add_many(items(20))
        await inner.add(
            ToolMemory(id="tool", content="plum pudding", tool_call_id="call", tool_name="plum pudding", is_error=True)
        )
        await inner.delete("007")
        before = {item.id: item async for item in inner.scan(include_deleted=True)}
        assert (await encrypt(inner, ring)).items == 21
        assert (await encrypt(inner, ring)).items == 0
    # Words too long to stand in sealed bytes by chance, as three letters may.
    for file in sorted(tmp_path.glob("plain.db*")):
        assert not [word for word in (b"plum pudding", b"tea number") if word in file.read_bytes()], file.name
    async with with_encryption(SQLiteMemoryStore(path), ring) as store:
        after = {item.id: item async for item in store.scan(include_deleted=True)}
        assert after == {item_id: item.model_copy(update={"version": 2}) for item_id, item in before.items()}
        assert await store.get("007") is None
    assert (await decrypt(SQLiteMemoryStore(path), ring)).items == 21
    async with SQLiteMemoryStore(path) as inner:
        back = {item.id: item async for item in inner.scan(include_deleted=True)}
        assert back == {item_id: item.model_copy(update={"version": 3}) for item_id, item in before.items()}


async def test_readers_may_accept_clear_items_while_a_store_is_being_encrypted(tmp_path: Path, ring: KeyRing) -> None:
    path = tmp_path / "store.db"
    async with SQLiteMemoryStore(path) as plain:
        await plain.add_many(items(2))
    async with with_encryption(SQLiteMemoryStore(path), ring, unsealed="read") as store:
        await store.add(items(3)[2])
        assert [item.content for item in await store.search()] == ["tea number 2", "tea number 1", "tea number 0"]
        assert len(await store.search(query="tea", mode="text")) == 3
    async with with_encryption(SQLiteMemoryStore(path), ring) as strict:
        assert [item.content for item in await strict.search()] == ["tea number 2"]
        with pytest.raises(NotSealedError, match="'000'"):
            await strict.get("000")


async def test_owners_cannot_be_hidden_in_place() -> None:
    ring = KeyRing(LocalMasterKey.generate(), hide_owners=True)
    async with InMemoryStore() as inner:
        with pytest.raises(InputError, match="copy"):
            await encrypt(inner, ring)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork and no SIGKILL")
@pytest.mark.parametrize(
    ("what", "times"),
    [
        ("rotate", 10),
        ("encrypt", 3),
        pytest.param("rotate", 100, marks=pytest.mark.slow),
        pytest.param("decrypt", 20, marks=pytest.mark.slow),
    ],
)
async def test_nothing_is_lost_whenever_it_is_killed(tmp_path: Path, what: str, times: int) -> None:
    """Kill the process at a random moment, again and again: every item is there each time, and the next run goes on."""
    LocalMasterKey.make_file(tmp_path / "master.key")
    ring = KeyRing(LocalMasterKey.from_file(tmp_path / "master.key"), tmp_path / "keys.db")
    path, all_items = tmp_path / "store.db", items(400)
    inner = SQLiteMemoryStore(path, durability="normal")
    async with inner if what == "encrypt" else with_encryption(inner, ring) as store:
        await store.add_many(all_items)
        await store.delete("005")
    said = {item.id: item.content for item in all_items}
    killed = 0
    files = [str(tmp_path / name) for name in ("store.db", "keys.db", "master.key")]
    command, chosen = [sys.executable, str(SCRIPT), what, *files], random.Random(times)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(times):
            killed += await asyncio.to_thread(run_and_kill, process, chosen)
            reader = with_encryption(SQLiteMemoryStore(path), ring, unsealed="refuse" if what == "rotate" else "read")
            async with reader:
                assert await contents(reader) == said
                assert await reader.get("005") is None
        assert process.stdin is not None
        process.stdin.close()
    assert killed


def run_and_kill(process: subprocess.Popen[str], chosen: random.Random) -> bool:
    """Let the script begin, and kill what it forked after some lines and a moment; return False if it had ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    child = int(process.stdout.readline())
    for _ in range(chosen.randrange(5)):
        if process.stdout.readline() == "ended 0\n":
            return False
    time.sleep(chosen.uniform(0, 0.03))
    with suppress(ProcessLookupError):  # It may just have ended.
        os.kill(child, signal.SIGKILL)
    while not (line := process.stdout.readline()).startswith("ended"):
        assert line
    return line == f"ended {signal.SIGKILL.value}\n"
