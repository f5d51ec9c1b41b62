"""Whatever is done to both, the SQLite store answers as the in-memory store does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, MemoryStatus
from memoranda.errors import MemoryError
from memoranda.store import InMemoryStore, Store
from memoranda_sqlite import SQLiteMemoryStore

names = st.sampled_from([None, "", "a", "ß"])
values = st.sampled_from([None, True, 1, 1.0, "1", [1, {"x": None}], {"y": 2}, "ü"])
extras = st.dictionaries(st.sampled_from(["k", 'q"', "$.x", "é"]), values, max_size=2)
metadata = st.builds(MemoryMetadata, user_id=names, session_id=names, task_id=names, agent_id=names, extra=extras)
filters = st.one_of(st.none(), metadata)
ids = st.sampled_from(["one", "two", "three", "four"])
contents = st.sampled_from(["", "Tea", "STRASSE", "straße 100%", "a_b", "Жук\n", "😀"])
moments = st.sampled_from(["2024-01-01", "2024-01-02T10:00:00Z", "2023-12-31T23:59:59+02:00"])
items = st.builds(
    lambda kind, **fields: kind(**fields),
    st.sampled_from([MemoryItem, HumanMemory, AIMemory]),
    id=ids,
    content=contents,
    status=st.sampled_from(list(MemoryStatus)),
    metadata=metadata,
    created_at=moments,
    updated_at=moments,
    version=st.integers(0, 3),
    name=names,
    archived_by=st.sampled_from([None, None, "s"]),
)
operations = st.one_of(
    st.tuples(st.just("add"), items, filters),
    st.tuples(st.just("add_many"), st.lists(items, max_size=4), filters),
    st.tuples(st.just("update"), items, filters),
    st.tuples(st.just("update_many"), st.lists(items, max_size=3), filters),
    st.tuples(st.just("delete"), ids, filters),
    st.tuples(st.just("restore"), st.one_of(st.none(), ids), filters),
    st.tuples(st.just("purge"), st.one_of(st.none(), ids), filters, st.booleans()),
    st.tuples(st.just("clear"), filters),
    st.tuples(st.just("fill")),
)
questions = st.fixed_dictionaries(
    {},
    optional={
        "query": st.sampled_from(["", "t", "EA", "strasse", "ß", "%", "_", "жук", "0%"]),
        "metadata": filters,
        "memory_type": st.sampled_from([None, "human", "ai"]),
        "status": st.sampled_from([None, *MemoryStatus]),
        "limit": st.integers(0, 300),
    },
)


async def done(store: Store, operation: tuple[Any, ...]) -> Any:
    """Return what the operation gives, or the type of the error it raises."""
    name, *rest = operation
    try:
        match name:
            case "add" | "add_many" | "update" | "update_many":
                return await getattr(store, name)(rest[0], within=rest[1])
            case "delete" | "restore":
                return await getattr(store, name)(rest[0], metadata=rest[1])
            case "purge":
                return await store.purge(rest[0], metadata=rest[1], deleted_only=rest[2])
            case "clear":
                return await store.clear(metadata=rest[0])
            case _:
                return await store.fill_indexes() if isinstance(store, SQLiteMemoryStore) else None
    except MemoryError as error:
        return type(error)


async def everything(store: Store, question: dict[str, Any]) -> Any:
    """Return what the store shows in every way."""
    return (
        await store.search(**question),
        [item async for item in store.scan()],
        [item async for item in store.scan(include_deleted=True, metadata=question.get("metadata"))],
        [await store.get(item_id) for item_id in ("one", "two", "three", "four")],
        await store.count(),
        await store.count(include_deleted=True),
        await store.count(metadata=question.get("metadata")),
        [item.id for item in await store.search(query="tea strasse", mode="text", metadata=question.get("metadata"))],
    )


@pytest.mark.rare
@settings(max_examples=3 * settings.default.max_examples // 2, deadline=None)
@given(st.lists(st.tuples(operations, questions), min_size=1, max_size=12))
def test_both_stores_answer_alike(steps: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> None:
    async def run() -> None:
        reference = InMemoryStore()
        async with SQLiteMemoryStore() as store:
            for operation, question in steps:
                assert await done(store, operation) == await done(reference, operation)
                assert await everything(store, question) == await everything(reference, question)

    asyncio.run(run())
