"""The primary is killed, frozen and cut off while everybody writes, and a standby takes its place."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
import pytest_asyncio

from memoranda import HumanMemory
from memoranda.errors import StoreUnavailableError
from memoranda_postgres import PostgresMemoryStore
from servers import MissingServerError, PatroniGroup, PostgresGroup, UnreliableNetwork, patroni_group, postgres_group
from servers.writers import History, Writers, broken_promises

FAULTS = ("paused", "killed", "cut off")
OUTAGES = (0.3, 0.0, 1.5, 4.0)
"""How many seconds there is no primary at all: less and more than a call is tried again for."""

PATRONI_ROUNDS = 6
"""Patroni takes 20 seconds at least to see that a primary is gone."""

PATIENCE = 60.0
"""Within how many seconds of a promotion a call must succeed; a busy machine is slow to do anything."""


@pytest.fixture(scope="module")
def group() -> Iterator[PostgresGroup]:
    with postgres_group(2, synchronous=True) as running:
        yield running


@contextlib.asynccontextmanager
async def ways_to(group: PostgresGroup) -> AsyncIterator[list[UnreliableNetwork]]:
    """Give a network to each node, in the order of the nodes."""
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(UnreliableNetwork(node.url)) for node in group.nodes]


def through(ways: list[UnreliableNetwork], database: str) -> str:
    """Return the URL of a database on whichever node is the primary."""
    parts = [urlsplit(way.url) for way in ways]
    places = ",".join(part.netloc.rpartition("@")[2] for part in parts)
    return f"postgresql://{parts[0].netloc.rpartition('@')[0]}@{places}{urlsplit(database).path}"


async def break_and_promote(
    group: PostgresGroup, ways: list[UnreliableNetwork], fault: str, outage: float, history: History
) -> float:
    """Take the primary away, promote a standby, and make a standby of the old one; return how long it was felt.

    A frozen or cut off primary comes back before anybody tells it that it was replaced.
    """
    old = group.primary
    way = ways[group.nodes.index(old)]
    history.event(f"the primary is {fault}")
    if fault == "killed":
        await asyncio.to_thread(old.kill)
    elif fault == "paused":
        await asyncio.to_thread(old.pause)
    else:
        way.silent = True
    await asyncio.sleep(outage)
    await asyncio.to_thread(group.fail_over)
    promoted = history.event("a standby is promoted")
    deadline = promoted + PATIENCE
    while (recovered := history.first_done(promoted)) is None and history.now() < deadline:
        await asyncio.sleep(0.05)
    assert recovered is not None, f"No call succeeded within {PATIENCE:g} seconds of the new primary."
    await asyncio.to_thread(old.resume)
    way.silent = False
    # For a while there are two who take themselves for the primary.
    await asyncio.sleep(0.3)
    history.event("the old primary is made a standby")
    await asyncio.to_thread(old.rejoin, group.primary)
    await asyncio.to_thread(group.wait_until_followed)
    return recovered - promoted


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_nothing_acknowledged_is_lost_and_nothing_is_done_twice_when_the_primary_fails(
    group: PostgresGroup, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    rounds = 20 if request.config.getoption("everything", default=False) else 1
    with group.database() as direct:
        async with ways_to(group) as ways:
            url = through(ways, direct)
            async with PostgresMemoryStore(url, max_size=6, timeout=15) as one, PostgresMemoryStore(url) as other:
                writers = Writers([one, other], pause=0.02)
                waits = []
                async with writers.at_work():
                    for number in range(rounds):
                        await asyncio.sleep(0.5)
                        fault, outage = FAULTS[number % len(FAULTS)], OUTAGES[number % len(OUTAGES)]
                        wait = await break_and_promote(group, ways, fault, outage, writers.history)
                        waits.append((fault, wait))
                    await asyncio.sleep(0.5)
                show(writers.history, waits, tmp_path / "history.jsonl")
                assert await broken_promises(writers.history, one) == []


@pytest_asyncio.fixture
async def patroni() -> AsyncIterator[PatroniGroup]:
    """Three nodes under Patroni."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            group = await stack.enter_async_context(patroni_group())
        except MissingServerError as missing:
            pytest.skip(str(missing))
        yield group


