"""``memoranda copy --deleted`` and ``import``, killed in the middle and run again: what was deleted stays deleted.

The process kills itself at a chosen event, by an observer that is installed as any plugin is, so that the moment is
always the same one. Before and after each run, everything that the target shows is compared with the source.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from memoranda import HumanMemory, MemoryItem, MemoryMetadata
from memoranda.store import dump_item
from memoranda.sync import open as open_store
from servers import postgres_server, redis_server

# Long, and other modules see most faults first: a sample runs by default.
pytestmark = pytest.mark.rare("killed transfers")

EVENTS = ("before_add 700", "added 1", "added 2", "cleared 5")
"""Where to die: before an item is stored, after a batch of 500 was, or after an item was hidden by a call of its own.

Transfers hide nothing by calls of their own, so that the last one is never met, and the first run ends well.
"""
PLACES = [*(("sqlite", event) for event in EVENTS), ("postgres", "added 1"), ("redis", "added 1")]

NUMBER = 1_100
KILLER = """
import os, signal
from memoranda.plugins import ObserverSpec, hookimpl
from memoranda.store import Observer

event, number = os.environ["KILL_AT"].split()
left = int(number)

def happened(name):
    global left
    left -= name == event
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

class Killer(Observer):
    def before_add(self, item):
        happened("before_add")
        return item
    def added(self, items):
        happened("added")
    def cleared(self, metadata, removed):
        happened("cleared")

@hookimpl
def memoranda_observers():
    return [ObserverSpec("killer", target="killer:Killer", auto=True)]
"""


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Any]]:
    with ExitStack() as stack:
        yield {
            "postgres": stack.enter_context(postgres_server()),
            "redis": stack.enter_context(redis_server(private=True)),
        }


@pytest.fixture
def target(engine: str, servers: dict[str, Any], tmp_path: Path) -> Iterator[str]:
    """An empty store of the engine."""
    if engine == "sqlite":
        yield f"sqlite:///{tmp_path}/target.db"
    elif engine == "redis":
        yield f"{servers['redis'].url}?namespace={uuid.uuid4().hex}"
    else:
        with servers["postgres"].database() as url:
            yield url


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store in which items of one time are visible, deleted, archived, and deleted after they were archived."""
    url = f"sqlite:///{tmp_path_factory.mktemp('source')}/source.db"
    scope = MemoryMetadata(user_id="ada", session_id="s")
    items: list[MemoryItem] = [
        HumanMemory(
            id=f"i{number:04}",
            content=f"turn {number}",
            metadata=scope,
            created_at=f"2024-01-01T00:00:{number // 50:02}",
            archived_by="summary" if number % 5 == 0 else None,
        )
        for number in range(NUMBER)
    ]
    with open_store(url) as store:
        store.add_many(items)
        for item in items[::3]:
            store.delete(item.id)
    return url


@pytest.fixture(scope="module")
def exported(source: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source in a file, with what is deleted."""
    file = tmp_path_factory.mktemp("exported") / "all.jsonl"
    assert memoranda("export", str(file), "--deleted", "--store", source).returncode == 0
    return str(file)


def memoranda(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "memoranda", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def killed(folder: Path, event: str, *arguments: str) -> int:
    """Run a command that kills itself at an event, and return its exit code."""
    metadata = folder / "killer-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: killer\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[memoranda]\nkiller = killer\n")
    (folder / "killer.py").write_text(KILLER)
    return memoranda(*arguments, KILL_AT=event, PYTHONPATH=str(folder)).returncode


def shown(url: str) -> list[dict[str, Any]]:
    """Return what is visible in a store, in its order, without the versions that it gave."""
    with open_store(url) as store:
        return [{**dump_item(item), "version": 0} for item in store.scan()]


def everything(url: str) -> list[dict[str, Any]]:
    with open_store(url) as store:
        return [{**dump_item(item), "version": 0} for item in store.scan(include_deleted=True)]


@pytest.mark.rare
@pytest.mark.parametrize(("engine", "event"), PLACES)
@pytest.mark.parametrize("way", ["copy", "import"])
def test_what_was_deleted_stays_deleted_when_a_transfer_is_killed(
    source: str, exported: str, target: str, tmp_path: Path, way: str, event: str
) -> None:
    line = ["copy", source, target, "--deleted"] if way == "copy" else ["import", exported, "--store", target]
    visible = {item["id"] for item in shown(source)}

    code = killed(tmp_path / "killer", event, *line)

    assert code in (0, -signal.SIGKILL)
    assert {item["id"] for item in shown(target)} <= visible

    again = memoranda(*line)

    assert again.returncode == 0, again.stderr
    assert shown(target) == shown(source)
    assert everything(target) == everything(source)
    assert len(everything(target)) == NUMBER
