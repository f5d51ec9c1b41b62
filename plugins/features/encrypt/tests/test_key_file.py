"""The file of a key ring, beside other rings and other processes."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memoranda_encrypt import KeyRing, KeyRingError, LocalMasterKey
from memoranda_encrypt.key_file import KeyFile

TRIES_TO_WRITE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    connection.execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError:
    print("locked")
else:
    print("free")
"""


def writable(path: Path) -> str:
    command = [sys.executable, "-c", TRIES_TO_WRITE, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_closing_one_ring_leaves_the_locks_of_another_on_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "agent.keys"
    one, other = KeyFile(path), KeyFile(path)
    one.open()
    other.open()
    with one.transaction():
        other.close()
        while_writing = writable(path)
    after = writable(path)
    one.close()
    assert (while_writing, after) == ("locked", "free")


def test_a_ring_that_was_closed_sees_what_another_wrote_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "agent.keys"
    one, other = KeyFile(path), KeyFile(path)
    one.set("colour", "red")
    one.close()
    other.set("colour", "blue")
    assert one.setting("colour") == "blue"
    one.close()
    other.close()


@pytest.fixture
def made(tmp_path: Path) -> tuple[LocalMasterKey, Path]:
    """A ring with the keys of forty users."""
    master, path = LocalMasterKey.generate(), tmp_path / "agent.keys"
    ring = KeyRing(master, path)
    ring.open()
    for number in range(40):
        asyncio.run(ring.for_writing(f"user-{number}"))
    ring.close()
    return master, path


def test_a_ring_of_no_bytes_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "agent.keys"
    path.touch()
    ring = KeyRing(LocalMasterKey.generate(), path)
    for use in (ring.open, lambda: ring.open(create=False), lambda: ring.destroy("ada"), ring.rewrap, ring.list):
        with pytest.raises(KeyRingError, match="is empty: its file has 0 bytes"):
            use()
    assert path.read_bytes() == b""


def test_a_ring_that_was_cut_off_anywhere_is_refused(made: tuple[LocalMasterKey, Path]) -> None:
    master, path = made
    whole = path.read_bytes()
    for length in [1, 15, 16, 50, 99, 100, 511, 512, *range(1024, len(whole), 1024), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(KeyRingError, match=r"agent\.keys"):
            KeyRing(master, path).open()
        assert path.read_bytes() == whole[:length]
    path.write_bytes(bytes(len(whole)))
    with pytest.raises(KeyRingError, match="damaged or cut off"):
        KeyRing(master, path).open()
    path.write_bytes(whole)
    assert len(KeyRing(master, path).list()) == 40


def test_a_file_that_is_no_ring_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE other (name TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(KeyRingError, match="no key ring"):
        KeyRing(LocalMasterKey.generate(), path).open()
    assert path.read_bytes() == before


def test_a_ring_that_has_lost_the_key_of_its_hashes_gets_no_new_one(made: tuple[LocalMasterKey, Path]) -> None:
    master, path = made
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM keys WHERE owner = 'index'")
    connection.commit()
    connection.close()
    with pytest.raises(KeyRingError, match="Restore it from its backup"):
        KeyRing(master, path).open()


async def test_a_ring_that_was_replaced_while_it_was_open_takes_no_keys(made: tuple[LocalMasterKey, Path]) -> None:
    master, path = made
    ring = KeyRing(master, path)
    ring.open()
    path.with_name("backup").write_bytes(path.read_bytes())
    path.with_name("backup").replace(path)
    with pytest.raises(KeyRingError, match="removed or replaced while it was open"):
        await ring.for_writing("new")
    path.unlink()
    with pytest.raises(KeyRingError, match="removed or replaced while it was open"):
        await ring.for_writing("new")
    ring.close()


def test_a_ring_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "agent.keys"
    with ThreadPoolExecutor(8) as threads:
        master = LocalMasterKey.generate()
        rings = [KeyRing(master, path) for _ in range(8)]
        hashes = list(threads.map(lambda ring: ring.hashed("user", "ada"), rings))
    assert len(set(hashes)) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["agent.keys"]
    assert path.stat().st_mode & 0o777 == 0o600
    for ring in rings:
        ring.close()
