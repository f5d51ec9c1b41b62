"""``memoranda mcp import``: import the file of the reference server ``server-memory``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from memoranda.errors import InputError
from memoranda_mcp.graph import Graph
from memoranda_mcp.tools.graphing import Entity, Relation

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
