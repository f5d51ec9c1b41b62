"""Writers of the same items take turns: whatever they write, they never wait for each other in a circle."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import OtherModelError
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_postgres import PostgresMemoryStore

# Long, and other modules see most faults first: a sample runs by default.
pytestmark = pytest.mark.rare("postgres locking")

PARTITIONS = pytest.mark.rare("partitions")
MIXED_WRITES = Path(__file__).parent / "mixed_writes.py"


@contextlib.asynccontextmanager
async def no_deadlock(url: str) -> AsyncIterator[Any]:
    """Fail unless what is inside leaves a server that met no deadlock and did not break down."""
    witness = await asyncpg.connect(url)
    database = await witness.fetchval("SELECT current_database()")
    # Circles are found and counted at once; whoever merely waits for a turn does not notice.
    await witness.execute(f"ALTER DATABASE {database} SET deadlock_timeout = '20ms'")
    try:
        yield witness
        # A server that broke down counts anew and has disconnected the witness.
        await witness.execute("SELECT pg_stat_clear_snapshot()")
        counted = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        assert await witness.fetchval(counted) == 0
    finally:
        await witness.close()


async def finished(url: str, partitions: int, kind: str, seed: int) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(MIXED_WRITES), url, str(partitions), kind, str(seed), stderr=asyncio.subprocess.PIPE
    )
    _, complaints = await process.communicate()
    return process.returncode, complaints.decode()[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [0, pytest.param(4, marks=PARTITIONS)])
async def test_mixed_writes_of_two_processes_never_wait_in_a_circle(each_url: str, partitions: int) -> None:
    async with no_deadlock(each_url):
        outcomes = await asyncio.gather(*(finished(each_url, partitions, "plain", seed) for seed in (1, 2)))
        assert outcomes == [(0, "")] * 2


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [0, pytest.param(4, marks=PARTITIONS)])
async def test_mixed_writes_with_vectors_never_wait_in_a_circle(url: str, partitions: int) -> None:
    async with no_deadlock(url):
        outcomes = await asyncio.gather(*(finished(url, partitions, "embedded", seed) for seed in (3, 4)))
        assert outcomes == [(0, "")] * 2


@pytest.mark.parametrize("partitions", [0, pytest.param(2, marks=PARTITIONS)])
async def test_many_new_items_that_two_add_in_opposite_orders_are_never_waited_for_in_a_circle(
    url: str, partitions: int
) -> None:
    async with no_deadlock(url), PostgresMemoryStore(url, partitions=partitions) as store:
        for turn in range(3):
            items = [
                HumanMemory(id=f"{turn}-{at:03}", content="x", metadata=MemoryMetadata(session_id=f"{at % 7}"))
                for at in range(300)
            ]
            await asyncio.gather(*(store.add_many(order) for order in (items, items[::-1], items[1::2] + items[::2])))
            found = await store.get_many([item.id for item in items])
            assert [item.version for item in found] == [3] * len(items)


@pytest.mark.parametrize("partitions", [0, pytest.param(2, marks=PARTITIONS)])
async def test_a_change_of_the_model_never_waits_in_a_circle_with_reading_and_writing(
    url: str, partitions: int
) -> None:
    ended = asyncio.Event()
    scope = MemoryMetadata(user_id="u")

    async def busy(store: PostgresMemoryStore, number: int) -> None:
        while not ended.is_set():
            await store.add_many([HumanMemory(id=f"{number}-{at}", content="tea", metadata=scope) for at in range(3)])
            with contextlib.suppress(OtherModelError):
                await store.search(query="tea", metadata=scope, mode="semantic")
            await store.clear(metadata=scope)

    async with (
        no_deadlock(url),
        PostgresMemoryStore(url, partitions=partitions, embeddings=HashingEmbeddings(16)) as one,
        PostgresMemoryStore(url, partitions=partitions, embeddings=HashingEmbeddings(32)) as other,
    ):
        tasks = [asyncio.create_task(busy(one, number)) for number in range(6)]
        for _ in range(8):
            await other.reindex()
            await one.reindex()
        ended.set()
        await asyncio.gather(*tasks)


@pytest.mark.parametrize("cached", [pytest.param(0, marks=pytest.mark.rare("no prepared statements")), 100])
async def test_a_scope_of_a_partitioned_table_is_removed_whole_however_large_it_is(url: str, cached: int) -> None:
    many, scope = 12_000, MemoryMetadata(user_id="u")
    async with PostgresMemoryStore(url, partitions=2, statement_cache_size=cached, timeout=300) as store:
        await store.add(HumanMemory(content="somebody else's", metadata=MemoryMetadata(user_id="v")))
        await store.add_many([HumanMemory(content="x", metadata=scope) for _ in range(many)])
        assert await store.clear(metadata=scope) == many
        assert await store.restore(metadata=scope) == many
        assert await store.purge(metadata=scope) == many
        assert await store.count(include_deleted=True) == 1
