"""The nine tools of a knowledge graph, with the names, arguments and results of the well-known ``server-memory``."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from memoranda_mcp.graph import Graph
from memoranda_mcp.memory import ScopedMemory
from memoranda_mcp.tools.memories import Outcome
from memoranda_mcp.tools.tool import MAX_CONTENT, Arguments, Report, Tool

Name = Annotated[str, Field(min_length=1, max_length=1000)]
Observation = Annotated[str, Field(max_length=MAX_CONTENT)]
Many = Field(max_length=1000)


class Entity(Arguments):
    """A thing or a person."""

    name: Annotated[Name, Field(description="The name of the entity")]
    entityType: Annotated[Name, Field(description="What it is: person, project, place, …")]  # noqa: N815  # theirs
    observations: Annotated[list[Observation], Field(max_length=1000, description="What is known about it")]


class Relation(Arguments):
    """How two entities relate."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    from_: Annotated[Name, Field(alias="from", description="The name of the entity where the relation starts")]
    to: Annotated[Name, Field(description="The name of the entity where the relation ends")]
    relationType: Annotated[Name, Field(description="The type of the relation, in active voice")]  # noqa: N815  # theirs

    def plain(self) -> dict[str, str]:
        """Return it as a dict."""
        return self.model_dump(by_alias=True)


class Entities(Arguments):
    """What create_entities takes."""

    entities: Annotated[list[Entity], Many]


class Relations(Arguments):
    """What create_relations and delete_relations take."""

    relations: Annotated[list[Relation], Many]


class Addition(Arguments):
    """What is new about an entity."""

    entityName: Annotated[Name, Field(description="The name of the entity to add to")]  # noqa: N815  # theirs
    contents: Annotated[list[Observation], Field(max_length=1000, description="The observations to add")]


class Additions(Arguments):
    """What add_observations takes."""

    observations: Annotated[list[Addition], Many]


class Deletion(Arguments):
    """What is no longer true of an entity."""

    entityName: Annotated[Name, Field(description="The name of the entity")]  # noqa: N815  # theirs
    observations: Annotated[list[Observation], Field(max_length=1000, description="The observations to delete")]


class Deletions(Arguments):
    """What delete_observations takes."""

    deletions: Annotated[list[Deletion], Many]


class EntityNames(Arguments):
    """What delete_entities takes."""

    entityNames: Annotated[list[Name], Field(max_length=1000, description="The names of the entities to delete")]  # noqa: N815


class Names(Arguments):
    """What open_nodes takes."""

    names: Annotated[list[Name], Field(max_length=1000, description="The names of the entities to show")]


class Query(Arguments):
    """What search_nodes takes."""

    query: Annotated[
        str, Field(max_length=10_000, description="Looked for in names, types and observations, in any case of letters")
    ]


class Nothing(Arguments):
    """What read_graph takes."""


class _Listed(Outcome):
    """A result whose text is the list in it, as clients of server-memory expect."""

    def text(self) -> str:
        return json.dumps(next(iter(self.model_dump(mode="json").values())), ensure_ascii=False, indent=2)


class CreatedEntities(_Listed):
    """The entities that are new."""

    entities: list[dict[str, Any]]


class CreatedRelations(_Listed):
    """The relations that are new."""

    relations: list[dict[str, str]]


class Added(Outcome):
    """What was added to an entity."""

    entityName: str  # noqa: N815  # theirs
    addedObservations: list[str]  # noqa: N815  # theirs


class AddedObservations(_Listed):
    """What was added."""

    results: list[Added]


class Done(Outcome):
    """That it is done."""

    success: bool
    message: str

    def text(self) -> str:
        return self.message


class Nodes(Outcome):
    """Entities, and the relations between them."""

    entities: list[dict[str, Any]]
    relations: list[dict[str, str]]

    def text(self) -> str:
        return json.dumps(self.model_dump(mode="json"), ensure_ascii=False, indent=2)


Work = Callable[[Graph, Any], Awaitable[Outcome]]


async def _create_entities(graph: Graph, given: Entities) -> Outcome:
    return CreatedEntities(entities=await graph.create_entities([one.model_dump() for one in given.entities]))


async def _create_relations(graph: Graph, given: Relations) -> Outcome:
    return CreatedRelations(relations=await graph.create_relations([one.plain() for one in given.relations]))


async def _add_observations(graph: Graph, given: Additions) -> Outcome:
    added = await graph.add_observations([(one.entityName, one.contents) for one in given.observations])
    return AddedObservations(results=[Added(entityName=name, addedObservations=new) for name, new in added])


async def _delete_entities(graph: Graph, given: EntityNames) -> Outcome:
    await graph.delete_entities(given.entityNames)
    return Done(success=True, message="Entities deleted successfully")


async def _delete_observations(graph: Graph, given: Deletions) -> Outcome:
    await graph.delete_observations([(one.entityName, one.observations) for one in given.deletions])
    return Done(success=True, message="Observations deleted successfully")


async def _delete_relations(graph: Graph, given: Relations) -> Outcome:
    await graph.delete_relations([one.plain() for one in given.relations])
    return Done(success=True, message="Relations deleted successfully")


async def _read_graph(graph: Graph, given: Nothing) -> Outcome:
    return Nodes(**await graph.read())


async def _search_nodes(graph: Graph, given: Query) -> Outcome:
    return Nodes(**await graph.search(given.query))


async def _open_nodes(graph: Graph, given: Names) -> Outcome:
    return Nodes(**await graph.open(given.names))


def _tool(
    name: str, description: str, arguments: type[Arguments], outcome: type[Outcome], work: Work, **hints: bool
) -> Tool:
    async def run(memory: ScopedMemory, given: Any, report: Report) -> Outcome:
        done = await work(Graph(memory.graph_store), given)
        if not hints.get("reads"):
            await memory.subscriptions.check()
        return done

    return Tool(name, name.replace("_", " ").capitalize(), description, arguments, outcome, run, **hints)


GRAPHING = (
    _tool(
        "create_entities",
        "Create entities in the knowledge graph: people, projects, places, with what is known about them. Those that "
        "exist already stay as they are.",
        Entities,
        CreatedEntities,
        _create_entities,
    ),
    _tool(
        "create_relations",
        "Create relations between entities in the knowledge graph, in active voice: Ada works_on the engine.",
        Relations,
        CreatedRelations,
        _create_relations,
    ),
    _tool(
        "add_observations",
        "Add observations to entities of the knowledge graph. If one of the entities does not exist, nothing is added.",
        Additions,
        AddedObservations,
        _add_observations,
    ),
    _tool(
        "delete_entities",
        "Delete entities from the knowledge graph, with all relations from and to them.",
        EntityNames,
        Done,
        _delete_entities,
        destroys=True,
        repeatable=True,
    ),
    _tool(
        "delete_observations",
        "Delete observations from entities of the knowledge graph.",
        Deletions,
        Done,
        _delete_observations,
        destroys=True,
        repeatable=True,
    ),
    _tool(
        "delete_relations",
        "Delete relations from the knowledge graph.",
        Relations,
        Done,
        _delete_relations,
        destroys=True,
        repeatable=True,
    ),
    _tool("read_graph", "Read the whole knowledge graph.", Nothing, Nodes, _read_graph, reads=True),
    _tool(
        "search_nodes",
        "Find entities of the knowledge graph by a piece of their names, types or observations, with their relations.",
        Query,
        Nodes,
        _search_nodes,
        reads=True,
    ),
    _tool(
        "open_nodes",
        "Show entities of the knowledge graph by their names, with their relations.",
        Names,
        Nodes,
        _open_nodes,
        reads=True,
    ),
)
