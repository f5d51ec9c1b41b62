"""A conversation that one framework wrote goes on in every other one, from one store.

What a provider would refuse is an error, and what cannot be carried over must be among the losses that the framework's
adapter reports.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

import memoranda
from framework_turns import (
    ADAPTERS,
    ANSWER,
    CHAT,
    FRAMEWORKS,
    LAST,
    MORE,
    PIXEL,
    QUESTION,
    RESULTS,
    SAYING,
    THOUGHT,
    USER,
    Sent,
    framework,
    go_on_with_chat,
    handle,
)
from memoranda.store import InMemoryStore, Store
from memoranda_messages.sessions import Conversation
from memoranda_summary import SummaryConfig
from memoranda_userdata import forget


def check_contents(sent: Sent, *, goes_on: bool) -> None:
    """Check that everything was sent, in its order; calls at once may come one by one."""
    texts = [json.dumps(message) for message in sent.request]
    more = [MORE, LAST] if goes_on else []
    for expected in (
        [QUESTION, SAYING, "call_1", RESULTS["call_1"], ANSWER, *more],
        [QUESTION, SAYING, "call_2", RESULTS["call_2"], ANSWER, *more],
    ):
        places = [next((at for at, text in enumerate(texts) if each in text), None) for each in expected]
        assert None not in places, dict(zip(expected, places, strict=True))
        assert places == sorted(places)  # type: ignore[type-var]  # none is None
    assert any(PIXEL in text for text in texts), sent.dropped


@pytest.mark.parametrize("reader", FRAMEWORKS)
@pytest.mark.parametrize("writer", FRAMEWORKS)
async def test_a_turn_of_one_framework_goes_on_in_another(writer: str, reader: str) -> None:
    first, second = framework(writer), framework(reader)
    store = InMemoryStore()
    await first.write(store)

    sent = await second.next_request(store)
    check_contents(sent, goes_on=False)
    lost = {loss.what for loss in sent.dropped}
    assert THOUGHT in json.dumps(sent.request) or lost & REASONING or writer == reader
    await second.go_on(store)

    check_contents(await first.next_request(store), goes_on=True)


REASONING = {"reasoning", "thinking", "reasoning_content"}
"""What adapters call reasoning that they cannot carry over. Whether it sends its own is up to each framework."""


@pytest.mark.parametrize("writer", FRAMEWORKS)
async def test_what_a_framework_wrote_is_searched_and_forgotten_like_anything_else(writer: str) -> None:
    store = InMemoryStore()
    await framework(writer).write(store)

    found = await store.scoped(user_id=USER).search(query="picture", mode="substring")
    assert [(item.memory_type, item.metadata.session_id) for item in found] == [("human", CHAT)]
    receipt = await forget(store, USER)
    assert receipt.complete
    assert await store.count(include_deleted=True) == 0


async def cancel(store: Store) -> None:
    """Leave the turn as a run does that ends between the results of two calls made at once."""
    items = await Conversation(handle(store), CHAT).read()
    last = max(at for at, item in enumerate(items) if item.memory_type == "tool")
    for item in items[last:]:
        await store.purge(item.id)


@pytest.mark.parametrize("reader", FRAMEWORKS)
@pytest.mark.parametrize("writer", ["chat completions", "responses", "pydantic-ai"])
async def test_a_half_written_turn_is_sent_to_no_model(writer: str, reader: str) -> None:
    first, second = framework(writer), framework(reader)
    store = InMemoryStore()
    await first.write(store)
    await cancel(store)
    await go_on_with_chat(store)

    sent = await second.next_request(store)

    assert MORE in json.dumps(sent.request)


@pytest.mark.parametrize("reader", FRAMEWORKS)
@pytest.mark.parametrize("writer", ["itself", "anthropic"])
async def test_the_request_after_a_cancelled_run_is_valid(writer: str, reader: str) -> None:
    first, second = framework(reader if writer == "itself" else writer), framework(reader)
    store = InMemoryStore()
    await first.write(store)
    await cancel(store)

    request = json.dumps((await second.next_request(store)).request)

    assert QUESTION in request
    assert ANSWER not in request


# Pydantic AI's conversations are logs of entries that name each other: it reads them whole, also if they are archived.
@pytest.mark.parametrize("name", [name for name in FRAMEWORKS if name != "pydantic-ai"])
async def test_a_session_that_the_agents_sdk_compacted_goes_on_everywhere(name: str) -> None:
    framework("openai-agents")
    from memoranda_openai_agents import CompactingSession

    class Summarizer:
        async def summarize(self, prompt: str) -> str:
            return "Ada showed a picture."

    store = InMemoryStore()
    await framework(name).write(store)
    await framework(name).go_on(store)
    config = SummaryConfig(keep_recent=2)
    session = CompactingSession(CHAT, handle(store), summarizer=Summarizer(), config=config)
    await session.run_compaction({"force": True})

    request = json.dumps((await framework(name).next_request(store)).request)

    assert request.index("Ada showed a picture.") < request.index(MORE) < request.index(LAST)
    assert QUESTION not in request
    assert PIXEL not in request


# Two processes on one session, one that is killed, and writes that are cancelled


TURNS = 6
KILLED_AFTER = 2
WRITER = """
import asyncio, sys
import memoranda
from framework_turns import FRAMEWORKS

