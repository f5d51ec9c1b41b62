"""``memoranda import`` of files that the frameworks themselves wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from agents import SQLiteSession
from agents.extensions.memory.advanced_sqlite_session import AdvancedSQLiteSession
from langgraph.store.sqlite import SqliteStore
from typer.testing import CliRunner

import memoranda
from memoranda import MemoryMetadata
from memoranda_cli.app import app
from memoranda_openai_agents import MemorandaSession

Command = Callable[..., Any]

SAID: list[Any] = [
    {"role": "user", "content": "2 + 2?"},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Add."}]},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": '{"a": 2}'},
    {"type": "function_call_output", "call_id": "c1", "output": "4"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Four.", "annotations": []}],
    },
]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Run ``memoranda`` in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


def test_a_session_of_the_sdk_goes_on_in_memoranda(command: Command, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'memories.db'}"

    async def write() -> None:
        session = SQLiteSession("trip", tmp_path / "agents.db")
        await session.add_items(SAID)
        session.close()

    async def read() -> list[Any]:
        async with memoranda.open(url) as store:
            return cast("list[Any]", await MemorandaSession("trip", store.scoped(user_id="ada")).get_items())

    asyncio.run(write())
    result = command("import", "agents.db", "--user", "ada", "--store", url)

    assert result.exit_code == 0, result.stderr
    assert "(openai-agents) as session trip: 5 added" in result.stderr
    assert asyncio.run(read()) == SAID


def test_the_branches_of_an_advanced_session_are_branches(command: Command, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'memories.db'}"

    async def write() -> None:
        session = AdvancedSQLiteSession(session_id="trip", db_path=tmp_path / "agents.db", create_tables=True)
        for number in (1, 2):
            await session.add_items([{"role": "user", "content": f"ask {number}"}])
            await session.add_items([{"role": "assistant", "content": f"answer {number}"}])
        await session.create_branch_from_turn(2, "other")
        await session.add_items([{"role": "user", "content": "ask differently"}])
        session.close()

    async def read() -> tuple[list[str], list[str]]:
        async with memoranda.open(url) as store:
            (branch,) = [item.id async for item in store.scan(memory_type="branch")]
            found = []
            for session in ("trip", branch):
                owner = MemoryMetadata(user_id="ada", session_id=session)
                found.append([item.content for item in await store.search(metadata=owner, order="added")][::-1])
            return found[0], found[1]

    asyncio.run(write())
    result = command("import", "agents.db", "--user", "ada", "--store", url)

    assert result.exit_code == 0, result.stderr
    assert asyncio.run(read()) == (
        ["ask 1", "answer 1", "ask 2", "answer 2"],
        ["ask 1", "answer 1", "ask differently"],
    )


def test_the_values_of_a_langgraph_file_are_recalled(command: Command, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'memories.db'}"
    with SqliteStore.from_conn_string(str(tmp_path / "store.db")) as values:
        values.setup()
        values.put(("users", "ada"), "seat", {"text": "likes a window seat"})
        values.put(("users", "ada"), "coach", {"kind": "quiet", "since": 2024})

    async def recall() -> list[Any]:
        async with memoranda.open(url) as store:
            return list(await store.scoped(user_id="ada").recall("Which seat does she like?", limit=1))

    for counted in ("2 added", "0 added, 2 unchanged"):
        result = command("import", "store.db", "--user", "ada", "--store", url)
        assert counted in result.stderr, result.stderr
    (seat,) = asyncio.run(recall())
    assert (seat.content, seat.name, seat.metadata.namespace) == ("likes a window seat", "seat", ("users", "ada"))
