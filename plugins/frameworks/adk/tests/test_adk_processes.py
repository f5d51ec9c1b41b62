"""Several processes write to one session: nothing is lost or mixed up, and a killed one leaves whole events behind."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap

import pytest
from adk_events import CHAT

import memoranda
from memoranda_adk import MemorandaSessionService

# Long, and other modules see most faults first: a sample runs by default.
pytestmark = pytest.mark.rare("sessions of processes")

WRITING = textwrap.dedent(
    """
    import asyncio, sys
    import memoranda
    from google.adk.errors import StaleSessionError
    from google.adk.events.event import Event
    from google.adk.events.event_actions import EventActions
    from google.genai import types
    from memoranda_adk import MemorandaSessionService

    CHAT = {"app_name": "app", "user_id": "ada", "session_id": "chat"}

    async def main(url, name, count):
        async with memoranda.open(url) as store:
            service = MemorandaSessionService(store)
            print("ready", flush=True)
            sys.stdin.readline()
            for number in range(count):
                text = f"{name}.{number}"
                while True:
                    session = await service.get_session(**CHAT)
                    counted = session.state.get("count", 0) + 1
                    event = Event(
                        author="user",
                        content=types.Content(role="user", parts=[types.Part(text=text)]),
                        actions=EventActions(state_delta={"count": counted, f"user:{text}": counted}),
                    )
                    try:
                        await service.append_event(session, event)
                    except StaleSessionError:
                        continue
                    break
                print(text, flush=True)

    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
    """
)


def started(url: str, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITING, url, name, str(count)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def created(url: str) -> None:
    async with memoranda.open(url) as store:
        await MemorandaSessionService(store).create_session(**CHAT)


async def read(url: str) -> tuple[list[str], dict[str, int]]:
    async with memoranda.open(url) as store:
        session = await MemorandaSessionService(store).get_session(**CHAT)
        assert session is not None
        texts = [event.content.parts[0].text for event in session.events if event.content and event.content.parts]
        return [text for text in texts if text], session.state


@pytest.mark.slow
def test_two_processes_count_together(lasting_url: str) -> None:
    asyncio.run(created(lasting_url))
    processes = [started(lasting_url, name, 10) for name in ("a", "b")]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()

    texts, state = asyncio.run(read(lasting_url))

    assert state["count"] == 20
    assert [state[f"user:{text}"] for text in texts] == list(range(1, 21))


def test_a_killed_process_leaves_whole_events(lasting_url: str) -> None:
    asyncio.run(created(lasting_url))
    with started(lasting_url, "a", 10_000) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        acknowledged = [process.stdout.readline().strip() for _ in range(20)][1:]
        process.kill()

    texts, state = asyncio.run(read(lasting_url))

    assert texts[: len(acknowledged)] == acknowledged
    assert state["count"] == len(texts)
    assert [state[f"user:{text}"] for text in texts] == list(range(1, len(texts) + 1))
