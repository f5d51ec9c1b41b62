"""Compaction and contexts on every engine, with several processes: at once, killed, and while others go on talking."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import memoranda
from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SystemMemory
from memoranda.errors import VersionConflictError
from memoranda.store import EVERYTHING, Store
from memoranda_context import ContextManager
from memoranda_messages import to_openai
from memoranda_summary import SummaryConfig, compact, expand, undo
from servers import postgres_server, redis_server

WORKER = Path(__file__).with_name("compaction_worker.py")
STEPS = 5
LONG = 400
"""Turns of a conversation whose swap takes long enough to be killed in the middle of it."""
FACTS = ["Ada lives in Oslo.", "Ada has two cats."]


class Process:
    """A worker that was started."""

    def __init__(self, url: str, scope: MemoryMetadata) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), url, str(scope.user_id)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def hears(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            assert self.process.stderr is not None
            raise AssertionError(self.process.stderr.read())
        return line

    def tell(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
            self.process.communicate()

    def result(self) -> dict[str, Any]:
        out, error = self.process.communicate(timeout=240)
        assert self.process.returncode == 0, error
        found: dict[str, Any] = json.loads(out.splitlines()[-1])
        return found


Start = Callable[[MemoryMetadata], Process]


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    with ExitStack() as stack:
        postgres = stack.enter_context(postgres_server())
        redis = stack.enter_context(redis_server())
        yield {"postgresql": stack.enter_context(postgres.database()), "redis": redis.url}


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'agent.db'}"
    servers: dict[str, str] = request.getfixturevalue("servers")
    return servers[request.param]


@pytest_asyncio.fixture
async def store(url: str) -> Any:
    async with memoranda.open(url) as store:
        yield store


@pytest.fixture
def start(url: str) -> Iterator[Start]:
    """Starts workers on the store, and ends those that a failed test left behind."""
    started: list[Process] = []

    def start(scope: MemoryMetadata) -> Process:
        started.append(Process(url, scope))
        return started[-1]

    yield start
    for process in started:
        process.kill()


@pytest.fixture
def ada() -> MemoryMetadata:
    return MemoryMetadata(user_id=f"ada-{uuid.uuid4().hex}")


def conversation(scope: MemoryMetadata, count: int) -> list[MemoryItem]:
    """Return a system item and turns, all at the same second, since the clock of a busy agent is coarse."""
    said: list[MemoryItem] = [SystemMemory(content="rules", metadata=scope, created_at="2024-03-01")]
    for number in range(count):
        kind = HumanMemory if number % 2 == 0 else AIMemory
        said.append(kind(content=f"turn {number}", metadata=scope, created_at="2024-03-02"))
    return said


async def shown(store: Store, scope: MemoryMetadata) -> list[str]:
    return [item.content async for item in store.scan(metadata=scope, archived=False)]


@pytest.mark.rare
async def test_processes_that_compact_at_once_compact_once(start: Start, store: Store, ada: MemoryMetadata) -> None:
    await store.add_many(conversation(ada, 30))
    processes = [start(ada) for _ in range(3)]
    for process in processes:
        assert process.hears() == "asked"
    for process in processes:
        process.tell()
    results = [process.result() for process in processes]
    assert sorted(result["archived"] for result in results) == [0, 0, 26]
    assert await shown(store, ada) == [*await _before_tail(store, ada), *(f"turn {number}" for number in range(26, 30))]
    summaries = await store.search(metadata=ada, memory_type="summary", limit=EVERYTHING)
    assert sorted(item.content for item in summaries) == sorted(["They talked.", *FACTS])


async def _before_tail(store: Store, scope: MemoryMetadata) -> list[str]:
    before = (await shown(store, scope))[:-4]
    assert sorted(before) == sorted(["rules", "They talked.", *FACTS])
    return before


async def test_a_process_that_is_killed_while_its_model_is_asked_changes_nothing(
    start: Start, store: Store, ada: MemoryMetadata
) -> None:
    said = conversation(ada, 30)
    await store.add_many(said)
    process = start(ada)
    assert process.hears() == "asked"
    process.kill()
    assert await shown(store, ada) == [item.content for item in said]


@pytest.mark.rare
async def test_a_process_that_is_killed_while_it_swaps_leaves_all_or_nothing(start: Start, store: Store) -> None:
    seconds = await _seconds_of_a_swap(start, store)
    for step in range(STEPS):
        ada = MemoryMetadata(user_id=f"ada-{uuid.uuid4().hex}")
        said = conversation(ada, LONG)
        await store.add_many(said)
        process = start(ada)
        assert process.hears() == "asked"
        process.tell()
        assert process.hears() == "answered"
        time.sleep(seconds * step / STEPS)
        process.kill()
        left = await shown(store, ada)
        if left != [item.content for item in said]:
            assert len(left) == 1 + 3 + 4
            assert left[-4:] == [f"turn {number}" for number in range(LONG - 4, LONG)]
        await compact(store, ada, _config(), _Model())
        assert len(await shown(store, ada)) == 1 + 3 + 4
        assert await store.count(metadata=ada) == len(said) + 3


async def _seconds_of_a_swap(start: Start, store: Store) -> float:
    """Return how long a process needs from the model's answer to its end."""
    ada = MemoryMetadata(user_id=f"ada-{uuid.uuid4().hex}")
    await store.add_many(conversation(ada, LONG))
    process = start(ada)
    assert process.hears() == "asked"
    process.tell()
    assert process.hears() == "answered"
    started = time.perf_counter()
    process.hears()
    seconds = time.perf_counter() - started
    process.kill()
    return seconds