async def main(url, name, speaker, turns):
    async with memoranda.open(url) as store:
        for number in range(int(turns)):
            await FRAMEWORKS[name].go_on(store, f"{speaker}{number}?", f"{speaker}{number}!")
            print(number, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""
SLOW = pytest.mark.slow
ONE_BATCH = ("openai-agents", "pydantic-ai", "langchain", "llama-index", "agent-framework")
"""Frameworks that store a question with its answer; the others store every message as it comes."""


async def said(store: Store) -> list[str]:
    """Return the texts of the session."""
    return [item.content for item in await Conversation(handle(store), CHAT).read()]


# The framework that is imported fastest runs every day.
@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW if name != "langchain" else ()) for name in ADAPTERS])
async def test_two_processes_share_a_session_and_one_is_killed(name: str, tmp_path: Path) -> None:
    one = framework(name)
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    async with memoranda.open(url) as store:
        await one.go_on(store, "first?", "first!")

    def started(speaker: str, turns: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", WRITER, url, name, speaker, str(turns)]
        return subprocess.Popen(command, cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True)

    lasting, killed = started("a", TURNS), started("b", 1_000)
    with lasting, killed:
        assert killed.stdout is not None
        for _ in range(KILLED_AFTER):
            killed.stdout.readline()
        killed.kill()
        acknowledged = KILLED_AFTER + len(killed.stdout.readlines())
        assert lasting.wait(240) == 0

    async with memoranda.open(url) as store:
        texts = await said(store)
        await one.go_on(store, "last?", "last!")
        await one.next_request(store)
    assert texts[:2] == ["first?", "first!"]
    assert [text for text in texts if text[0] == "a"] == [f"a{turn}{sign}" for turn in range(TURNS) for sign in "?!"]
    of_killed = [text for text in texts if text[0] == "b"]
    assert of_killed == [f"b{turn}{sign}" for turn in range(acknowledged + 1) for sign in "?!"][: len(of_killed)]
    assert len(of_killed) >= 2 * acknowledged
    if name in ONE_BATCH:
        assert texts[1::2] == [f"{text[:-1]}!" for text in texts[::2]]


@pytest.mark.parametrize("name", ADAPTERS)
async def test_a_cancelled_write_is_done_or_not_and_the_session_goes_on(name: str, tmp_path: Path) -> None:
    one = framework(name)
    async with memoranda.open(f"sqlite:///{tmp_path / 'sessions.db'}") as store:
        await one.go_on(store, "first?", "first!")
        for steps in range(1, 12, 2):
            before = await said(store)
            task = asyncio.create_task(one.go_on(store, f"{steps}?", f"{steps}!"))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            added = (await said(store))[len(before) :]
            assert added == [f"{steps}?", f"{steps}!"][: len(added)]
            assert len(added) in (0, 2) or name not in ONE_BATCH

        await one.go_on(store, "last?", "last!")
        await one.next_request(store)

        assert "last!" in await said(store)
