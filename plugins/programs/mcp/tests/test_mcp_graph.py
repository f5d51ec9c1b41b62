"""The knowledge graph: the behaviour of the well-known server-memory, without its races."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from memoranda.errors import InputError
from memoranda.store import InMemoryStore
from memoranda_mcp import Rights, ScopedMemory, make_server

Started = Callable[..., StdioServerParameters]

ADA = {"name": "Ada", "entityType": "person", "observations": ["likes tea", "plays the Harp"]}
ENGINE = {"name": "Engine", "entityType": "project", "observations": ["is analytical"]}
BABBAGE = {"name": "Babbage", "entityType": "person", "observations": []}
WORKS = {"from": "Ada", "to": "Engine", "relationType": "works_on"}
KNOWS = {"from": "Ada", "to": "Babbage", "relationType": "knows"}


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def filled(client: Client) -> None:
    await call(client, "create_entities", entities=[ADA, ENGINE, BABBAGE])
    await call(client, "create_relations", relations=[WORKS, KNOWS])


async def test_what_is_created_is_read_in_the_order_in_which_it_grew(graph: Client) -> None:
    await filled(graph)
    assert await call(graph, "read_graph") == {"entities": [ADA, ENGINE, BABBAGE], "relations": [WORKS, KNOWS]}


async def test_what_is_there_is_not_created_again(graph: Client) -> None:
    await filled(graph)
    again = {**ADA, "observations": ["something else"]}
    new = {"name": "Grace", "entityType": "person", "observations": ["x", "x"]}
    created = await call(graph, "create_entities", entities=[again, new, new])
    assert created == {"entities": [{**new, "observations": ["x"]}]}
    assert await call(graph, "create_relations", relations=[WORKS, WORKS]) == {"relations": []}
    assert (await call(graph, "open_nodes", names=["Ada"]))["entities"] == [ADA]


async def test_only_new_observations_are_added_and_all_or_none(graph: Client) -> None:
    await filled(graph)
    addition = {"entityName": "Ada", "contents": ["likes tea", "writes notes", "writes notes"]}
    added = await call(graph, "add_observations", observations=[addition])
    assert added == {"results": [{"entityName": "Ada", "addedObservations": ["writes notes"]}]}
    missing = [{"entityName": "Ada", "contents": ["lost"]}, {"entityName": "Nobody", "contents": ["x"]}]
    refused = await graph.call_tool("add_observations", {"observations": missing})
    assert refused.is_error
    assert "Entity with name Nobody not found" in str(refused.content)
    assert "lost" not in str(await call(graph, "read_graph"))


async def test_an_entity_goes_with_its_relations_and_can_come_again(graph: Client) -> None:
    await filled(graph)
    done = await call(graph, "delete_entities", entityNames=["Engine", "Nobody"])
    assert done == {"success": True, "message": "Entities deleted successfully"}
    assert await call(graph, "read_graph") == {"entities": [ADA, BABBAGE], "relations": [KNOWS]}
    assert (await call(graph, "create_entities", entities=[ENGINE]))["entities"] == [ENGINE]
    assert ENGINE in (await call(graph, "read_graph"))["entities"]


async def test_observations_and_relations_are_deleted_and_missing_ones_passed_over(graph: Client) -> None:
    await filled(graph)
    deletions = [
        {"entityName": "Ada", "observations": ["likes tea", "never said"]},
        {"entityName": "Nobody", "observations": ["x"]},
    ]
    await call(graph, "delete_observations", deletions=deletions)
    await call(graph, "delete_relations", relations=[KNOWS, KNOWS])
    left = await call(graph, "read_graph")
    assert left["entities"][0]["observations"] == ["plays the Harp"]
    assert left["relations"] == [WORKS]


async def test_nodes_are_found_by_names_types_and_observations_in_any_case(graph: Client) -> None:
    await filled(graph)
    assert await call(graph, "search_nodes", query="hARP") == {"entities": [ADA], "relations": [WORKS, KNOWS]}
    assert [e["name"] for e in (await call(graph, "search_nodes", query="PERSON"))["entities"]] == ["Ada", "Babbage"]
    assert await call(graph, "search_nodes", query="person)") == {"entities": [], "relations": []}
    assert await call(graph, "search_nodes", query="nothing") == {"entities": [], "relations": []}
    assert await call(graph, "open_nodes", names=["Engine", "Nobody"]) == {"entities": [ENGINE], "relations": [WORKS]}


async def test_the_nine_tools_are_there_only_if_asked_for_and_then_alone(graph: Client, store: InMemoryStore) -> None:
    nine = {
        *("create_entities", "create_relations", "add_observations", "delete_entities", "delete_observations"),
        *("delete_relations", "read_graph", "search_nodes", "open_nodes"),
    }
    assert nine == {tool.name for tool in (await graph.list_tools()).tools}
    scoped = store.scoped(user_id="ada")
    async with Client(make_server(ScopedMemory(scoped, scoped))) as plain:
        assert nine.isdisjoint(tool.name for tool in (await plain.list_tools()).tools)
    async with Client(make_server(ScopedMemory(scoped, scoped, Rights(graph=True, read_only=True)))) as reader:
        named = {tool.name for tool in (await reader.list_tools()).tools}
        assert named == {"read_graph", "search_nodes", "open_nodes"}


async def test_a_server_for_memories_finds_the_graph_and_leaves_it_to_its_own_tools(graph: Client, ada: Client) -> None:
    await filled(graph)
    found = (await call(ada, "recall", query="harp"))["memories"][0]
    assert found["kind"] == "graph"
    for tool, arguments in (
        ("forget", {"ids": [found["id"]]}),
        ("update_memory", {"id": found["id"], "version": 1, "content": "x"}),
    ):
        refused = await ada.call_tool(tool, arguments)
        assert refused.is_error
        assert "only its own tools change" in str(refused.content)


async def test_graphs_of_two_people_never_meet(graph: Client, store: InMemoryStore) -> None:
    await filled(graph)
    hers = store.scoped(user_id="grace")
    async with Client(make_server(ScopedMemory(hers, hers, Rights(graph=True)))) as grace:
        assert await call(grace, "read_graph") == {"entities": [], "relations": []}
        await call(grace, "create_entities", entities=[{**ADA, "observations": ["hers"]}])
        await call(grace, "delete_entities", entityNames=["Engine"])
    assert (await call(graph, "read_graph"))["entities"] == [ADA, ENGINE, BABBAGE]


@pytest.mark.parametrize("other", ["facts", "allow_purge"])
def test_a_server_for_a_graph_refuses_what_it_has_no_tools_for(other: str) -> None:
    with pytest.raises(InputError, match=other):
        Rights(graph=True, **{other: True})


@pytest.mark.slow
async def test_many_processes_that_change_the_graph_at_once_lose_nothing(started: Started) -> None:
    async with Client(started("--graph")) as one, Client(started("--graph")) as other:
        await call(one, "create_entities", entities=[ADA])
        await asyncio.gather(
            *(
                client.call_tool(
                    "add_observations", {"observations": [{"entityName": "Ada", "contents": [f"{who} {number}"]}]}
                )
                for number in range(20)
                for who, client in (("one", one), ("other", other))
            ),
            *(
                client.call_tool("create_entities", {"entities": [{**ENGINE, "name": f"E{number}"}]})
                for number in range(20)
                for client in (one, other)
            ),
        )
        grown = await call(other, "read_graph")
    observed = next(entity for entity in grown["entities"] if entity["name"] == "Ada")["observations"]
    assert set(observed) == {*ADA["observations"], *(f"{who} {n}" for n in range(20) for who in ("one", "other"))}
    assert sorted(entity["name"] for entity in grown["entities"]) == sorted(["Ada", *(f"E{n}" for n in range(20))])


def imported(started: Started, path: Path) -> subprocess.CompletedProcess[str]:
    parameters = started("--graph")
    line = [parameters.command, *parameters.args, "import", str(path)]
    return subprocess.run(line, env=parameters.env, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.slow
async def test_the_file_of_server_memory_is_taken_over_once(started: Started, tmp_path: Path) -> None:
    path = tmp_path / "memory.jsonl"
    lines = [{"type": "entity", **ADA}, {"type": "entity", **ENGINE}, {"type": "relation", **WORKS}]
    path.write_text("\n".join(map(json.dumps, lines)))
    first = await asyncio.to_thread(imported, started, path)
    assert "added 2 entities, 0 further observations and 1 relations" in first.stdout, first.stderr
    again = await asyncio.to_thread(imported, started, path)
    assert "added 0 entities, 0 further observations and 0 relations" in again.stdout
    async with Client(started("--graph")) as client:
        assert await call(client, "read_graph") == {"entities": [ADA, ENGINE], "relations": [WORKS]}


@pytest.mark.rare
@pytest.mark.parametrize("line", [{"type": "entity", "name": 7}, {"role": "user", "content": "Hi"}])
async def test_a_file_that_is_something_else_is_refused_whole(
    started: Started, tmp_path: Path, line: dict[str, object]
) -> None:
    path = tmp_path / "memory.jsonl"
    path.write_text(f"{json.dumps({'type': 'entity', **ADA})}\n{json.dumps(line)}\n")
    refused = await asyncio.to_thread(imported, started, path)
    assert refused.returncode == 2
    assert "line 2" in refused.stderr
    async with Client(started("--graph")) as client:
        assert await call(client, "read_graph") == {"entities": [], "relations": []}