async def fail_over_under_patroni(group: PatroniGroup, fault: str, history: History) -> float:
    """Take the primary away until Patroni has another, and give it back; return how long the change was felt."""
    old = await group.primary()
    history.event(f"the primary is {fault}")
    await group.fail(old, fault)
    await group.primary(besides=old)
    promoted = history.event("Patroni has promoted a standby")
    while (recovered := history.first_done(promoted)) is None:
        assert history.now() < promoted + PATIENCE, f"No call succeeded within {PATIENCE:g} seconds of the new primary."
        await asyncio.sleep(0.05)
    # A frozen or cut off one comes back as the primary that it was, until its Patroni finds out.
    await group.heal(old)
    history.event("the old primary is back")
    await group.wait_until_followed()
    return recovered - promoted


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_nothing_acknowledged_is_lost_and_nothing_is_done_twice_when_patroni_changes_the_primary(
    patroni: PatroniGroup, tmp_path: Path
) -> None:
    async with (
        patroni.database() as url,
        PostgresMemoryStore(url, max_size=6, timeout=15) as one,
        PostgresMemoryStore(url) as other,
    ):
        writers = Writers([one, other], pause=0.02)
        waits = []
        async with writers.at_work():
            for number in range(PATRONI_ROUNDS):
                fault = FAULTS[number % len(FAULTS)]
                waits.append((fault, await fail_over_under_patroni(patroni, fault, writers.history)))
            await asyncio.sleep(0.5)
        show(writers.history, waits, tmp_path / "history.jsonl")
        assert await broken_promises(writers.history, one) == []


def show(history: History, waits: list[tuple[str, float]], path: Path) -> None:
    """Print how each path fared and how long each failover was felt, and leave the whole history in a file."""
    path.write_text("\n".join(history.lines()) + "\n")
    say = [f"history: {path}"]
    say += [f"{name:9} {dict(counts)}" for name, counts in sorted(history.counts().items())]
    say += [f"{fault:8} calls succeed again {wait:.2f} s after the new primary" for fault, wait in waits]
    sys.stdout.write("\n".join(say) + "\n")


async def test_a_host_that_accepts_and_says_nothing_does_not_keep_the_next_one_from_being_found(
    group: PostgresGroup,
) -> None:
    with group.database() as direct:
        async with ways_to(group) as ways:
            at = group.nodes.index(group.primary)
            ordered = [*(way for place, way in enumerate(ways) if place != at), ways[at]]
            for way in ordered[:-1]:
                way.silent = True
            async with PostgresMemoryStore(through(ordered, direct), connect_timeout=20) as store:
                await store.add(HumanMemory(id="a", content="x"))
                assert await store.get("a") is not None


@pytest.mark.rare
async def test_hosts_none_of_which_is_the_primary_are_a_sentence(group: PostgresGroup) -> None:
    async with ways_to(group) as ways:
        standbys = [way for way, node in zip(ways, group.nodes, strict=True) if node is not group.primary]
        with pytest.raises(StoreUnavailableError, match="target_session_attrs"):
            async with PostgresMemoryStore(through(standbys, group.primary.url), connect_timeout=60):
                pass


@pytest.mark.rare
async def test_a_call_that_takes_long_on_the_primary_is_not_broken_off(group: PostgresGroup) -> None:
    with group.database() as direct:
        async with ways_to(group) as ways, PostgresMemoryStore(through(ways, direct)) as store:
            await store.add(HumanMemory(id="a", content="before"))
            holder = await asyncpg.connect(direct)
            await holder.execute("BEGIN")
            await holder.execute("SELECT FROM memory_items WHERE id = 'a' FOR UPDATE")
            adding = asyncio.create_task(store.add(HumanMemory(id="a", content="after")))
            # Long enough for the other hosts to be asked whether one of them took the primary's place.
            await asyncio.sleep(4)
            assert not adding.done()
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            assert await holder.fetchval(waiting) == 1
            await holder.execute("COMMIT")
            await adding
            await holder.close()
            found = await store.get("a")
            assert found is not None
            assert (found.content, found.version) == ("after", 2)
