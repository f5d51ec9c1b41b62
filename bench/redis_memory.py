"""The episodic memory against the same thing done by hand: pipelined redis-py on the same server.

python bench/redis_memory.py [--url redis://localhost:6379/0]

Without a URL a server is started for the run. The floors write and read plain dicts where memoranda writes and reads
checked items; they use the keys of the specification, without its guarantees (no two interactions of one microsecond,
no retry that is stored once, no cleaning of the index). This file is not called redis.py, which would hide the driver.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
import uuid
from datetime import UTC, datetime
from typing import Any

from harness import Line, interleaved, line, report, run
from redis.asyncio import Redis

from memoranda import HumanMemory, MemoryMetadata
from memoranda_redis import RedisMemoryStore, ShortTermMemoryManager
from servers import redis_server

CONTENT = "Just shipped a new AI feature, and it already did something wild: " + "x" * 100
TOGETHER = 8
STORED = 1_000
HOUR = 3600


class ByHand:
    """What one would write with redis-py and the specification's keys."""

    def __init__(self, url: str, agent: str) -> None:
        self.client = Redis.from_url(url, decode_responses=True)
        self.prefix = f"agent:{agent}:episodic:"

    async def add(self) -> None:
        """Write entry, index and expiry in one transaction."""
        now = datetime.now(UTC)
        key = f"{self.prefix}{now.isoformat()}"
        entry = {
            "id": uuid.uuid4().hex,
            "timestamp": now.isoformat(),
            "interaction_type": "posted_tweet",
            "content": CONTENT,
            "platform": "x",
            "metadata": {"likes": 3},
        }
        async with self.client.pipeline(transaction=True) as pipeline:
            pipeline.set(key, json.dumps(entry), ex=2 * HOUR)
            pipeline.zadd(f"{self.prefix}index", {key: now.timestamp()})
            pipeline.expire(f"{self.prefix}index", 2 * HOUR)
            await pipeline.execute()

    async def keys(self, limit: int) -> list[str]:
        """Return the keys of the newest entries."""
        index = f"{self.prefix}index"
        keys: list[str] = await self.client.zrevrangebyscore(index, "+inf", time.time() - 2 * HOUR, start=0, num=limit)
        return keys

    async def read(self, limit: int = 10) -> list[Any]:
        """Read the index, then all entries in one pipeline."""
        async with self.client.pipeline(transaction=False) as pipeline:
            for key in await self.keys(limit):
                pipeline.get(key)
            return [json.loads(entry) for entry in await pipeline.execute() if entry]

    async def read_at_once(self, limit: int = 10) -> list[Any]:
        """Read the index, then all entries with one command."""
        return [json.loads(entry) for entry in await self.client.mget(await self.keys(limit)) if entry]


async def add(memory: ShortTermMemoryManager) -> None:
    """Write one interaction."""
    await memory.add_interaction("posted_tweet", CONTENT, platform="x", metadata={"likes": 3})


async def episodic(url: str) -> list[Line]:
    """Write one, read ten, and write from eight coroutines at once."""
    by_hand = ByHand(url, uuid.uuid4().hex)
    async with ShortTermMemoryManager(url, uuid.uuid4().hex) as memory:
        for _ in range(STORED):
            await by_hand.add()
            await add(memory)
        writes = await interleaved({"memoranda": lambda: add(memory), "floor": by_hand.add}, calls=300)
        reads = await interleaved(
            {
                "memoranda": lambda: memory.get_recent(limit=10),
                "floor": by_hand.read,
                "mget": by_hand.read_at_once,
            },
            calls=300,
        )

        async def together(one: Any) -> None:
            async def several() -> None:
                for _ in range(50):
                    await one()

            await asyncio.gather(*(several() for _ in range(TOGETHER)))

        crowds = await interleaved(
            {"memoranda": lambda: together(lambda: add(memory)), "floor": lambda: together(by_hand.add)}
        )
        lines = [
            line("write one", writes, goal=">= 1.2x"),
            line("read ten / ten GETs in a pipeline", reads, goal=">= 1.5x"),
            line("read ten / MGET", reads, floor="mget"),
            line(f"{TOGETHER} coroutines, 50 writes each", crowds, goal=">= 1.8x"),
        ]
        await specification(memory, by_hand, lines)
    await by_hand.client.aclose()
    return lines


