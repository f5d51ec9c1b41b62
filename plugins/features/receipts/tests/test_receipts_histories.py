"""Replay of random histories on five stores, and receipts of processes that are killed."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from receipt_stores import opened

import memoranda
from memoranda import AIMemory, HumanMemory, MemoryItem, SystemMemory, ToolMemory
from memoranda.items import SummaryMemory
from memoranda.store import InMemoryStore, Store
from memoranda_context import ContextManager, assemble
from memoranda_guard import Fence
from memoranda_messages import from_openai
from memoranda_receipts import Receipts, Recording, message_bytes

ENGINES = {"memory": 8, "sqlite": 7, "vector": 3, "postgres": 3, "redis": 3}
"""How many histories are played by default; with ``--everything`` a thousand on each."""

WORDS = (
    *("the", "bicycle", "is", "in", "a", "shed", "\n", "Ada's", "cellar", "\t", "zażółć", "自転車", "🚲", "\u2028"),
    *("<memories>", "#", "Request", "-", "[x]", "null"),
)
FORMATS = ("openai", "responses", "anthropic", "items")


@pytest.fixture(scope="module")
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def text(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, 12)))


def turn(chance: random.Random, number: int) -> list[MemoryItem]:
    """Return what is added at once: a message, or a call with its results."""
    kind = chance.randrange(8)
    if kind == 0:
        return [SystemMemory(content=text(chance))]
    if kind == 1:
        arguments = f'{{"what": "{number}"}}'
        calls = [
            {"id": f"c{number}-{at}", "type": "function", "function": {"name": "find", "arguments": arguments}}
            for at in range(chance.randint(1, 2))
        ]
        results: list[MemoryItem] = [
            ToolMemory(content=text(chance), tool_call_id=str(call["id"]), tool_name="find", origin="web")
            for call in calls
        ]
        return [AIMemory(content=chance.choice(["", text(chance)]), tool_calls=calls), *results]
    if kind == 2:
        parts = [{"type": "text", "text": text(chance)}, {"type": "image_url", "image_url": {"url": "https://x.y/z"}}]
        return list(from_openai([{"role": "user", "content": parts}]))
    if kind == 3:
        return [HumanMemory(content=text(chance), trust="external", origin="https://example.com/a", name="bo b")]
    if kind == 4:
        return [SummaryMemory(content=text(chance), sources=[f"gone-{number}"])]
    return [chance.choice([HumanMemory, AIMemory])(content=text(chance))]


async def history(store: Store, chance: random.Random) -> Store:
    """Play a random history, and return the handle of its conversation."""
    user = uuid.uuid4().hex
    handle = store.scoped(user_id=user, session_id="now")
    for number in range(chance.randint(1, 14)):
        place = handle if chance.random() < 0.7 else store.scoped(user_id=user, session_id="before")
        await place.add_many(turn(chance, number))
        items = [item async for item in place.scan() if not item.group]
        if items and chance.random() < 0.3:
            item = chance.choice(items)
            change = chance.choice([{"content": text(chance)}, {"archived_by": "s"}, {"status": "discard"}])
            await place.update(item.model_copy(update=change))
    return handle


async def shown(handle: Store, chance: random.Random, recording: Recording) -> list[MemoryItem]:
    """Return a context of one kind or another."""
    kind = chance.randrange(3)
    fence = Fence() if chance.random() < 0.5 else None
    if kind == 0:
        asked: dict[str, Any] = {"rounds": chance.choice([None, 1, 3]), "tokens": chance.choice([None, 20, 200])}
        return await handle.window(**asked, limit=chance.choice([None, 4]), receipt=recording)
    system, tokens = chance.choice(["", "You help."]), chance.choice([30, 100, 1000])
    if kind == 1:
        return await assemble(handle, text(chance), system=system, tokens=tokens, fence=fence, receipt=recording)
    manager = ContextManager(long_term=handle, token_budget=tokens, fence=fence, receipt=recording)
    context = await manager.assemble_context(text(chance), handle)
    assert (await Receipts(handle).replay(str(recording.id))).bytes("prompt") == str(context).encode()
    return context.parts.items()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_replay_is_equal_to_the_byte(
    engine: str, servers: ExitStack, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    much = 1000 if request.config.getoption("everything", False) else ENGINES[engine]
    async with opened(engine, servers, tmp_path) as store:
        for seed in range(much):
            chance = random.Random(f"{engine} {seed}")
            handle = await history(store, chance)
            recording = Recording(payload=chance.random() < 0.2, id=f"receipt-{uuid.uuid4().hex}")
            messages = await shown(handle, chance, recording)
            replay = await Receipts(handle).replay(str(recording.id))
            assert replay.exact, seed
            assert not replay.changes, seed
            for format in FORMATS:
                assert replay.bytes(format) == message_bytes(messages, format), (seed, format)


@pytest.mark.parametrize("said_now", [[], ["Good evening."], ["Good evening.", "What may I eat?"]])
async def test_memories_stand_in_a_replayed_prompt_where_they_stood(said_now: list[str]) -> None:
    """Between the conversation and the request: they are no turn of it, and what is known stays before it."""
    store = InMemoryStore()
    before = store.scoped(user_id="ada", session_id="before")
    await before.add(HumanMemory(content="I am allergic to peanuts."))
    await before.add(AIMemory(content="Satay comes with a sauce of peanuts."))
    handle = store.scoped(user_id="ada", session_id="now")
    await handle.add_many([HumanMemory(content=content) for content in said_now])
    recording = Recording(id="receipt-1")
    manager = ContextManager(long_term=handle, token_budget=1000, receipt=recording)
    prompt = str(await manager.assemble_context("Are there peanuts in satay?", handle))
    assert prompt.index("allergic to peanuts") < prompt.index("sauce of peanuts") < prompt.index("# Request")
    assert (await Receipts(handle).replay("receipt-1")).prompt() == prompt


KILLED = """
import asyncio, os, signal, sys
import memoranda
from memoranda import AIMemory, HumanMemory
from memoranda.store import Observer
from memoranda_context import assemble

