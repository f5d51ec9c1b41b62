"""A cluster of three masters with replicas, while slots are moved and a master dies."""

from __future__ import annotations

import asyncio
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from urllib.parse import quote

import pytest
import pytest_asyncio

from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import StoreUnavailableError
from memoranda_redis import RedisMemoryStore, ShortTermMemoryManager
from memoranda_testing import Reopen, StoreConformance
from servers import RedisCluster, ServerError, redis_cluster
from servers.writers import History, Writers, broken_promises


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    with redis_cluster(3, replicas=1) as running:
        yield running


@pytest.fixture
def namespace() -> str:
    return uuid.uuid4().hex


def slot_of(cluster: RedisCluster, namespace: str) -> int:
    return cluster.slot_of(f"memoranda:{{{namespace}}}:")


def move_on(cluster: RedisCluster, slot: int) -> None:
    """Move a slot to the master behind the one that holds it."""
    while True:
        masters = cluster.masters()
        try:
            following = masters.index(cluster.master_of(slot)) + 1
            return cluster.move_slot(slot, masters[following % len(masters)])
        except (OSError, ServerError, ValueError):
            # On a busy machine a master may seem lost, and its replica takes over: the move begins again between those
            # that are masters then. It fails for good where the others' places do not change.
            cluster.wait_until_whole()
            if cluster.masters() == masters:
                raise


@contextmanager
def slots_moving(cluster: RedisCluster, slot: int) -> Iterator[list[int]]:
    """Move a slot from master to master for the block; yields how often, as it goes."""
    ended = threading.Event()
    moved = [0]
    errors: list[Exception] = []

    def move() -> None:
        try:
            while not ended.is_set():
                move_on(cluster, slot)
                moved[0] += 1
                ended.wait(0.1)
        except Exception as error:  # noqa: BLE001  # raised again below
            errors.append(error)

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield moved
    finally:
        ended.set()
        thread.join()
    if errors:
        raise errors[0]


async def in_the_end(call: Callable[[], Awaitable[None]]) -> None:
    """Make a call until it succeeds: on a busy machine its timeout may be too short at first."""
    async with asyncio.timeout(240):
        while True:
            try:
                return await call()
            except StoreUnavailableError:
                await asyncio.sleep(0.1)


def rounds(request: pytest.FixtureRequest, sample: int, all_of_them: int) -> int:
    return all_of_them if request.config.getoption("everything", default=False) else sample


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_no_promise_is_broken_while_the_slot_of_a_store_is_moved(
    cluster: RedisCluster, namespace: str, request: pytest.FixtureRequest
) -> None:
    wanted = rounds(request, 3, 40)
    async with (
        RedisMemoryStore(cluster.url, namespace=namespace, timeout=240) as one,
        RedisMemoryStore(cluster.url, namespace=namespace, timeout=240) as other,
    ):
        writers = Writers([one, other])
        with slots_moving(cluster, slot_of(cluster, namespace)) as moved:
            async with writers.at_work():
                while moved[0] < wanted or len(writers.history.calls) < 10 * wanted:
                    await asyncio.sleep(0.05)
        counts = {path: dict(counts) for path, counts in writers.history.counts().items()}
        sys.stdout.write(f"{moved[0]} moves of the slot, calls: {counts}\n")
        assert await broken_promises(writers.history, one) == []


@pytest.mark.slow
async def test_no_interaction_is_lost_or_doubled_while_the_slot_of_an_agent_is_moved(
    cluster: RedisCluster, namespace: str
) -> None:
    async with ShortTermMemoryManager(cluster.url, namespace, timeout=240) as memory:
        with slots_moving(cluster, cluster.slot_of(f"agent:{{{namespace}}}:episodic:index")) as moved:
            number = 0
            while moved[0] < 3:
                await asyncio.gather(*(memory.add_interaction("t", str(number + at)) for at in range(10)))
                number += 10
        found = [entry.content for entry in await memory.get_recent()]
        assert sorted(map(int, found)) == list(range(number))


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_no_promise_is_broken_when_a_replica_takes_the_place_of_a_dead_master(
    cluster: RedisCluster, namespace: str, request: pytest.FixtureRequest
) -> None:
    slot = slot_of(cluster, namespace)
    whole = History()
    async with RedisMemoryStore(cluster.url, namespace=namespace, timeout=240) as store:
        for number in range(rounds(request, 1, 6)):
            before = Writers([store], name=f"before{number}")
            async with before.at_work():
                await asyncio.sleep(0.3)
            # What a dying master has not passed on is lost: nothing may be under way.
            await asyncio.to_thread(cluster.wait_until_whole)
            await asyncio.to_thread(cluster.wait_until_passed_on)
            lost = cluster.master_of(slot)
            await asyncio.to_thread(lost.kill)
            after = Writers([store], name=f"after{number}")
            async with after.at_work():
                await asyncio.to_thread(cluster.wait_until_replaced, slot, lost)
                promoted = after.history.now()
                while after.history.first_done(promoted) is None:
                    await asyncio.sleep(0.05)
            felt = (after.history.first_done(0) or 0) - promoted
            sys.stdout.write(f"calls succeed again {felt:.2f} s after the new master\n")
            await asyncio.to_thread(lost.start)
            await asyncio.to_thread(cluster.wait_until_whole)
            whole.calls += before.history.calls + after.history.calls
        assert await broken_promises(whole, store) == []


@pytest.mark.rare("upheaval", one_in=1000)
async def test_a_cluster_that_is_gone_is_said_within_the_timeout(namespace: str) -> None:
    with redis_cluster(1) as gone:
        store = RedisMemoryStore(gone.url, namespace=namespace, timeout=1.0)
        await in_the_end(store.init)
        gone.kill()
        with pytest.raises(StoreUnavailableError):
            await store.add(HumanMemory(content="x"))
        gone.start()
        await in_the_end(lambda: store.add(HumanMemory(content="x")))
        await store.close()


@pytest.mark.rare("upheaval", one_in=1000)
async def test_a_cluster_with_tls_is_reached_by_its_url(namespace: str) -> None:
    with redis_cluster(3, tls=True) as secure:
        url = f"{secure.url}?ssl_ca_certs={quote(str(secure.certificates.authority))}"
        # Several namespaces lie on several nodes.
        for number in range(6):
            async with RedisMemoryStore(url, namespace=f"{namespace}{number}") as store:
                await store.add(HumanMemory(id="a", content="x", metadata=MemoryMetadata(user_id="u")))
                assert await store.count(metadata=MemoryMetadata(user_id="u")) == 1
        with pytest.raises(StoreUnavailableError):
            async with RedisMemoryStore(secure.url, namespace=namespace):
                pass


@pytest.mark.rare("moving slots", one_in=80)
class TestWhileSlotsAreMoved(StoreConformance):
    patience = 300.0  # Each of many keys may be asked for several times while its slot is on the way.

    @pytest_asyncio.fixture
    async def store(self, cluster: RedisCluster, namespace: str) -> AsyncIterator[RedisMemoryStore]:
        with slots_moving(cluster, slot_of(cluster, namespace)):
            async with RedisMemoryStore(cluster.url, namespace=namespace, timeout=240) as store:
                yield store

    @pytest.fixture
    def reopen(self, cluster: RedisCluster, namespace: str) -> Reopen:
        async def reopen() -> RedisMemoryStore:
            return RedisMemoryStore(cluster.url, namespace=namespace, timeout=240)

        return reopen
