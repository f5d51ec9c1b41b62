"""The server on HTTP: on this machine alone, and everybody with a token of their own."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

import memoranda
from memoranda import HumanMemory
from memoranda.errors import InputError
from memoranda_mcp.http import TokenFile, Tokens, read_tokens

Started = Callable[..., StdioServerParameters]
ADA, GRACE = "ada's-token-0123456789", "grace's-token-0123456789"


@asynccontextmanager
async def serving(started: Started, tmp_path: Path, *options: str) -> AsyncIterator[str]:
    """Start the command on any free port, and give its address."""
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"ada": ADA, "grace": GRACE}))
    parameters = started("--http", "--port", "0", "--tokens", str(tokens), *options)
    arguments = [argument for argument in parameters.args if argument not in ("--user", "ada")]
    process = await asyncio.create_subprocess_exec(
        parameters.command, *arguments, env=parameters.env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        line = (await process.stderr.readline()).decode()
        assert "http://127.0.0.1:" in line, line + (await process.stderr.read()).decode()
        yield line.split()[-1]
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def client_of(url: str, token: str, mode: Any = "auto") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=240) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


async def contents(client: Client) -> list[str]:
    result = await client.call_tool("list_memories", {})
    return [memory["content"] for memory in result.structured_content["memories"]]


async def told(client: Client, *ids: str) -> str:
    """Return all that a client is told of the ferry, and of items whose ids it knows."""
    asked: list[tuple[str, dict[str, Any]]] = [
        ("recall", {"query": "What does the ferry cost?"}),
        ("list_memories", {}),
        ("context", {"question": "What does the ferry cost?"}),
        ("list_memories", {"ids": [*ids]}),
    ]
    answers = [str(await client.call_tool(name, given)) for name, given in asked]
    for uri in ("memory://recent", *(f"memory://items/{item_id}" for item_id in ids)):
        try:
            answers.append(str(await client.read_resource(uri)))
        except MCPError as error:
            answers.append(str(error))
    return "\n".join([*answers, str(await client.list_resources())])


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.mark.rare
async def test_everybody_who_authenticates_has_their_own_memories(started: Started, tmp_path: Path) -> None:
    async with serving(started, tmp_path) as url:
        for mode in ("auto", "legacy"):
            async with client_of(url, ADA, mode) as ada, client_of(url, GRACE, mode) as grace:
                await asyncio.gather(
                    *(ada.call_tool("remember", {"content": f"ada {mode} {number}"}) for number in range(5)),
                    *(grace.call_tool("remember", {"content": f"grace {mode} {number}"}) for number in range(5)),
                )
                assert all(content.startswith("ada ") for content in await contents(ada))
                assert all(content.startswith("grace ") for content in await contents(grace))
                assert len(await contents(ada)) == len(await contents(grace)) == (5 if mode == "auto" else 10)


@pytest.mark.rare
async def test_who_has_no_token_is_turned_away(started: Started, tmp_path: Path) -> None:
    async with serving(started, tmp_path) as url, httpx2.AsyncClient(timeout=240) as http:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {ADA}"}):
            answer = await http.post(url, json=HELLO, headers={**ACCEPT, **headers})
            assert answer.status_code == 401, headers
        mine = {**ACCEPT, "Authorization": f"Bearer {ADA}"}
        session = (await http.post(url, json=HELLO, headers=mine)).headers["mcp-session-id"]
        listing = {"jsonrpc": "2.0", "id": 2, "method": "resources/list"}
        stolen = {**ACCEPT, "Authorization": f"Bearer {GRACE}", "mcp-session-id": session}
        assert (await http.post(url, json=listing, headers=stolen)).status_code in (401, 403, 404)
        for header in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
            assert (await http.post(url, json=HELLO, headers={**mine, **header})).status_code in (403, 421)
        huge = {**HELLO, "padding": "x" * 20_000_000}
        assert (await http.post(url, json=huge, headers=mine)).status_code == 413
        assert (await http.post(url, json=HELLO, headers=mine)).status_code == 200


@pytest.mark.rare
def test_a_server_listens_on_this_machine_alone_and_never_without_tokens(started: Started) -> None:
    def said(*options: str, **environment: str) -> str:
        parameters = started("--http", *options)
        done = subprocess.run(
            [parameters.command, *parameters.args],
            env={**(parameters.env or {}), **environment},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 2
        assert ADA not in done.stderr
        return done.stderr

    assert "has to know its users" in said()
    assert "this machine only" in said("--host", "0.0.0.0", MEMORANDA_MCP_TOKEN=ADA)


def test_tokens_that_protect_nothing_are_refused(tmp_path: Path) -> None:
    for users in ({}, {"ada": "short"}, {"ada": ADA, "grace": ADA}, {"ada": "ü" * 20}):
        with pytest.raises(InputError):
            Tokens(users)
    path = tmp_path / "tokens.json"
    path.write_text(f'["{ADA}"]')
    with pytest.raises(InputError, match="from users to tokens") as refused:
        read_tokens(path)
    assert ADA not in str(refused.value)


async def test_a_token_that_is_taken_out_of_the_file_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens.json"

    def write(text: str) -> None:
        path.with_suffix(".new").write_text(text)
        path.with_suffix(".new").rename(path)

    write(json.dumps({"ada": ADA, "grace": GRACE}))
    tokens = TokenFile(path)
    assert (await tokens.verify_token(ADA)) is not None
    write(json.dumps({"grace": GRACE}))
    assert await tokens.verify_token(ADA) is None
    assert (await tokens.verify_token(GRACE)) is not None
    for broken in ("{}", f'{{"ada": "{ADA}"'):
        write(broken)
        assert await tokens.verify_token(GRACE) is None
    assert "no token is taken" in caplog.text
    assert ADA not in caplog.text
    write(json.dumps({"ada": ADA}))
    found = await tokens.verify_token(ADA)
    assert found is not None
    assert found.subject == "ada"
    path.unlink()
    assert await tokens.verify_token(ADA) is None


async def test_a_token_reads_what_is_granted_to_its_user_as_long_as_it_is(started: Started, tmp_path: Path) -> None:
    """Grants are given, revoked and left to end by another process, between the calls of sessions that stay open."""
    spaces = pytest.importorskip("memoranda_spaces")
    costs = {"acme": "The ferry costs forty euros.", "beta": "The ferry costs ninety francs."}
    async with memoranda.open(f"sqlite:///{tmp_path / 'memory.db'}") as store:
        grants = spaces.Grants(store)
        for name, text in costs.items():
            await store.space(name).add(HumanMemory(id=f"{name}-1", content=text))
        await grants.give("acme", to=spaces.user("ada"), may="manage", by="vera")
        await grants.give("beta", to=spaces.user("grace"), by="vera")
        async with (
            serving(started, tmp_path, "--spaces") as url,
            client_of(url, ADA) as ada,
            client_of(url, GRACE) as grace,
        ):
            by_ada, by_grace = await told(ada, "acme-1", "beta-1"), await told(grace, "acme-1", "beta-1")
            assert "forty euros" in by_ada
            assert "ninety francs" not in by_ada
            assert "ninety francs" in by_grace
            assert "forty euros" not in by_grace

            await grants.revoke("acme", to=spaces.user("ada"), by="vera")
            until = datetime.now(UTC) + timedelta(seconds=1)
            await grants.give("beta", to=spaces.user("grace"), until=until, by="vera")
            await asyncio.sleep(1.1)

            assert "forty euros" not in await told(ada, "acme-1", "beta-1")
            assert "ninety francs" not in await told(grace, "acme-1", "beta-1")
            await grants.give("beta", to=spaces.user("ada"), by="vera")
            assert "ninety francs" in await told(ada, "acme-1", "beta-1")
