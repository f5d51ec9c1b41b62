"""``memoranda doctor`` and the health page judge one state of a store, whatever others write while they read."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import memoranda
from memoranda import HumanMemory, MemoryItem, MemoryMetadata, Store
from memoranda.store import InMemoryStore, one_state
from memoranda_cli.doctor import item_findings
from memoranda_encrypt import KeyRing, LocalMasterKey
from memoranda_inspector.reading import HealthCheck
from servers import postgres_server, redis_server

COUNT = 1_200
"""More than any store reads in one page."""

ADA = MemoryMetadata(user_id="ada")
ENGINES = ("memory", "sqlite", "postgres", "redis", "encrypted", "revisions")
IN_ONE_STATE = ("sqlite", "postgres", "encrypted", "revisions")


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Any]]:
    with ExitStack() as stack:
        yield {"postgres": stack.enter_context(postgres_server()), "redis": stack.enter_context(redis_server())}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture
async def stores(engine: str, servers: dict[str, Any], tmp_path: Path) -> AsyncIterator[tuple[Store, Store]]:
    """A store with items, and another that writes to the same place."""
    options: dict[str, Any] = {}
    async with AsyncExitStack() as stack:
        if engine == "postgres":
            url = stack.enter_context(servers["postgres"].database())
        elif engine == "redis":
            url = f"{servers['redis'].url}?namespace={uuid.uuid4().hex}"
        elif engine == "memory":
            url = "memory://"
        else:
            url = f"sqlite:///{tmp_path / 'agent.db'}"
            if engine == "revisions":
                options = {"revisions": True}
            elif engine == "encrypted":
                LocalMasterKey.make_file(tmp_path / "master.key")
                options = {"encrypt": KeyRing(LocalMasterKey.from_file(tmp_path / "master.key"), tmp_path / "keys")}
        store = await stack.enter_async_context(memoranda.open(url, **options))
        other = store if engine == "memory" else await stack.enter_async_context(memoranda.open(url, **options))
        await store.add_many([said(number) for number in range(COUNT)])
        yield store, other


def said(number: int, **fields: Any) -> MemoryItem:
    return HumanMemory(id=f"{number:05}", content=f"turn {number}", metadata=ADA, **fields)


def write_while_reading(monkeypatch: pytest.MonkeyPatch, store: Store, other: Store) -> None:
    """Let the other store add items once a scan has begun, and remove them at its end."""
    scan = store.scan
    later = [said(COUNT + number, created_at="2199-01-01T00:00:00") for number in range(50)]

    async def disturbed(**asked: Any) -> AsyncGenerator[MemoryItem, None]:
        begun = False
        async for item in scan(**asked):
            if not begun:
                begun = True
                await other.add_many(later)
            yield item
        await other.apply(deletes=[item.id for item in later], purge=True)

    monkeypatch.setattr(store, "scan", disturbed)


async def test_what_is_written_while_the_doctor_reads_is_no_fault(
    engine: str, stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = stores
    write_while_reading(monkeypatch, store, other)

    items, archive = await item_findings(store)

    assert (items.ok, archive.ok) == (True, True)
    if engine in IN_ONE_STATE:
        assert items.detail == f"{COUNT:,} items read, {COUNT:,} counted"


async def test_what_is_written_while_the_health_page_reads_is_no_fault(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = stores
    write_while_reading(monkeypatch, store, other)
    check = HealthCheck(store)

    await check.run()

    found = {finding.name: finding for finding in check.findings}
    assert found["items"].ok
    assert found["archive"].ok


async def test_a_compaction_that_is_undone_meanwhile_leaves_no_orphans(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = stores
    scan = store.scan
    await other.add(said(7, archived_by="summary"))
    await other.add(MemoryItem(id="summary", memory_type="summary", content="so far", metadata=ADA))

    async def disturbed(**asked: Any) -> AsyncGenerator[MemoryItem, None]:
        read = [item async for item in scan(**asked)]
        await other.purge("summary")
        await other.add(said(7))
        for item in read:
            if item.id != "summary":  # As if it had been read after it was gone.
                yield item

    monkeypatch.setattr(store, "scan", disturbed)

    assert (await item_findings(store))[-1].ok


async def test_reads_in_one_state_see_nothing_that_comes_later(engine: str, stores: tuple[Store, Store]) -> None:
    store, other = stores
    async with one_state(store) as certain:
        assert certain is (engine in IN_ONE_STATE)
        before = await store.count()
        await other.add(said(COUNT))
        assert await other.count() == COUNT + 1
        if certain:
            assert await store.count() == before == COUNT
            assert await store.get(f"{COUNT:05}") is None
            assert await store.search(query=f"turn {COUNT}", metadata=ADA, mode="substring") == []
            assert [item async for item in store.scoped(user_id="ada").scan(where={"content": f"turn {COUNT}"})] == []
    assert await store.count() == COUNT + 1


class Forgetful(InMemoryStore):
    """A store that counts an item which it cannot find."""

    async def count(self, **asked: Any) -> int:
        return await super().count(**asked) + 1


async def test_a_number_that_differs_while_nobody_writes_is_a_fault() -> None:
    async with Forgetful() as store:
        await store.add_many([said(number) for number in range(5)])

        items, _ = await item_findings(store)

    assert (items.ok, items.detail) == (False, "5 items read, 6 counted")
    assert "--repair" in items.remedy
