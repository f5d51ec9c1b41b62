"""What a pooler, replicas and a cluster cost: each call there against the same call on one server without them.

python bench/scale.py

The floor is memoranda itself on the server alone, so that a ratio says what the set-up costs. All runs on one machine:
what replicas and nodes bring where each has a machine of its own is not seen here.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable
from typing import Any

from harness import Line, growth, interleaved, line, report

from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import Store
from memoranda_postgres import PostgresMemoryStore
from memoranda_redis import RedisMemoryStore
from servers import pgbouncer, postgres_group, redis_cluster, redis_server

Calls = dict[str, Callable[[Store], Awaitable[Any]]]

USERS, ITEMS_OF_EACH = 40, 50
WORDS = ["tea", "door", "oslo", "cats", "train", "blue", "piano", "rain", "bread", "lamp"]
SCOPES = (100, 1_000, 10_000)

random.seed(5)
numbers = itertools.count()


def scope() -> MemoryMetadata:
    return MemoryMetadata(user_id=f"u{random.randrange(USERS)}")


def made(user: MemoryMetadata) -> HumanMemory:
    return HumanMemory(id=f"i{next(numbers)}", content=" ".join(random.choices(WORDS, k=12)), metadata=user)


async def fill(store: Store) -> None:
    for user in range(USERS):
        await store.add_many([made(MemoryMetadata(user_id=f"u{user}")) for _ in range(ITEMS_OF_EACH)])


CALLS: Calls = {
    "get": lambda store: store.get("i7"),
    "last 10 of a user": lambda store: store.search(metadata=scope()),
    "ranked text in a user": lambda store: store.search_ranked(query="tea rain", metadata=scope(), mode="text"),
    "add": lambda store: store.add(made(scope())),
    "16 adds at once": lambda store: asyncio.gather(*(store.add(made(scope())) for _ in range(16))),
    "add_many of 50": lambda store: store.add_many([made(scope()) for _ in range(50)]),
}


async def compared(floor: Store, ours: Store) -> list[Line]:
    """Return a line for each call on two stores, in turns."""
    lines = []
    for name, call in CALLS.items():
        contenders = {"memoranda": lambda call=call: call(ours), "floor": lambda call=call: call(floor)}
        lines.append(line(name, await interleaved(contenders, rounds=7, calls=60)))
    return lines


async def postgres() -> None:
    """Compare with a pooler, and with replicas."""
    with postgres_group(1) as group, group.database() as url, pgbouncer(group.primary.url) as pooler:
        path = url.rpartition("/")[2]
        pooled = f"{pooler.url.rpartition('/')[0]}/{path}"
        places = ",".join(f"127.0.0.1:{node.port}" for node in group.standbys)
        async with (
            PostgresMemoryStore(url) as alone,
            PostgresMemoryStore(pooled) as behind,
            PostgresMemoryStore(url, replicas=places) as replicated,
        ):
            await fill(alone)
            report(f"Behind PgBouncer {'.'.join(map(str, pooler.version))}", await compared(alone, behind))
            report("With a replica, each user's reads after other users' writes", await compared(alone, replicated))


async def redis() -> None:
    """Compare a cluster with a server, and ranked text by the size of its scope."""
    with redis_cluster(3) as cluster, redis_server(private=True, settings={"appendonly": "yes"}) as server:
        async with RedisMemoryStore(server.url) as alone, RedisMemoryStore(cluster.url) as spread:
            await fill(alone)
            await fill(spread)
            report("On a Redis cluster", await compared(alone, spread))
        times = []
        for size in SCOPES:
            async with RedisMemoryStore(server.url, namespace=f"scope{size}") as store:
                user = MemoryMetadata(user_id="u0")
                await store.add_many([made(user) for _ in range(size)])
                ranked = {"text": lambda: store.search_ranked(query="tea rain", metadata=user, mode="text")}  # noqa: B023
                times.append((await interleaved(ranked, rounds=3))["text"].median)
        print("\nRanked text on Redis, by the number of items in its scope")
        for size, seconds in zip(SCOPES, times, strict=True):
            print(f"{size:>9,}  {seconds * 1e3:>9.1f} ms")
        print(f"exponent {growth(SCOPES, times):.2f}: it reads the scope")


async def main() -> None:
    await postgres()
    await redis()


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    asyncio.run(main())