class Killer(Observer):
    def before_add(self, item):
        if item.memory_type == "receipt" and sys.argv[2] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    def added(self, items):
        if items[0].memory_type == "receipt" and sys.argv[2] == "after":
            os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with memoranda.open(sys.argv[1], observers=[Killer()]) as store:
        handle = store.scoped(user_id="ada", session_id="trip")
        for number in range(1000):
            await handle.add_many([HumanMemory(content=f"Question {number}"), AIMemory(content=f"Answer {number}")])
            print(number, flush=True)
            await assemble(handle, "What now?", tokens=200, receipt=number > 4 or None)

asyncio.run(main())
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
@pytest.mark.parametrize("when", ["before", "after", "meanwhile"])
async def test_a_killed_process_loses_no_message_and_leaves_no_half_receipt(tmp_path: Path, when: str) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with subprocess.Popen([sys.executable, "-c", KILLED, url, when], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [next(process.stdout) for _ in range(6)]
        if when == "meanwhile":
            said += [next(process.stdout) for _ in range(20)]
            process.send_signal(signal.SIGKILL)
        said += list(process.stdout)
        assert process.wait() == -signal.SIGKILL
    async with memoranda.open(url) as store:
        handle = store.scoped(user_id="ada", session_id="trip")
        contents = {item.content for item in await handle.window()}
        assert {f"{who} {int(number)}" for number in said for who in ("Question", "Answer")} <= contents
        receipts = await Receipts(handle).list()
        assert len(receipts) == {"before": 0, "after": 1}.get(when, len(receipts))
        assert when != "meanwhile" or len(receipts) >= 15
        for receipt in receipts:
            assert (await Receipts(handle).replay(receipt)).exact
