"""Several processes share a session, and one that is killed has lost nothing that it was told is stored."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import textwrap

import pytest

import memoranda
from memoranda_openai_agents import MemorandaSession

# Long, and other modules see most faults first: a sample runs by default.
pytestmark = pytest.mark.rare("sessions of processes")

POPPING = textwrap.dedent(
    """
    import asyncio, json, sys
    import memoranda
    from memoranda_openai_agents import MemorandaSession

    async def main(url):
        async with memoranda.open(url) as store:
            session = MemorandaSession("chat", store.scoped(user_id="ada"))
            print("ready", flush=True)
            sys.stdin.readline()
            while (item := await session.pop_item()) is not None:
                print(json.dumps(item), flush=True)

    asyncio.run(main(sys.argv[1]))
    """
)

WRITING = textwrap.dedent(
    """
    import asyncio, sys
    import memoranda
    from memoranda_openai_agents import MemorandaSession

    async def main(url):
        async with memoranda.open(url) as store:
            session = MemorandaSession("chat", store.scoped(user_id="ada"))
            turn = 0
            while True:
                await session.add_items([{"role": "user", "content": f"{turn}.{part}"} for part in range(3)])
                print(turn, flush=True)
                turn += 1

    asyncio.run(main(sys.argv[1]))
    """
)


def started(program: str, url: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, url]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_each_item_is_popped_once_by_all_processes(lasting_url: str) -> None:
    texts = [str(number) for number in range(60)]

    async def fill() -> None:
        async with memoranda.open(lasting_url) as store:
            session = MemorandaSession("chat", store.scoped(user_id="ada"))
            await session.add_items([{"role": "user", "content": text} for text in texts])

    asyncio.run(fill())
    processes = [started(POPPING, lasting_url) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    taken = [json.loads(line)["content"] for process in processes for line in process.communicate()[0].splitlines()]

    assert sorted(taken) == sorted(texts)


@pytest.mark.rare
def test_a_killed_process_loses_nothing_that_it_was_told_is_stored(lasting_url: str) -> None:
    with started(WRITING, lasting_url) as process:
        assert process.stdout is not None
        acknowledged = [process.stdout.readline() for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        acknowledged += process.stdout.read().split("\n")[:-1]

    async def found() -> list[str]:
        async with memoranda.open(lasting_url) as store:
            session = MemorandaSession("chat", store.scoped(user_id="ada"))
            return [dict(item)["content"] for item in await session.get_items()]  # type: ignore[misc]

    texts = asyncio.run(found())
    turns = len(texts) // 3
    assert texts == [f"{turn}.{part}" for turn in range(turns) for part in range(3)]
    assert turns >= len(acknowledged)
