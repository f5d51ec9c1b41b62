"""Spaces over MCP: a server reads what is granted to the user of its token, as long as it is granted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from memoranda.items import HumanMemory
from memoranda_mcp.server import make_memory, make_server, opened
from memoranda_mcp.settings import Settings

spaces = pytest.importorskip("memoranda_spaces")

POLICY = "The refund policy allows thirty days."


async def told(client: Client) -> str:
    """Return all that the tools and resources that read tell."""
    asked: list[tuple[str, dict[str, Any]]] = [
        ("recall", {"query": "refund policy"}),
        ("list_memories", {}),
        ("context", {"question": "What is the refund policy?"}),
    ]
    answers = [str(await client.call_tool(name, given)) for name, given in asked]
    answers.append(str(await client.list_resources()))
    answers.append(str(await client.read_resource("memory://recent")))
    return "\n".join(answers)


async def test_each_user_reads_what_is_granted_to_them(tmp_path: Path) -> None:
    """A user of a server with several tokens is named by the token: see ``test_mcp_http``."""
    settings = Settings(store=f"sqlite:///{tmp_path / 'a.db'}", spaces=True)
    async with opened(settings) as (store, _):
        await store.space("acme").add(HumanMemory(id="policy", content=POLICY))
        grants = spaces.Grants(store)
        await grants.give("acme", to=spaces.user("ada"), may="manage", by="vera")
        of_ada, of_grace = (make_server(make_memory(store, settings, None, user=name)) for name in ("ada", "grace"))
        async with Client(of_ada) as ada, Client(of_grace) as grace:
            listed = await ada.call_tool("list_memories", {})
            assert listed.structured_content is not None
            assert [memory["space"] for memory in listed.structured_content["memories"]] == ["acme"]
            assert (await told(ada)).count("thirty days") >= 4
            assert "thirty days" not in await told(grace)

            await grants.revoke("acme", to=spaces.user("ada"), by="vera")

            assert "thirty days" not in await told(ada)


async def test_nothing_shared_is_changed_or_forgotten(tmp_path: Path) -> None:
    settings = Settings(store=f"sqlite:///{tmp_path / 'a.db'}", user="ada", spaces=True, allow_purge=True)
    async with opened(settings) as (store, _):
        await store.space("acme").add(HumanMemory(id="policy", content=POLICY))
        await spaces.Grants(store).give("acme", to=spaces.user("ada"), may="manage", by="vera")
        async with Client(make_server(make_memory(store, settings, None))) as client:
            changed = await client.call_tool("update_memory", {"id": "policy", "version": 1, "content": "None."})
            forgotten = await client.call_tool("forget", {"ids": ["policy"], "purge": True})
            await client.call_tool("remember", {"content": "Ada likes tea."})

        assert changed.is_error
        assert forgotten.is_error
        assert "shared in the space 'acme'" in str(changed.content)
        assert [item.content for item in await store.space("acme").search()] == [POLICY]
        assert [item.content for item in await store.scoped(user_id="ada").search()] == ["Ada likes tea."]


async def test_without_the_option_nothing_shared_is_read(tmp_path: Path) -> None:
    settings = Settings(store=f"sqlite:///{tmp_path / 'a.db'}", user="ada")
    async with opened(settings) as (store, _):
        await store.space("acme").add(HumanMemory(id="policy", content=POLICY))
        await spaces.Grants(store).give("acme", to=spaces.user("ada"), by="vera")
        async with Client(make_server(make_memory(store, settings, None))) as client:
            assert "thirty days" not in await told(client)
