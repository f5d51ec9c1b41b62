"""Assistants on every backend: the MCP server and Anthropic's memory tool keep their promises on each."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from anthropic.tools import ToolError
from mcp import Client

import memoranda
from memoranda.store import Store
from memoranda_anthropic import AsyncMemoryTool
from memoranda_mcp import Rights, ScopedMemory, make_server
from servers import ENGINES, Engines

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    with Engines() as started:
        yield started


@pytest.fixture(params=ENGINES)
def url(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[str]:
    with engines.empty_store(request.param, tmp_path) as url:
        yield url


@pytest_asyncio.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with memoranda.open(url) as store:
        yield store


@pytest.fixture
def user() -> str:
    return f"ada-{uuid.uuid4().hex}"


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def test_every_tool_of_the_server_works(store: Store, user: str) -> None:
    scoped = store.scoped(user_id=user)
    async with Client(make_server(ScopedMemory(scoped, scoped, Rights(allow_purge=True, facts=True)))) as client:
        memory = await call(client, "remember", content="Ada takes tea.", tags=["food"], ttl_seconds=3600)
        assert (await call(client, "recall", query="tea", tags=["food"]))["memories"][0]["id"] == memory["id"]
        assert len((await call(client, "list_memories", since="2000-01-01T00:00:00Z"))["memories"]) == 1
        changed = await call(client, "update_memory", id=memory["id"], version=1, content="Ada takes coffee.")
        assert changed["version"] == 2
        await call(client, "forget", ids=[memory["id"]])
        assert (await call(client, "list_memories"))["memories"] == []
        assert len((await call(client, "forget", undo=True))["restored"]) == 1
        for number in range(25):
            await call(client, "remember", content=f"turn {number}", said_by="user", conversation="long")
        asked = await call(client, "summarize_conversation", conversation="long")
        answer = {"conversation": "long", "ticket": asked["ticket"], "summary": "They took turns."}
        assert (await call(client, "summarize_conversation", **answer))["archived"] == 21
        assert "They took turns." in (await call(client, "context", conversation="long"))["context"]
        await call(client, "set_fact", subject="Ada", predicate="lives_in", value="Paris")
        (home,) = (await call(client, "look_up_facts", query="Where does Ada live?"))["facts"]
        await call(client, "end_fact", id=home["id"])
        await call(client, "forget", ids=[memory["id"]], purge=True)
        listed = [resource.uri for resource in (await client.list_resources()).resources]
        assert "memory://conversations/long" in listed


async def test_every_tool_of_the_graph_works(store: Store, user: str) -> None:
    scoped = store.scoped(user_id=user)
    async with Client(make_server(ScopedMemory(scoped, scoped, Rights(graph=True)))) as client:
        entities = [{"name": name, "entityType": "person", "observations": []} for name in ("Ada", "Grace")]
        relation = {"from": "Ada", "to": "Grace", "relationType": "knows"}
        await call(client, "create_entities", entities=entities)
        await call(client, "create_relations", relations=[relation])
        said = [{"entityName": "Ada", "contents": [f"observation {number}"]} for number in range(10)]
        await asyncio.gather(*(call(client, "add_observations", observations=[one]) for one in said))
        graph = await call(client, "open_nodes", names=["Ada"])
        assert len(graph["entities"][0]["observations"]) == 10
        assert graph["relations"] == [relation]
        await call(client, "delete_entities", entityNames=["Grace"])
        assert (await call(client, "read_graph"))["relations"] == []


async def test_the_memory_tool_keeps_files_and_their_history(store: Store, user: str) -> None:
    tools = [AsyncMemoryTool(store, user_id=user) for _ in range(4)]
    await tools[0].call({"command": "create", "path": "/memories/log", "file_text": ""})
    await asyncio.gather(
        *(
            tool.call({"command": "insert", "path": "/memories/log", "insert_line": 0, "insert_text": f"line {n} {m}"})
            for n, tool in enumerate(tools)
            for m in range(3)
        )
    )
    shown = str(await tools[1].call({"command": "view", "path": "/memories/log"}))
    assert shown.count("line ") == 12 + 1
    assert len(await tools[2].history("/memories/log")) == 13
    await tools[3].call({"command": "rename", "old_path": "/memories/log", "new_path": "/memories/a/b/log"})
    await tools[3].call({"command": "delete", "path": "/memories/a"})
    await tools[0].undo()
    assert str(await tools[1].call({"command": "view", "path": "/memories/a/b/log"})).count("line ") == 12 + 1
    await tools[0].undo()
    assert str(await tools[1].call({"command": "view", "path": "/memories/log"})) == shown
    with pytest.raises(ToolError, match="already exists"):
        await tools[1].call({"command": "create", "path": "/memories/log", "file_text": ""})
    other = AsyncMemoryTool(store, user_id=f"{user}-other")
    with pytest.raises(ToolError, match="does not exist"):
        await other.call({"command": "view", "path": "/memories/log"})


WRITER = """
import sys
import memoranda.sync
from memoranda_anthropic import MemoryTool

with memoranda.sync.open(sys.argv[1]) as store:
    tool = MemoryTool(store, user_id=sys.argv[2])
    for number in range(10_000):
        tool.call({"command": "create", "path": f"/memories/d{number}/f", "file_text": str(number)})
        print(number, flush=True)
"""


@pytest.mark.rare
async def test_a_killed_process_loses_no_file_that_it_said_it_has(tmp_path: Path, user: str) -> None:
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, url, user, stdout=subprocess.PIPE)
    assert process.stdout is not None
    last = 0
    while last < 20:
        last = int(await process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    async with memoranda.open(url) as store:
        tool = AsyncMemoryTool(store, user_id=user)
        for number in range(last + 1):
            shown = str(await tool.call({"command": "view", "path": f"/memories/d{number}/f"}))
            assert shown.endswith(f"\t{number}")


@pytest.mark.rare
@pytest.mark.parametrize(
    ("program", "last"),
    [
        ("claude_memory_files.py", "1\tAda takes tea."),
        ("mcp_assistant.py", "Does Ada take milk? -> Ada takes her tea without milk."),
    ],
)
def test_the_examples_run(program: str, last: str) -> None:
    line = [sys.executable, str(ROOT / "examples" / program)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == last


def test_the_plugins_say_that_they_are_there() -> None:
    line = [sys.executable, "-m", "memoranda", "plugins", "--json"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=200, check=False)
    assert {"mcp", "anthropic"} <= {plugin["name"] for plugin in json.loads(done.stdout)}
