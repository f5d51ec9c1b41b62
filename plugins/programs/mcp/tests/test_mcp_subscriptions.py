"""Who subscribes to a resource hears of its changes, by whomever, and of nobody else's."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from stepwise import StepwiseStore

from memoranda.errors import StoreUnavailableError
from memoranda.items import HumanMemory, SystemMemory
from memoranda.store import InMemoryStore, Observer
from memoranda_mcp import Rights, ScopedMemory, make_server
from memoranda_mcp.graph import Graph
from memoranda_mcp.subscriptions import MAX_SUBSCRIPTIONS

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
        await ada.call_tool("update_memory", {"id": memory["id"], "version": 1, "content": "coffee"})
        assert await asyncio.wait_for(heard(subscription), 240) == uri


@pytest.mark.parametrize("uri", ["memory://recent", "memory://conversations/talk", "memory://knowledge-graph"])
async def test_lists_conversations_and_the_graph_can_be_subscribed_to(ada: Client, graph: Client, uri: str) -> None:
    entity = {"name": "Ada", "entityType": "person", "observations": []}
    client = graph if "graph" in uri else ada
    async with client.listen(resource_subscriptions=[uri]) as subscription:
        if client is graph:
            await client.call_tool("create_entities", {"entities": [entity]})
        else:
            await client.call_tool("remember", {"content": "tea", "said_by": "user", "conversation": "talk"})
        assert await asyncio.wait_for(heard(subscription), 240) == uri


@pytest.mark.rare
async def test_a_change_by_another_process_is_heard(store: InMemoryStore, ada: Client) -> None:
    async with ada.listen(resource_subscriptions=["memory://recent"]) as subscription:
        await store.scoped(user_id="ada").add(HumanMemory(content="said elsewhere"))
        assert await asyncio.wait_for(heard(subscription), 240) == "memory://recent"


async def test_nobody_hears_of_another_persons_changes(store: InMemoryStore) -> None:
    scopes = {user: store.scoped(user_id=user) for user in ("ada", "grace")}
    memories = {user: ScopedMemory(scope, scope, Rights()) for user, scope in scopes.items()}
    async with Client(make_server(memories["ada"])) as ada, Client(make_server(memories["grace"])) as grace:
        hers = (await grace.call_tool("remember", {"content": "hers"})).structured_content
        uris = [f"memory://items/{hers['id']}", "memory://recent"]
        async with ada.listen(resource_subscriptions=uris) as subscription:
            await grace.call_tool("update_memory", {"id": hers["id"], "version": 1, "content": "hers still"})
            await memories["ada"].subscriptions.check()
            await ada.call_tool("remember", {"content": "mine"})
            assert await asyncio.wait_for(heard(subscription), 240) == "memory://recent"
    for memory in memories.values():
        await memory.subscriptions.close()


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
            assert await asyncio.wait_for(told.get(), 240) == "memory://recent"
            await client.unsubscribe_resource("memory://recent")
        await client.call_tool("remember", {"content": "coffee"})
        await client.list_tools()
        assert told.empty()


class Reads(Observer):
    """Counts the searches of a store."""

    def __init__(self) -> None:
        self.count = 0

    def searched(self, query: str, found: Any) -> None:
        self.count += 1


@contextlib.asynccontextmanager
async def connected(memory: ScopedMemory, told: list[str] | None = None) -> AsyncIterator[Client]:
    """Give a client of before 2026-07-28, which subscribes to one resource at a time, and see that no task is left."""

    async def hear(message: Any) -> None:
        uri = getattr(getattr(message, "params", None), "uri", None)
        if uri is not None and told is not None:
            told.append(str(uri))

    before = asyncio.all_tasks()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        async with Client(make_server(memory), mode="legacy", message_handler=hear) as client:
            yield client
    await nothing_watched(memory, before)


async def nothing_watched(memory: ScopedMemory, before: set[asyncio.Task[Any]]) -> None:
    left = asyncio.all_tasks() - before
    await asyncio.wait_for(asyncio.gather(*left, return_exceptions=True), 240)
    reads = Reads()
    memory.store.observe(reads)
    await memory.subscriptions.check()
    assert not reads.count


GOOD = "memory://recent"
REFUSED = {
    "of_another_kind": "memory://elsewhere/x",
    "no_address": "https://example.org/",
    "not_a_name": "memory://conversations/%00",
    "not_an_id": "memory://items/%00",
    "no_right": "memory://knowledge-graph",
    "another_conversation": "memory://conversations/other",
}


@pytest.mark.parametrize("uri", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("first", [True, False], ids=["good_first", "refused_first"])
async def test_one_refused_address_refuses_the_whole_subscription(store: InMemoryStore, uri: str, first: bool) -> None:
    memory = ScopedMemory(store.scoped(user_id="ada", session_id="talk"), store.scoped(user_id="ada"), Rights())
    before = asyncio.all_tasks()
    async with Client(make_server(memory)) as client:
        with pytest.raises(MCPError):
            async with client.listen(resource_subscriptions=[GOOD, uri] if first else [uri, GOOD]):
                pass
    await nothing_watched(memory, before)


async def test_an_address_that_cannot_be_read_refuses_the_whole_subscription() -> None:
    class Away(StepwiseStore):
        async def _get(self, item_id: str) -> Any:
            raise StoreUnavailableError("The server is away.")

    async with Away() as away:
        memory = ScopedMemory(away.scoped(user_id="ada"), away.scoped(user_id="ada"), Rights())
        before = asyncio.all_tasks()
        async with Client(make_server(memory)) as client:
            with pytest.raises(MCPError, match="away"):
                async with client.listen(resource_subscriptions=[GOOD, "memory://items/x"]):
                    pass
        await nothing_watched(memory, before)


async def test_a_refused_subscription_leaves_others_to_the_same_resource_alone(ada: Client) -> None:
    async with ada.listen(resource_subscriptions=[GOOD]) as subscription:
        with pytest.raises(MCPError):
            async with ada.listen(resource_subscriptions=[GOOD, "memory://elsewhere/x"]):
                pass
        await ada.call_tool("remember", {"content": "tea"})
        assert await asyncio.wait_for(heard(subscription), 240) == GOOD


async def test_a_subscription_beyond_the_limit_is_refused_and_says_so(store: InMemoryStore) -> None:
    memory = ScopedMemory(store.scoped(user_id="ada"), store.scoped(user_id="ada"), Rights())
    most = [f"memory://items/{number}" for number in range(MAX_SUBSCRIPTIONS)]
    before = asyncio.all_tasks()
    async with Client(make_server(memory)) as client:
        async with client.listen(resource_subscriptions=most):
            with pytest.raises(MCPError, match="1000"):
                async with client.listen(resource_subscriptions=[GOOD]):
                    pass
            async with client.listen(resource_subscriptions=most[:1]):
                pass
        async with client.listen(resource_subscriptions=[GOOD]):
            pass
    await nothing_watched(memory, before)


async def test_a_client_of_before_is_refused_beyond_the_limit(store: InMemoryStore) -> None:
    memory = ScopedMemory(store.scoped(user_id="ada"), store.scoped(user_id="ada"), Rights())
    await memory.subscriptions.watch([f"memory://items/{number}" for number in range(MAX_SUBSCRIPTIONS)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        async with Client(make_server(memory), mode="legacy") as client:
            with pytest.raises(MCPError, match="1000"):
                await client.subscribe_resource(GOOD)
    await memory.subscriptions.close()


@pytest.mark.parametrize("at_once", [False, True], ids=["one_after_the_other", "at_once"])
async def test_who_subscribes_twice_is_told_once_and_unsubscribes_once(store: InMemoryStore, at_once: bool) -> None:
    memory = ScopedMemory(store.scoped(user_id="ada"), store.scoped(user_id="ada"), Rights())
    told: list[str] = []
    async with connected(memory, told) as client:
        if at_once:
            await asyncio.gather(client.subscribe_resource(GOOD), client.subscribe_resource(GOOD))
        else:
            await client.subscribe_resource(GOOD)
            await client.subscribe_resource(GOOD)
        await client.call_tool("remember", {"content": "tea"})
        await client.list_tools()
        assert told == [GOOD]
        await client.unsubscribe_resource(GOOD)
        await client.call_tool("remember", {"content": "coffee"})
        await client.list_tools()
        assert told == [GOOD]


async def test_to_unsubscribe_from_what_was_never_subscribed_ends_no_other_subscription(store: InMemoryStore) -> None:
    memory = ScopedMemory(store.scoped(user_id="ada"), store.scoped(user_id="ada"), Rights())
    told: list[str] = []
    async with connected(memory, told) as client, connected(memory) as other:
        await client.subscribe_resource(GOOD)
        await other.unsubscribe_resource(GOOD)
        await other.unsubscribe_resource("memory://items/never")
        await client.call_tool("remember", {"content": "tea"})
        await client.list_tools()
        assert told == [GOOD]
        await client.unsubscribe_resource(GOOD)


async def test_a_session_that_ends_takes_its_subscriptions_along(store: InMemoryStore) -> None:
    memory = ScopedMemory(store.scoped(user_id="ada"), store.scoped(user_id="ada"), Rights())
    async with connected(memory) as client:
        for number in range(20):
            await client.subscribe_resource(f"memory://items/{number}")
        await client.subscribe_resource(GOOD)


async def test_a_write_is_done_though_a_subscribed_resource_cannot_be_read(store: InMemoryStore) -> None:
    class Failing(StepwiseStore):
        away = False

        async def _search(self, *arguments: Any) -> Any:
            if self.away:
                raise StoreUnavailableError("The server is away.")
            return await super()._search(*arguments)

    async with Failing() as failing:
        memory = ScopedMemory(failing.scoped(user_id="ada"), failing.scoped(user_id="ada"), Rights())
        async with Client(make_server(memory)) as client, client.listen(resource_subscriptions=[GOOD]) as subscription:
            failing.away = True
            remembered = await client.call_tool("remember", {"content": "tea"})
            assert not remembered.is_error
            failing.away = False
            await memory.subscriptions.check()
            assert await asyncio.wait_for(heard(subscription), 240) == GOOD


class Interrupted(StepwiseStore):
    """Lets another write between the reads of one look, once."""

    write: Callable[[], Awaitable[object]] | None = None
    passed_over = 0

    async def _search(self, *arguments: Any) -> Any:
        found = await super()._search(*arguments)
        await self._interrupt()
        return found

    async def _count(self, *arguments: Any) -> int:
        await self._interrupt()
        return await super()._count(*arguments)

    async def _interrupt(self) -> None:
        if self.write is not None:
            self.passed_over -= 1
            if self.passed_over < 0:
                write, self.write = self.write, None
                await write()


@pytest.mark.parametrize("passed_over", range(4))
@pytest.mark.parametrize("uri", ["memory://recent", "memory://conversations/talk", "memory://knowledge-graph"])
async def test_a_change_between_the_reads_of_a_look_is_told_once(uri: str, passed_over: int) -> None:
    async with Interrupted() as store:
        memory = ScopedMemory(store.scoped(user_id="ada"), store.scoped(user_id="ada"), Rights(graph=True))
        told: list[Any] = []
        memory.subscriptions.bus.subscribe(told.append)
        talk = memory.store.scoped(session_id="talk")
        # More than the text of a conversation shows, so that it takes several reads.
        await talk.add_many(HumanMemory(content=f"{number}") for number in range(300))
        await memory.subscriptions.watch([uri])

        async def write() -> None:
            if "graph" in uri:
                await Graph(memory.graph_store).create_entities(
                    [{"name": "Ada", "entityType": "p", "observations": []}]
                )
            else:
                await talk.add(SystemMemory(content="Be brief."))

        store.write, store.passed_over = write, passed_over
        for _ in range(3):
            await memory.subscriptions.check()
        if store.write is not None:  # Fewer reads than that: the change comes afterwards.
            store.write = None
            await write()
            await memory.subscriptions.check()
        await memory.subscriptions.check()
        assert told == [ResourceUpdated(uri=uri)]
        memory.subscriptions.unwatch([uri])


async def test_a_change_that_touches_no_time_is_told(store: InMemoryStore) -> None:
    memory = ScopedMemory(store.scoped(user_id="ada"), store.scoped(user_id="ada"), Rights())
    told: list[Any] = []
    memory.subscriptions.bus.subscribe(told.append)
    older, newer = HumanMemory(content="tea"), HumanMemory(content="milk")
    await memory.store.add_many([older, newer])
    await memory.subscriptions.watch([GOOD])
    held = await memory.store.get(older.id)
    assert held is not None
    await memory.store.update(held.model_copy(update={"content": "coffee"}))
    for _ in range(2):
        await memory.subscriptions.check()
    assert told == [ResourceUpdated(uri=GOOD)]
    memory.subscriptions.unwatch([GOOD])
