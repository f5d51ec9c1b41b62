"""``memoranda copy`` from every engine to every other, and the demo on the embedded file."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, ToolMemory
from memoranda.store import dump_item
from memoranda.sync import open as open_store
from servers import postgres_server, redis_server

# Long, and other modules see most faults first: a sample runs by default.
pytestmark = pytest.mark.rare("copy between backends")

ENGINES = ("sqlite", "postgres", "redis")


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Any]]:
    with ExitStack() as stack:
        yield {
            "postgres": stack.enter_context(postgres_server()),
            "redis": stack.enter_context(redis_server(private=True)),
        }


@pytest.fixture
def urls(servers: dict[str, Any], tmp_path: Path) -> Iterator[dict[str, list[str]]]:
    """Two empty stores of every engine."""
    with ExitStack() as stack:
        yield {
            "sqlite": [f"sqlite:///{tmp_path}/{number}.db" for number in range(2)],
            "postgres": [stack.enter_context(servers["postgres"].database()) for _ in range(2)],
            "redis": [f"{servers['redis'].url}?namespace={uuid.uuid4().hex}" for _ in range(2)],
        }


def memoranda(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "memoranda", *arguments], capture_output=True, text=True, check=False, timeout=240
    )


def items() -> list[MemoryItem]:
    """Items with ties, tool calls, odd text, further fields and one that is archived."""
    ada = MemoryMetadata(user_id="ada", session_id="s", extra={"mood": [1, 2.5, None, True]})
    tied = {"created_at": "2024-01-01T00:00:00", "metadata": ada}
    made: list[MemoryItem] = [HumanMemory(content=f"tied {number} ✓\n'%_\\", **tied) for number in range(20)]
    made.append(AIMemory(content="", tool_calls=[{"id": "c", "name": "f", "arguments": {"x": 1}}], **tied))
    made.append(ToolMemory(content="4", tool_call_id="c", tool_name="f", is_error=True, **tied))
    made.append(MemoryItem(content="odd", memory_type="odd", colour={"red": 1}, archived_by="summary", **tied))
    return made


def everything(url: str) -> list[dict[str, Any]]:
    with open_store(url) as store:
        return [{**dump_item(item), "version": 0} for item in store.scan()]


# Each engine once as where it comes from and once as where it goes.
EVERYDAY = {("sqlite", "postgres"), ("postgres", "redis"), ("redis", "sqlite")}


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pair if pair in EVERYDAY else pytest.param(*pair, marks=pytest.mark.slow)
        for pair in itertools.product(ENGINES, ENGINES)
    ],
)
def test_what_is_copied_is_the_same_in_the_same_order(urls: dict[str, list[str]], source: str, target: str) -> None:
    origin, destination = urls[source][0], urls[target][1]
    with open_store(origin) as store:
        store.add_many(items())

    first = memoranda("copy", origin, destination, "--json")
    again = memoranda("copy", origin, destination, "--json")

    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["verified"]
    assert json.loads(again.stdout)["digest"] == json.loads(first.stdout)["digest"]
    assert json.loads(again.stdout)["added"] == 0
    assert everything(destination) == everything(origin)
    assert len(everything(destination)) == 23


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_shows_the_demo_and_is_found_healthy(urls: dict[str, list[str]], engine: str) -> None:
    url = urls[engine][0]

    shown = memoranda("demo", "--store", url)
    examined = memoranda("doctor", "--store", url, "--json")

    assert shown.returncode == 0, shown.stderr
    assert "opened again: all 16" in shown.stdout
    findings = {finding["name"]: finding for finding in json.loads(examined.stdout)["findings"]}
    assert findings["opening"]["ok"]
    assert findings["items"]["detail"] == "0 items read, 0 counted"


def test_the_demo_runs_on_an_embedded_file_by_default() -> None:
    shown = memoranda("demo")

    assert shown.returncode == 0, shown.stderr
    assert "into agent.db" in shown.stdout
    assert "opened again: all 16 are there" in shown.stdout
