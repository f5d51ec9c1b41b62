"""Memory of Strands: what an agent adds is found, by its owner alone, and once."""

from __future__ import annotations

import json
from typing import Any

from strands import Agent
from strands.memory import AddMessagesContext, MemoryManager
from strands_messages import Parrot, conversation

from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import InMemoryStore, Store
from memoranda_facts import Facts
from memoranda_facts.tools import FactTools
from memoranda_strands import MemorandaMemoryStore, as_tools


async def test_what_was_added_is_found_by_its_owner(store: Store) -> None:
    ada, bob = (MemorandaMemoryStore(store.scoped(user_id=name)) for name in ("ada", "bob"))
    first = await ada.add("The flat is in Oslo.", {"topic": "home"})
    again = await ada.add("The flat is in Oslo.", {"topic": "flat"})
    await bob.add("The flat is in Rome.")
    await store.add(HumanMemory(content="The flat is old.", metadata=MemoryMetadata(user_id="ada", session_id="s")))

    (found,) = await ada.search("Where is the flat?")

    assert first == again
    assert found.content == "The flat is in Oslo."
    assert found.metadata is not None
    assert (found.metadata["topic"], found.metadata["id"]) == ("flat", first)
    everything = MemorandaMemoryStore(store.scoped(user_id="ada"), everything=True)
    assert {entry.content for entry in await everything.search("flat")} == {"The flat is in Oslo.", "The flat is old."}


async def test_stores_of_different_names_are_apart(store: Store) -> None:
    home, work = (MemorandaMemoryStore(store.scoped(user_id="ada"), name) for name in ("home", "work"))
    await home.add("The key is red.")
    await work.add("The key is red.")
    assert len(await home.search("key")) == len(await work.search("key")) == 1
    assert await store.count() == 2


async def test_a_search_returns_as_many_as_it_is_asked_for(store: Store) -> None:
    memory = MemorandaMemoryStore(store.scoped(user_id="ada"), max_search_results=2)
    for colour in ("red", "blue", "green"):
        await memory.add(f"The key is {colour}.")
    assert len(await memory.search("key")) == 2
    assert len(await memory.search("key", {"max_search_results": 3})) == 3


async def test_messages_that_are_delivered_again_are_stored_once(store: Store) -> None:
    memory = MemorandaMemoryStore(store.scoped(user_id="ada"))
    context = AddMessagesContext(sequence_numbers=[3, 4, 7, 8])
    for _ in range(2):
        await memory.add_messages(conversation(), context)
    tracked: Any = {"role": "user", "content": [{"text": "The cat is mine."}], "tracking_id": "t1"}
    await memory.add_messages([tracked])
    await memory.add_messages([tracked], AddMessagesContext(sequence_numbers=[9]))

    assert await store.count() == 6
    assert "A cat." in {entry.content for entry in await memory.search("cat")}


async def test_a_memory_manager_uses_it_and_its_tools(store: Store) -> None:
    facts = Facts(store.scoped(user_id="ada"))
    memory = MemorandaMemoryStore(store.scoped(user_id="ada"), tools=FactTools(facts).all())
    await memory.add("The flat is in Oslo.")
    model = Parrot()
    agent = Agent(model=model, memory_manager=MemoryManager(stores=[memory]), callback_handler=None)

    await agent.invoke_async("Where is the flat?")

    assert "The flat is in Oslo." in json.dumps(model.requests[0])
    assert {"search_memory", "remember_fact"} <= set(agent.tool_names)


async def test_a_model_that_calls_a_tool_wrongly_gets_a_sentence() -> None:
    facts = Facts(InMemoryStore().scoped(user_id="ada"))
    tools = {tool.tool_name: tool for tool in as_tools(FactTools(facts).all())}

    async def call(name: str, **arguments: Any) -> Any:
        use: Any = {"toolUseId": "u1", "name": name, "input": arguments}
        results = [event async for event in tools[name].stream(use, {})]
        return results[-1]["tool_result"] if "tool_result" in results[-1] else results[-1].tool_result

    known = await call("remember_fact", subject="Ada", predicate="lives_in", value="Paris")
    assert known["status"] == "success"
    assert [str(fact.object) for fact in await facts.current()] == ["Paris"]
    unknown = await call("end_fact", id="none")
    assert (unknown["status"], unknown["toolUseId"]) == ("error", "u1")
    assert "no fact with this id" in unknown["content"][0]["text"]
