"""Sessions of agent frameworks: ours on SQLite against the framework's own that is kept in a file, side by side.

python bench/frameworks.py [--items 1000] [--only NAME]

For each framework that has a session of its own in a file, both save a session of so many messages in turns of four (a
question, a call, its result, an answer), save all of it at once where the framework can, and load it. A ratio above 1.0
is faster than the framework's own. Frameworks that are not installed are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from harness import Contender, Line, interleaved, line, report

import memoranda

GOAL = ">= 1.0x"
TEXT = "The garden was watered, the letters were answered, and then nothing else was done until the evening. "


class Sessions(NamedTuple):
    """The sessions of one contender: ``save`` adds messages to a session, ``load`` returns all of them."""

    save: Callable[[str, list[Any]], Awaitable[object]]
    load: Callable[[str], Awaitable[list[Any]]]


class Side(NamedTuple):
    """A framework: its turn of four messages, our sessions and its own, both in a folder."""

    turn: Callable[[int], list[Any]]
    ours: Callable[[memoranda.store.Store], Sessions]
    theirs: Callable[[Path], Any]
    saves_at_once: bool = True


# OpenAI Agents


def agents_turn(number: int) -> list[Any]:
    return [
        {"role": "user", "content": f"Question {number}: {TEXT}"},
        {"type": "function_call", "call_id": f"c{number}", "name": "look", "arguments": '{"at": "the sky"}'},
        {"type": "function_call_output", "call_id": f"c{number}", "output": TEXT},
        {
            "type": "message",
            "id": f"m{number}",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": f"Answer {number}: {TEXT}", "annotations": []}],
        },
    ]


def our_agents(store: memoranda.store.Store) -> Sessions:
    from memoranda_openai_agents import MemorandaSession

    return agents_sessions(lambda name: MemorandaSession(name, store))


def agents_sessions(opened: Callable[[str], Any]) -> Sessions:
    """Return sessions that are each made once, ours and their own alike."""
    session = cache(opened)
    return Sessions(lambda name, items: session(name).add_items(items), lambda name: session(name).get_items())


@asynccontextmanager
async def their_agents(folder: Path) -> AsyncIterator[Sessions]:
    from agents import SQLiteSession

    made: list[SQLiteSession] = []

    def opened(name: str) -> SQLiteSession:
        made.append(SQLiteSession(name, folder / "agents.db"))
        return made[-1]

    yield agents_sessions(opened)
    for each in made:
        each.close()


# Google ADK


def adk_turn(number: int) -> list[Any]:
    from google.adk.events import Event
    from google.genai import types

    call = types.FunctionCall(id=f"c{number}", name="look", args={"at": "the sky"})
    response = types.FunctionResponse(id=f"c{number}", name="look", response={"result": TEXT})
    contents = [
        ("user", "user", types.Part(text=f"Question {number}: {TEXT}")),
        ("agent", "model", types.Part(function_call=call)),
        ("agent", "user", types.Part(function_response=response)),
        ("agent", "model", types.Part(text=f"Answer {number}: {TEXT}")),
    ]
    return [
        Event(author=author, invocation_id="i", content=types.Content(role=role, parts=[part]), id=uuid.uuid4().hex)
        for author, role, part in contents
    ]


def adk_sessions(service: Any) -> Sessions:
    sessions: dict[str, Any] = {}

    async def save(name: str, events: list[Any]) -> None:
        if name not in sessions:
            sessions[name] = await service.create_session(app_name="app", user_id="ada", session_id=name)
        for event in events:
            await service.append_event(sessions[name], event)

    async def load(name: str) -> list[Any]:
        session = await service.get_session(app_name="app", user_id="ada", session_id=name)
        return list(session.events)

    return Sessions(save, load)


def our_adk(store: memoranda.store.Store) -> Sessions:
    from memoranda_adk import MemorandaSessionService

    return adk_sessions(MemorandaSessionService(store))


@asynccontextmanager
async def their_adk(folder: Path) -> AsyncIterator[Sessions]:
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    yield adk_sessions(SqliteSessionService(str(folder / "adk.db")))


# LlamaIndex


def llama_index_turn(number: int) -> list[Any]:
    from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock

    call = ToolCallBlock(tool_call_id=f"c{number}", tool_name="look", tool_kwargs={"at": "the sky"})
    return [
        ChatMessage(role="user", content=f"Question {number}: {TEXT}"),
        ChatMessage(role="assistant", blocks=[call]),
        ChatMessage(role="tool", content=TEXT, additional_kwargs={"tool_call_id": f"c{number}"}),
        ChatMessage(role="assistant", content=f"Answer {number}: {TEXT}"),
    ]


def our_llama_index(store: memoranda.store.Store) -> Sessions:
    from memoranda_llama_index import MemorandaChatStore

    chat_store = MemorandaChatStore(store)
    return Sessions(chat_store.add_messages, chat_store.get_messages)


@asynccontextmanager
async def their_llama_index(folder: Path) -> AsyncIterator[Sessions]:
    from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

    chat_store = SQLAlchemyChatStore("messages", async_database_uri=f"sqlite+aiosqlite:///{folder}/llama.db")
    yield Sessions(chat_store.add_messages, chat_store.get_messages)
    await chat_store._async_engine.dispose()  # type: ignore[union-attr]  # there is no other way to close it


FRAMEWORKS: dict[str, tuple[str, Side]] = {
    "openai-agents": ("agents", Side(agents_turn, our_agents, their_agents)),
    "adk": ("google.adk", Side(adk_turn, our_adk, their_adk, saves_at_once=False)),
    "llama-index": ("llama_index.core", Side(llama_index_turn, our_llama_index, their_llama_index)),
}


async def compare(name: str, side: Side, folder: Path, messages: int) -> list[Line]:
    turns = [side.turn(number) for number in range(messages // 4)]
    async with memoranda.open(f"sqlite:///{folder}/{name}.db") as store, side.theirs(folder) as theirs:
        both = {"memoranda": side.ours(store.scoped(user_id="ada")), "floor": theirs}
        lines = []

        def by_turns(sessions: Sessions) -> Contender:
            async def save() -> None:
                session = uuid.uuid4().hex
                for number in range(len(turns)):
                    await sessions.save(session, side.turn(number))

            return save

        def at_once(sessions: Sessions) -> Contender:
            return lambda: sessions.save(uuid.uuid4().hex, [message for turn in turns for message in turn])

        def load(sessions: Sessions) -> Contender:
            return lambda: sessions.load("loaded")

        measured = await interleaved({key: by_turns(each) for key, each in both.items()}, rounds=3)
        lines.append(line(f"{name}: save {messages} messages in turns of four", measured, goal=GOAL))
        if side.saves_at_once:
            measured = await interleaved({key: at_once(each) for key, each in both.items()}, rounds=5)
            lines.append(line(f"{name}: save {messages} messages at once", measured, goal=GOAL))
        for sessions in both.values():
            for number in range(len(turns)):
                await sessions.save("loaded", side.turn(number))
        counts = {len(await sessions.load("loaded")) for sessions in both.values()}
        if counts != {messages}:
            raise SystemExit(f"{name}: {messages} messages were saved, and {counts} loaded.")
        measured = await interleaved({key: load(each) for key, each in both.items()}, rounds=9)
        lines.append(line(f"{name}: load {messages} messages", measured, goal=GOAL))
        return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1_000, help="how many messages a session has")
    parser.add_argument("--only", choices=FRAMEWORKS, help="the one framework to compare")
    options = parser.parse_args()
    lines: list[Line] = []
    for name, (module, side) in FRAMEWORKS.items():
        if options.only not in (None, name):
            continue
        if find_spec(module.partition(".")[0]) is None or find_spec(module) is None:
            print(f"{name}: left out, since it is not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            lines += asyncio.run(compare(name, side, Path(folder), options.items))
    report("Sessions of frameworks, against the framework's own session in a file", lines)


if __name__ == "__main__":
    main()
