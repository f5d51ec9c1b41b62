"""Who subscribes to a resource hears of its changes, by whomever, and of nobody else's."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.subscriptions import ResourceUpdated

from memoranda.items import HumanMemory
from memoranda.store import InMemoryStore
from memoranda_mcp import Desk, Rights, make_server

Started = Callable[..., StdioServerParameters]


async def heard(subscription: Any) -> str:
    async for event in subscription:
        assert isinstance(event, ResourceUpdated)
        return event.uri
    raise AssertionError("The stream ended.")


async def test_a_change_through_this_server_is_heard_at_once(store: InMemoryStore, ada: Client) -> None:
    memory = (await ada.call_tool("remember", {"content": "tea"})).structured_content
    uri = f"memory://items/{memory['id']}"
    async with ada.listen(resource_subscriptions=[uri]) as subscription:
        await ada.call_tool("remember", {"content": "something else"})
        await ada.call_tool("update", {"id": memory["id"], "version": 1, "content": "coffee"})
        assert await asyncio.wait_for(heard(subscription), 60) == uri


@pytest.mark.parametrize("uri", ["memory://recent", "memory://conversations/talk", "memory://knowledge-graph"])
async def test_lists_conversations_and_the_graph_can_be_subscribed_to(ada: Client, uri: str) -> None:
    entity = {"name": "Ada", "entityType": "person", "observations": []}
    async with ada.listen(resource_subscriptions=[uri]) as subscription:
        if "graph" in uri:
            await ada.call_tool("create_entities", {"entities": [entity]})
        else:
            await ada.call_tool("remember", {"content": "tea", "said_by": "user", "conversation": "talk"})
        assert await asyncio.wait_for(heard(subscription), 60) == uri


@pytest.mark.rare
async def test_a_change_by_another_process_is_heard(store: InMemoryStore, ada: Client) -> None:
    async with ada.listen(resource_subscriptions=["memory://recent"]) as subscription:
        await store.scoped(user_id="ada").add(HumanMemory(content="said elsewhere"))
        assert await asyncio.wait_for(heard(subscription), 60) == "memory://recent"


async def test_nobody_hears_of_another_persons_changes(store: InMemoryStore) -> None:
    desks = {user: Desk(store.scoped(user_id=user), store.scoped(user_id=user), Rights()) for user in ("ada", "grace")}
    async with Client(make_server(desks["ada"])) as ada, Client(make_server(desks["grace"])) as grace:
        hers = (await grace.call_tool("remember", {"content": "hers"})).structured_content
        uris = [f"memory://items/{hers['id']}", "memory://recent"]
        async with ada.listen(resource_subscriptions=uris) as subscription:
            await grace.call_tool("update", {"id": hers["id"], "version": 1, "content": "hers still"})
            await desks["ada"].changes.look()
            await ada.call_tool("remember", {"content": "mine"})
            assert await asyncio.wait_for(heard(subscription), 60) == "memory://recent"
    for desk in desks.values():
        await desk.changes.close()


@pytest.mark.rare
async def test_a_client_of_before_is_told_in_the_old_way(started: Started) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()

    async def hear(message: Any) -> None:
        uri = getattr(getattr(message, "params", None), "uri", None)
        if uri is not None:
            told.put_nowait(str(uri))

    async with Client(started(), mode="legacy", message_handler=hear) as client:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            await client.subscribe_resource("memory://recent")
            await client.call_tool("remember", {"content": "tea"})
            assert await asyncio.wait_for(told.get(), 60) == "memory://recent"
            await client.unsubscribe_resource("memory://recent")
        await client.call_tool("remember", {"content": "coffee"})
        await client.list_tools()
        assert told.empty()
