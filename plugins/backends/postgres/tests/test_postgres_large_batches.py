"""Batches so large that their rows are made while the server stores those before."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import asyncpg
import pytest
import pytest_asyncio

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, ToolMemory
from memoranda.errors import IdConflictError
from memoranda_postgres import PostgresMemoryStore
from memoranda_postgres.dialect import PostgresDialect

SIZE = 600
ADA = MemoryMetadata(user_id="ada")


@pytest_asyncio.fixture(params=[0, pytest.param(2, marks=pytest.mark.rare("partitions"))])
async def store(shared_url: str, schema: str, request: pytest.FixtureRequest) -> AsyncIterator[PostgresMemoryStore]:
    async with PostgresMemoryStore(shared_url, schema=schema, partitions=request.param) as store:
        yield store


def made(*, content: str = "x", scope: MemoryMetadata = ADA) -> list[HumanMemory]:
    return [HumanMemory(id=f"{at:03}", content=f"{content} {at}", metadata=scope) for at in range(SIZE)]


async def test_a_large_batch_is_found_by_its_words_at_once(store: PostgresMemoryStore) -> None:
    items = [
        *made(),
        HumanMemory(content="a xylophone", metadata=ADA),
        *(HumanMemory(content="y") for _ in range(SIZE)),
    ]
    await store.add_many(items)
    for scope in (ADA, None):
        (best, *_) = await store.search_ranked(query="xylophones", metadata=scope, mode="text", limit=3)
        assert best.item.id == items[SIZE].id


async def test_the_server_knows_how_large_a_table_has_become(
    store: PostgresMemoryStore, shared_url: str, schema: str
) -> None:
    """Its own look comes up to a minute later."""
    await store.add_many([HumanMemory(content=f"note {number}", metadata=ADA) for number in range(1_200)])
    connection = await asyncpg.connect(shared_url)
    text = "SELECT reltuples FROM pg_class WHERE oid = to_regclass($1::text)"
    try:
        known = await connection.fetchval(text, PostgresDialect(schema).table)
    finally:
        await connection.close()
    assert known == 1_200


async def test_a_large_batch_meets_an_id_that_is_there(store: PostgresMemoryStore) -> None:
    await store.add(HumanMemory(id="301", content="before", metadata=ADA))
    await store.add_many(made(content="after"))
    found = await store.get_many([item.id for item in made()])
    assert [item.version for item in found] == [2 if item.id == "301" else 1 for item in found]
    assert [item.content for item in found] == [f"after {at}" for at in range(SIZE)]


async def test_a_large_batch_that_meets_another_users_id_is_refused_whole(store: PostgresMemoryStore) -> None:
    await store.add(HumanMemory(id="301", content="hers", metadata=ADA))
    with pytest.raises(IdConflictError):
        await store.add_many(made(scope=MemoryMetadata(user_id="eve")))
    assert [item.content for item in await store.search()] == ["hers"]


async def test_a_large_batch_may_have_an_id_twice(store: PostgresMemoryStore) -> None:
    await store.add_many([*made(), HumanMemory(id="301", content="again", metadata=ADA)])
    found = await store.get("301")
    assert found is not None
    assert (found.content, found.version) == ("again", 2)
    assert await store.count() == SIZE


async def test_large_batches_that_two_add_in_opposite_orders_are_both_stored(store: PostgresMemoryStore) -> None:
    items = made()
    await asyncio.gather(store.add_many(items), store.add_many(items[::-1]))
    assert [item.version for item in await store.get_many([item.id for item in items])] == [2] * SIZE


async def test_a_large_batch_keeps_its_order_and_its_times_to_the_ends_of_the_calendar(
    store: PostgresMemoryStore,
) -> None:
    first, last = "0001-01-01T00:00:00.000000+00:00", "9999-12-31T23:59:59.999999+00:00"
    items = made()
    for ends in (items[:5], items[-5:]):
        for item, time in zip(ends, (last, last, first, first, first), strict=True):
            item.created_at = time
    await store.add_many(items)
    assert [item.id async for item in store.scan(order="added")] == [item.id for item in items]
    scanned = [item.id async for item in store.scan()]
    assert scanned == [item.id for item in sorted(items, key=lambda item: item.created_at)]
    assert len(await store.search(since=first, until="0001-01-01T00:00:00.000001+00:00")) == 6


WORDS = ["tea", "Straße", "İstanbul", "東京", "🦉", "2023-05-08", "running", "\ta\nb\\", "'\"", "x" * 3_000]
EXTRAS: list[dict[str, Any]] = [{}, {}, {"z": 1, "a": -0.0}, {"deep": [{"b": None}, 1e23]}]


def any_item(randomly: random.Random, number: int) -> MemoryItem:
    """Return an item with something of everything that a row can hold."""
    scope = MemoryMetadata(
        user_id=randomly.choice([None, "ada", "ö"]),
        session_id=randomly.choice([None, "s"]),
        task_id=randomly.choice([None, None, "t"]),
        agent_id=randomly.choice([None, None, "a"]),
        namespace=randomly.choice([(), (), ("one", "two")]),
        extra=randomly.choice(EXTRAS),
    )
    created = randomly.choice(["1969-12-31T23:59:59.999999+00:00", "2000-01-01T00:00:00.000000+00:00", None])
    times = {} if created is None else {"created_at": created}
    if randomly.random() < 0.3:
        times |= {"expires_at": "2999-01-01T00:00:00.000000+00:00"}
    content = " ".join(randomly.choices(WORDS, k=randomly.randint(0, 5)))
    common: dict[str, Any] = {"id": f"{number:03}", "content": content, "metadata": scope, **times}
    kind = randomly.randrange(3)
    if kind == 0:
        return HumanMemory(name=randomly.choice([None, "Ada"]), **common)
    if kind == 1:
        calls = [{"id": "c", "name": "look", "arguments": {}}] if randomly.random() < 0.5 else []
        return AIMemory(tool_calls=calls, **common)
    return ToolMemory(tool_call_id="c", is_error=True, **common)


@pytest.mark.parametrize("partitions", [0, pytest.param(2, marks=pytest.mark.rare("partitions"))])
async def test_a_row_is_the_same_however_it_was_written(wheel: Any, partitions: int) -> None:
    items = [any_item(random.Random(number), number) for number in range(SIZE)]
    found = []
    with wheel.database() as large, wheel.database() as small:
        for url in (large, small):
            async with PostgresMemoryStore(url, partitions=partitions) as store:
                if url == large:
                    await store.add_many(items)
                else:
                    await asyncio.gather(*(store.add(item) for item in items))
            connection = await asyncpg.connect(url)
            rows = await connection.fetch("SELECT * FROM memory_items ORDER BY id")
            await connection.close()
            found.append(
                [{name: value for name, value in row.items() if name not in ("token", "added")} for row in rows]
            )
    assert found[0] == found[1]


class Timed(asyncpg.Connection):
    """A connection that remembers how long its statements were allowed to take."""

    allowed: ClassVar[dict[str, float]] = {}

    async def fetch(self, query: str, *args: Any, timeout: Any = None, **kwargs: Any) -> Any:
        self.allowed[query] = max(timeout or 0.0, self.allowed.get(query, 0.0))
        return await super().fetch(query, *args, timeout=timeout, **kwargs)


@pytest.mark.parametrize("partitions", [0, pytest.param(2, marks=pytest.mark.rare("partitions"))])
async def test_a_call_on_many_items_may_take_longer_than_one_on_few(
    shared_url: str, schema: str, partitions: int
) -> None:
    async with (
        asyncpg.create_pool(shared_url, min_size=1, max_size=2, connection_class=Timed) as pool,
        PostgresMemoryStore(pool=pool, schema=schema, partitions=partitions, timeout=300) as store,
    ):
        await store.add_many(made())
        for change, arguments in (
            (store.clear, {}),
            (store.restore, {"metadata": ADA}),
            (store.purge, {"metadata": ADA}),
        ):
            Timed.allowed.clear()
            assert await change(**arguments) == SIZE
            assert max(Timed.allowed.values()) == 300 + SIZE / 100
