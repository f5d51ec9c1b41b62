"""The file of a key ring, beside other rings and other processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
