"""A knowledge graph in a store: entities with observations, and relations between them, each an item of its own.

An item's id is made from the scope and from what makes an entity or a relation the same, its name or its three parts.
Every change is a compare-and-set of just the items that it touches. So processes that change the graph at the same time
lose nothing: the one that comes second reads again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata, now_text
from memoranda.store.backend import fold
from memoranda_messages.sessions import DerivedIds, retry_conflicts

if TYPE_CHECKING:
    from memoranda.store import ScopedStore

Entity = dict[str, Any]
Relation = dict[str, str]

GRAPH_KIND = "graph"
"""The ``memory_type`` of the graph's items, which only the graph's tools change."""

PLACE = "graph"
"""The last element of the graph's namespace."""


class Graph:
    """The graph of one scope."""

    def __init__(self, store: ScopedStore) -> None:
        self._store = store
        self._namespace = (*store.scope.namespace, PLACE)
        self._ids = DerivedIds(store, PLACE)

    async def create_entities(self, entities: Sequence[Entity]) -> list[Entity]:
        """Store the entities that are new, and return them; existing ones stay as they are."""
        wanted = {entity["name"]: entity for entity in reversed(entities)}

        async def work() -> list[Entity]:
            there = {item.id for item in await self._store.get_many(map(self._entity_id, wanted))}
            new = [wanted[name] for name in reversed(wanted) if self._entity_id(name) not in there]
            await self._store.update_many([self._entity_item(entity) for entity in new])
            return [{**entity, "observations": _each_once(entity["observations"])} for entity in new]

        return await retry_conflicts(work)

    async def create_relations(self, relations: Sequence[Relation]) -> list[Relation]:
        wanted = {self._relation_id(relation): relation for relation in relations}

        async def work() -> list[Relation]:
            there = {item.id for item in await self._store.get_many(list(wanted))}
            new = {item_id: relation for item_id, relation in wanted.items() if item_id not in there}
            await self._store.update_many([self._relation_item(relation) for relation in new.values()])
            return list(new.values())

        return await retry_conflicts(work)

    async def add_observations(self, additions: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[str, list[str]]]:
        """Add new observations to entities, and return what was added to each.

        Raises InputError, and adds nothing at all, if one of the entities is not there.
        """

        async def work() -> list[tuple[str, list[str]]]:
            items = await self._entities(name for name, _ in additions)
            observed = {name: list(item.metadata.extra["observations"]) for name, item in items.items()}
            added: list[tuple[str, list[str]]] = []
            for name, contents in additions:
                if name not in observed:
                    raise InputError(f"Entity with name {name[:200]} not found. Nothing was added; create it first.")
                new = [content for content in _each_once(contents) if content not in observed[name]]
                observed[name] += new
                added.append((name, new))
            await self._store.update_many(self._changed(items, observed))
            return added

        return await retry_conflicts(work)

    async def delete_observations(self, deletions: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Remove observations. Entities and observations that do not exist are ignored."""

        async def work() -> None:
            items = await self._entities(name for name, _ in deletions)
            observed = {name: list(item.metadata.extra["observations"]) for name, item in items.items()}
            for name, gone in deletions:
                if name in observed:
                    observed[name] = [content for content in observed[name] if content not in gone]
            await self._store.update_many(self._changed(items, observed))

        await retry_conflicts(work)

    async def delete_entities(self, names: Sequence[str]) -> None:
        gone = set(names)
        relations = [item for item in await self._items("relation") if not gone.isdisjoint(_ends(item))]
        await self._store.apply(deletes=[*map(self._entity_id, gone), *(item.id for item in relations)])

    async def delete_relations(self, relations: Sequence[Relation]) -> None:
        await self._store.apply(deletes=[self._relation_id(relation) for relation in relations])

    async def read(self) -> dict[str, list[Any]]:
        kinds: dict[str, list[MemoryItem]] = {"entity": [], "relation": []}
        for item in await self._items("entity", "relation"):
            kinds[item.metadata.extra["graph"]].append(item)
        return _as_graph(kinds["entity"], kinds["relation"])

    async def search(self, query: str) -> dict[str, list[Any]]:
        """Return the entities whose name, type or observations contain the query, and all relations of theirs."""
        folded = fold(query)
        return await self._with_relations(
            [item for item in await self._items("entity") if any(folded in fold(text) for text in _texts(item))]
        )

    async def open(self, names: Iterable[str]) -> dict[str, list[Any]]:
        found = (await self._entities(names)).values()
        return await self._with_relations(sorted(found, key=lambda item: item.created_at))

    async def _with_relations(self, entities: list[MemoryItem]) -> dict[str, list[Any]]:
        names = {item.metadata.extra["name"] for item in entities}
        relations = await self._items("relation") if names else []
        return _as_graph(entities, [item for item in relations if not names.isdisjoint(_ends(item))])

    async def _entities(self, names: Iterable[str]) -> dict[str, MemoryItem]:
        found = await self._store.get_many(map(self._entity_id, names))
        return {item.metadata.extra["name"]: item for item in found}

    async def _items(self, *kinds: str) -> list[MemoryItem]:
        metadata = MemoryMetadata(namespace=self._namespace)
        of_kinds = {"extra.graph": {"$in": list(kinds)}}
        wanted = self._store.scan(metadata=metadata, memory_type=GRAPH_KIND, where=of_kinds, order="added")
        return [item async for item in wanted]

    def _changed(self, items: Mapping[str, MemoryItem], observed: Mapping[str, list[str]]) -> list[MemoryItem]:
        changed = []
        for name, item in items.items():
            extra = item.metadata.extra
            if extra["observations"] != observed[name]:
                entity = {"name": name, "entityType": extra["type"], "observations": observed[name]}
                new = self._entity_item(entity)
                changed.append(
                    item.model_copy(update={"content": new.content, "metadata": new.metadata, "updated_at": now_text()})
                )
        return changed

    def _entity_item(self, entity: Entity) -> MemoryItem:
        observations = _each_once(entity["observations"])
        content = "\n".join(
            [f"{entity['name']} ({entity['entityType']})", *(f"- {observation}" for observation in observations)]
        )
        extra = {"name": entity["name"], "type": entity["entityType"], "observations": observations}
        return self._item(self._entity_id(entity["name"]), content, {"graph": "entity", **extra})

    def _relation_item(self, relation: Relation) -> MemoryItem:
        content = f"{relation['from']} {relation['relationType']} {relation['to']}"
        extra = {"from": relation["from"], "to": relation["to"], "type": relation["relationType"]}
        return self._item(self._relation_id(relation), content, {"graph": "relation", **extra})

    def _item(self, item_id: str, content: str, extra: dict[str, Any]) -> MemoryItem:
        metadata = MemoryMetadata(namespace=self._namespace, extra=extra)
        return MemoryItem(id=item_id, content=content, memory_type=GRAPH_KIND, metadata=metadata)

    def _entity_id(self, name: str) -> str:
        return self._id("entity", name)

    def _relation_id(self, relation: Relation) -> str:
        return self._id("relation", relation["from"], relation["relationType"], relation["to"])

    def _id(self, kind: str, *parts: str) -> str:
        return f"graph-{kind}-{self._ids.id_of(self._store.scope.namespace, *parts)}"


def _each_once(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _ends(item: MemoryItem) -> set[str]:
    return {item.metadata.extra["from"], item.metadata.extra["to"]}


def _texts(item: MemoryItem) -> list[str]:
    extra = item.metadata.extra
    return [extra["name"], extra["type"], *extra["observations"]]


def _as_graph(entities: Iterable[MemoryItem], relations: Iterable[MemoryItem]) -> dict[str, list[Any]]:
    kept = [item.metadata.extra for item in entities]
    between = [item.metadata.extra for item in relations]
    return {
        "entities": [
            {"name": e["name"], "entityType": e["type"], "observations": list(e["observations"])} for e in kept
        ],
        "relations": [{"from": r["from"], "to": r["to"], "relationType": r["type"]} for r in between],
    }
