"""The command as clients start it: a process that is spoken to on standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters

Started = Callable[..., StdioServerParameters]


def given(result: Any) -> Any:
    assert not result.is_error, result.content
    return result.structured_content


async def everything(client: Client) -> list[str]:
    """Return the contents of all memories."""
    found: list[str] = []
    arguments: dict[str, Any] = {"limit": 100}
    while True:
        page = given(await client.call_tool("list_memories", arguments))
        found += [memory["content"] for memory in page["memories"]]
        if page["next_cursor"] is None:
            return found
        arguments["cursor"] = page["next_cursor"]


@pytest.mark.rare
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_assistant_remembers_over_standard_input_and_output(started: Started, mode: Any) -> None:
    async with Client(started(), mode=mode) as client:
        await client.call_tool("remember", {"content": "Ada plays the harp."})
    async with Client(started(), mode=mode) as client:
        assert await everything(client) == ["Ada plays the harp."]
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"remember", "recall", "list_memories", "update_memory", "forget", "context"} <= names
    async with Client(started(user="grace"), mode=mode) as client:
        assert await everything(client) == []


@pytest.mark.rare
async def test_a_hundred_calls_at_once_are_all_answered_and_kept(started: Started) -> None:
    async with Client(started()) as client:
        results = await asyncio.gather(
            *(client.call_tool("remember", {"content": f"memory {number}"}) for number in range(100))
        )
        assert len({given(result)["id"] for result in results}) == 100
        assert sorted(await everything(client)) == sorted(f"memory {number}" for number in range(100))


@pytest.mark.slow
async def test_two_servers_on_one_file_lose_nothing(started: Started) -> None:
    async with Client(started()) as one, Client(started()) as other:
        await asyncio.gather(
            *(
                client.call_tool("remember", {"content": f"{name} {number}"})
                for number in range(30)
                for name, client in (("one", one), ("other", other))
            )
        )
        wanted = sorted(f"{name} {number}" for number in range(30) for name in ("one", "other"))
        assert sorted(await everything(one)) == sorted(await everything(other)) == wanted
        memory = given(await one.call_tool("remember", {"content": "shared"}))
        changes = [
            client.call_tool("update_memory", {"id": memory["id"], "version": 1, "content": "x"})
            for client in (one, other)
        ]
        assert sorted(result.is_error for result in await asyncio.gather(*changes)) == [False, True]


@pytest.mark.rare
async def test_what_was_acknowledged_outlives_a_killed_server(started: Started) -> None:
    parameters = started()
    process = await asyncio.create_subprocess_exec(
        parameters.command,
        *parameters.args,
        env=parameters.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    async def say(**message: Any) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        await process.stdin.drain()

    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    await say(id=0, method="initialize", params=hello)
    await process.stdout.readline()
    await say(method="notifications/initialized")
    for number in range(1, 200):
        call = {"name": "remember", "arguments": {"content": f"memory {number}"}}
        await say(id=number, method="tools/call", params=call)
    acknowledged = set()
    for _ in range(20):
        answer = json.loads(await process.stdout.readline())
        acknowledged.add(answer["result"]["structuredContent"]["content"])
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    async with Client(started()) as client:
        assert acknowledged <= set(await everything(client))


HOSTILE: list[tuple[str, dict[str, Any], str]] = [
    ("remember", {"content": "x" * 20_000_000}, "at most 200000 characters"),
    ("recall", {"query": "x" * 20_000_000}, "at most 10000 characters"),
    ("remember", {"content": "a\0b"}, "NUL"),
    ("remember", {"content": "x", "conversation": "a\0b"}, "NUL"),
    ("update_memory", {"id": "../../etc/passwd", "version": 1, "content": "x"}, "no memory with this id"),
    ("list_memories", {"ids": ["a\0b"]}, "NUL"),
    ("list_memories", {"since": "yesterday"}, "since"),
    ("recall", {"query": "x", "since": "yesterday"}, "since"),
    ("list_memories", {"limit": 10**30}, "less than or equal to 100"),
    ("list_memories", {"cursor": "eyJvZmZzZXQiOiAtMX0"}, "cursor"),
    ("list_memories", {"cursor": "ü"}, "cursor"),
    ("remember", {}, "`content` is missing"),
    ("remember", {"content": {"nested": []}}, "`content`"),
    ("remember", {"content": "x", "importance": 5}, "`importance`"),
    ("remember", {"content": "x", "ttl_seconds": -1}, "`ttl_seconds`"),
    ("remember", {"content": "x", "tags": ["a\0b"]}, "NUL"),
    ("forget", {"ids": []}, "`ids`"),
]


@pytest.mark.rare
async def test_hostile_arguments_are_answered_with_a_sentence_and_harm_nothing(started: Started) -> None:
    async with Client(started("--allow-purge")) as client:
        for tool, arguments, said in HOSTILE:
            result = await client.call_tool(tool, arguments)
            assert result.is_error, tool
            sentence = result.content[0].text  # type: ignore[union-attr]
            assert said in sentence, (tool, sentence)
            assert len(sentence) < 1000
            assert "Traceback" not in sentence
        with pytest.raises(MCPError):
            await client.call_tool("drop_table", {})
        assert await everything(client) == []


@pytest.mark.rare
def test_a_server_without_an_owner_is_refused(started: Started) -> None:
    parameters = started()
    arguments = [argument for argument in parameters.args if argument not in ("--user", "ada")]
    done = subprocess.run(
        [parameters.command, *arguments], env=parameters.env, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 2
    assert "Name the owner: --user" in done.stderr
    assert done.stdout == ""


@pytest.mark.rare
async def test_a_store_that_is_only_read_is_not_made(started: Started, tmp_path: Any) -> None:
    parameters = started("--read-only")
    done = await asyncio.to_thread(
        lambda: subprocess.run(
            [parameters.command, *parameters.args],
            env=parameters.env,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    )
    assert done.returncode != 0
    assert "memory.db does not exist" in done.stderr
    assert not (tmp_path / "memory.db").exists()


async def test_a_call_that_is_cancelled_ends_and_the_server_goes_on(started: Started) -> None:
    async with Client(started()) as client:
        with pytest.raises((MCPError, TimeoutError)):
            await client.call_tool("context", {"question": "x"}, read_timeout_seconds=0.000001)
        assert await everything(client) == []