async def specification(memory: ShortTermMemoryManager, by_hand: ByHand, lines: list[Line]) -> None:
    """Print the absolute figures that the specification asks for, and what is left after expiry."""
    write, read, crowd = lines[0].ours / 1e3, lines[1].ours / 1e3, lines[3].ours / 1e6
    (newest,) = await memory.get_recent(limit=1)
    prefix = f"agent:{memory.agent_id}:episodic:"
    entry = await by_hand.client.memory_usage(f"{prefix}{newest.created_at}")
    members = await by_hand.client.zcard(f"{prefix}index")
    index = await by_hand.client.memory_usage(f"{prefix}index", samples=0)
    for _ in range(200):
        await memory.add_interaction("t", "gone", ttl_hours=0.05 / HOUR)
    await asyncio.sleep(0.2)
    await memory.get_recent()
    stale = await by_hand.client.zcard(f"{prefix}index") - members
    print("\nThe specification")
    print(f"write                   {write:8.2f} ms   < 10 ms")
    print(f"read of ten             {read:8.2f} ms   < 50 ms")
    print(f"an entry and its index  {entry + index / members:8.0f} B    < 1024 B")
    print(f"concurrent writes       {TOGETHER * 50 / crowd:8.0f} /s   > 100 /s")
    print(f"stale after expiry      {stale:8d}      0")


async def store(url: str) -> list[Line]:
    """The store: one item by its id, and the last twenty of a session; the floors read JSON by key."""
    client = Redis.from_url(url)
    async with RedisMemoryStore(url, namespace=uuid.uuid4().hex) as memories:
        items = [
            HumanMemory(content=CONTENT, metadata=MemoryMetadata(user_id="u", session_id=f"s{number // 40}"))
            for number in range(10_000)
        ]
        await memories.add_many(items)
        keys = [f"floor:{item.id}" for item in items]
        await client.mset({key: item.model_dump_json() for key, item in zip(keys, items, strict=True)})
        scope = MemoryMetadata(user_id="u", session_id="s100")

        async def get_by_hand() -> Any:
            return json.loads(await client.get(keys[5_000]))

        async def last_by_hand() -> Any:
            return [json.loads(entry) for entry in await client.mget(keys[4_000:4_020])]

        async def add_by_hand() -> None:
            item = HumanMemory(content=CONTENT, metadata=scope)
            await client.set(f"floor:{item.id}", item.model_dump_json(), ex=HOUR)

        gets = await interleaved({"memoranda": lambda: memories.get(items[5_000].id), "floor": get_by_hand}, calls=200)
        lasts = await interleaved(
            {"memoranda": lambda: memories.search(metadata=scope, limit=20), "floor": last_by_hand}, calls=100
        )
        adds = await interleaved(
            {"memoranda": lambda: memories.add(HumanMemory(content=CONTENT, metadata=scope)), "floor": add_by_hand},
            calls=200,
        )
        await memories.purge(metadata=MemoryMetadata(user_id="u"))
        await memories.purge(deleted_only=True)
    for first in range(0, len(keys), 1_000):
        await client.delete(*keys[first : first + 1_000])
    await client.aclose()
    return [
        line("store: get / GET", gets),
        line("store: last twenty of a session among 10,000 / MGET of twenty known keys", lasts),
        line("store: add with four indexes / SET", adds),
    ]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="")
    url = parser.parse_args().url
    if url:
        await measure(url)
        return
    with redis_server(private=True) as server:
        await measure(server.url)


async def measure(url: str) -> None:
    report("Episodic memory against pipelined redis-py", await episodic(url))
    report("The store against bare commands", await store(url))


if __name__ == "__main__":
    run(main)
