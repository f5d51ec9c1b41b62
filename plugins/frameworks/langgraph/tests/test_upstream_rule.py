"""The rule by which LangGraph's own tests are left out leaves out what it says, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("langgraph.store.postgres", reason="the session langgraph-suite installs it")

UPSTREAM = Path(__file__).parent / "upstream"

TESTS = """
import asyncio
import pytest
from langgraph.store.base.batch import AsyncBatchedBaseStore
from langgraph.store.sqlite import SqliteStore
from langgraph.store.sqlite.base import _namespace_to_text

class Own(AsyncBatchedBaseStore):
    def batch(self, ops): ...
    async def abatch(self, ops): ...

def peek(store):
    return store._cursor()

@pytest.fixture
def store():
    with SqliteStore.from_conn_string(":memory:") as made:
        made._cursor()
        yield made

def test_applies(store):
    for _ in range(2):
        store.put(("a",), "k", {"n": 1})
    assert store.get(("a",), "k").value == {"n": 1}

async def test_applies_with_async(store):
    with pytest.raises(asyncio.InvalidStateError):
        store.get(("a",), "k")

def test_looks_at_tables(store):
    store.conn.execute("SELECT 1")

def test_looks_at_private_names(store):
    _namespace_to_text(("a",))

def test_looks_at_private_names_elsewhere(store):
    peek(store)

def test_replaces_what_is_not_of_a_store(store, monkeypatch):
    monkeypatch.setattr(asyncio, "sleep", None)

async def test_has_a_class_of_its_own(store):
    assert Own()._task is not None

def test_has_no_store():
    pass
"""


def test_only_what_the_rule_names_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-v", "-c", str(UPSTREAM / "pytest.ini"), "--rootdir", str(tmp_path)]
    command += ["-p", "stand_ins", "-p", "no:cacheprovider", str(tmp_path / "test_theirs.py")]
    path = [str(UPSTREAM), *filter(None, sys.path)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env={"PYTHONPATH": ":".join(path)}
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
    assert "3 tests left out" in done.stdout
    assert "looks at private names, tables or connections (3)" in done.stdout
