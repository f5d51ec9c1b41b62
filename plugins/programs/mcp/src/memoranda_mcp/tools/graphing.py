"""The nine tools of a knowledge graph, as those of the server ``server-memory``, and importing its file."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError

from memoranda.errors import InputError
from memoranda_mcp.graph import Graph
from memoranda_mcp.memory import Outcome, ScopedMemory
from memoranda_mcp.tools.tool import MAX_CONTENT, Arguments, Report, Tool, tool

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
        return self.model_dump(by_alias=True)


class Addition(Arguments):
    """What is new about an entity."""

    entityName: Annotated[Name, Field(description="The name of the entity to add to")]  # noqa: N815  # theirs
    contents: Annotated[list[Observation], Field(max_length=1000, description="The observations to add")]


class Deletion(Arguments):
    """What is no longer true of an entity."""

    entityName: Annotated[Name, Field(description="The name of the entity")]  # noqa: N815  # theirs
    observations: Annotated[list[Observation], Field(max_length=1000, description="The observations to delete")]


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


Work = Callable[..., Coroutine[Any, Any, Outcome]]


def graph_tool(**hints: Any) -> Callable[[Work], Tool]:
    """Make a tool of a function on a graph, as :func:`tool` does."""

    def made(work: Work) -> Tool:
        @functools.wraps(work)
        async def run(memory: ScopedMemory, report: Report, **given: Any) -> Outcome:
            done = await work(Graph(memory.graph_store), **given)
            if not hints.get("reads"):
                await memory.subscriptions.check()
            return done

        return tool(work.__name__.replace("_", " ").capitalize(), **hints)(run)

    return made


@graph_tool()
async def create_entities(graph: Graph, *, entities: Annotated[list[Entity], Many]) -> CreatedEntities:
    """Create entities in the knowledge graph: people, projects, places, with what is known about them.

    Those that exist already stay as they are.
    """
    return CreatedEntities(entities=await graph.create_entities([one.model_dump() for one in entities]))


@graph_tool()
async def create_relations(graph: Graph, *, relations: Annotated[list[Relation], Many]) -> CreatedRelations:
    """Create relations between entities in the knowledge graph, in active voice: Ada works_on the engine."""
    return CreatedRelations(relations=await graph.create_relations([one.plain() for one in relations]))


@graph_tool()
async def add_observations(graph: Graph, *, observations: Annotated[list[Addition], Many]) -> AddedObservations:
    """Add observations to entities of the knowledge graph.

    If one of the entities does not exist, nothing is added.
    """
    added = await graph.add_observations([(one.entityName, one.contents) for one in observations])
    return AddedObservations(results=[Added(entityName=name, addedObservations=new) for name, new in added])


@graph_tool(destroys=True, repeatable=True)
async def delete_entities(
    graph: Graph,
    *,
    entityNames: Annotated[list[Name], Field(max_length=1000, description="The names of the entities to delete")],  # noqa: N803  # theirs
) -> Done:
    """Delete entities from the knowledge graph, with all relations from and to them."""
    await graph.delete_entities(entityNames)
    return Done(success=True, message="Entities deleted successfully")


@graph_tool(destroys=True, repeatable=True)
async def delete_observations(graph: Graph, *, deletions: Annotated[list[Deletion], Many]) -> Done:
    """Delete observations from entities of the knowledge graph."""
    await graph.delete_observations([(one.entityName, one.observations) for one in deletions])
    return Done(success=True, message="Observations deleted successfully")


@graph_tool(destroys=True, repeatable=True)
async def delete_relations(graph: Graph, *, relations: Annotated[list[Relation], Many]) -> Done:
    """Delete relations from the knowledge graph."""
    await graph.delete_relations([one.plain() for one in relations])
    return Done(success=True, message="Relations deleted successfully")


@graph_tool(reads=True)
async def read_graph(graph: Graph) -> Nodes:
    """Read the whole knowledge graph."""
    return Nodes(**await graph.read())


@graph_tool(reads=True)
async def search_nodes(
    graph: Graph,
    *,
    query: Annotated[
        str, Field(max_length=10_000, description="Looked for in names, types and observations, in any case of letters")
    ],
) -> Nodes:
    """Find entities of the knowledge graph by a piece of their names, types or observations, with their relations."""
    return Nodes(**await graph.search(query))


@graph_tool(reads=True)
async def open_nodes(
    graph: Graph,
    *,
    names: Annotated[list[Name], Field(max_length=1000, description="The names of the entities to show")],
) -> Nodes:
    """Show entities of the knowledge graph by their names, with their relations."""
    return Nodes(**await graph.open(names))


GRAPHING = (
    create_entities,
    create_relations,
    add_observations,
    delete_entities,
    delete_observations,
    delete_relations,
    read_graph,
    search_nodes,
    open_nodes,
)

BATCH = 500


@dataclass(slots=True)
class Imported:
    """How much a file held, and how much of it is new."""

    entities: int = 0
    relations: int = 0
    new_entities: int = 0
    new_observations: int = 0
    new_relations: int = 0

    def __str__(self) -> str:
        return (
            f"{self.entities} entities and {self.relations} relations read; added {self.new_entities} entities, "
            f"{self.new_observations} further observations and {self.new_relations} relations."
        )


def parsed(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Return the entities and relations of a file. Raises InputError, naming the line, for anything else."""
    entities: list[dict[str, Any]] = []
    relations: list[dict[str, str]] = []
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.", field="file") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text.", field="file") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            _take(line, f"{path}, line {number}", entities, relations)
    return entities, relations


def _take(line: str, place: str, entities: list[dict[str, Any]], relations: list[dict[str, str]]) -> None:
    try:
        found = json.loads(line)
        kind = found.pop("type")
        if kind == "entity":
            entities.append(Entity.model_validate(found).model_dump())
        elif kind == "relation":
            relations.append(Relation.model_validate(found).plain())
        else:
            raise KeyError(kind)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        fields = ", ".join(str(part["loc"][0]) for part in error.errors()) if isinstance(error, ValidationError) else ""
        wrong = f" (look at {fields})" if fields else ""
        raise InputError(
            f"{place}: this is neither an entity nor a relation of server-memory{wrong}. Nothing was imported. "
            f"Conversations and exports are read by 'memoranda import'.",
            field="file",
        ) from None


async def take_over(graph: Graph, entities: list[dict[str, Any]], relations: list[dict[str, str]]) -> Imported:
    """Put a file's entities and relations into a graph. Run again, it adds nothing twice."""
    done = Imported(len(entities), len(relations))
    for batch in _batches(entities):
        new = await graph.create_entities(batch)
        done.new_entities += len(new)
        additions = await graph.add_observations([(entity["name"], entity["observations"]) for entity in batch])
        done.new_observations += sum(len(added) for _, added in additions)
    for some in _batches(relations):
        done.new_relations += len(await graph.create_relations(some))
    return done


def _batches(things: list[Any]) -> Iterable[list[Any]]:
    return (things[start : start + BATCH] for start in range(0, len(things), BATCH))