async def test_nothing_is_lost_while_others_go_on_talking(store: Store, ada: MemoryMetadata) -> None:
    config = SummaryConfig(message_threshold=6, keep_recent=2)

    async def talk() -> None:
        for number in range(60):
            await store.add(HumanMemory(content=f"turn {number}", metadata=ada))
            await asyncio.sleep(0.002)

    async def keep_compacting(talking: asyncio.Task[None]) -> None:
        while not talking.done():
            with suppress(VersionConflictError):  # The other one may be the first every time.
                await compact(store, ada, config, _Model())

    talking = asyncio.create_task(talk())
    await asyncio.gather(talking, keep_compacting(talking), keep_compacting(talking))
    (summary,) = await store.search(metadata=ada, memory_type="summary")
    behind = [item.content for item in await expand(store, summary.id)]
    ahead = [content for content in await shown(store, ada) if content.startswith("turn")]
    assert behind + ahead == [f"turn {number}" for number in range(60)]


async def test_all_templates_of_this_project_work_together_and_go_back(store: Store, ada: MemoryMetadata) -> None:
    said = conversation(ada, 30)
    await store.add_many(said)
    config = SummaryConfig(keep_recent=4, templates=("conversation", "facts", "profiles"))
    result = await compact(store, ada, config, _Model())
    assert [item.template for item in result.summaries] == ["conversation", "facts", "facts", "profiles"]
    assert [item.content for item in await expand(store, result.summaries[2].id)] == ["turn 1"]
    view = [item async for item in store.scan(metadata=ada, archived=False)]
    roles = [message["role"] for message in to_openai(view)]
    assert roles == ["system"] + ["user"] * 4 + ["user", "assistant"] * 2
    await undo(store, result.summaries[3].id)
    assert await shown(store, ada) == [item.content for item in said]


def _config() -> SummaryConfig:
    return SummaryConfig(message_threshold=10, keep_recent=4, templates=("conversation", "facts"))


class _Model:
    async def summarize(self, prompt: str) -> str:
        await asyncio.sleep(0)
        if "one fact per line" in prompt:
            return "".join(f"- [msg{number}] {fact}\n" for number, fact in enumerate(FACTS, start=1))
        return "- [msg3] favourite drink: tea" if "one trait per line" in prompt else "They talked."


async def test_a_context_is_in_the_order_it_was_said(store: Store, ada: MemoryMetadata) -> None:
    """System items that are older than the limit reaches, and items that the caller gives, keep their places."""
    kinds = (SystemMemory, SystemMemory, HumanMemory, AIMemory, HumanMemory, AIMemory)
    said = [
        kind(content=f"{number}", metadata=ada, created_at=f"2024-05-01T10:00:{50 - number}")
        for number, kind in enumerate(kinds)
    ]
    for item in said:
        await store.add(item)

    few = await ContextManager(recent_limit=4).assemble_context("go", store, metadata=ada)
    whole = await ContextManager().assemble_context("go", store, metadata=ada, conversation=said[3:5])

    assert [item.content for item in few.parts.conversation] == ["0", "1", "4", "5"]
    assert [item.content for item in whole.parts.conversation] == [item.content for item in said]
