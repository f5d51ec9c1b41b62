"""Sixteen coroutines that write the same few items in every way there is: python mixed_writes.py url partitions seed.

Run as a program of its own, so that several processes can do it at once. Conflicts are what such writers expect of each
other; any other error ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from collections.abc import Awaitable, Callable

from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import IdConflictError, TurnConflictError, VersionConflictError
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_postgres import PostgresMemoryStore

WRITERS = 16
CALLS = 25
IDS = [f"item-{number:02d}" for number in range(24)]
USERS = ["ana", "ben", None]


class Writes:
    """The writes of one coroutine, drawn at random."""

    def __init__(self, store: PostgresMemoryStore, randomly: random.Random) -> None:
        self.store = store
        self.randomly = randomly

    def _scope(self) -> MemoryMetadata:
        return MemoryMetadata(user_id=self.randomly.choice(USERS), session_id="s")

    def _items(self, most: int, scope: MemoryMetadata) -> list[HumanMemory]:
        ids = self.randomly.sample(IDS, self.randomly.randint(1, most))
        return [HumanMemory(id=item_id, content=f"turn {item_id}", metadata=scope) for item_id in ids]

    async def add(self) -> None:
        await self.store.add(self._items(1, self._scope())[0])

    async def add_many(self) -> None:
        await self.store.add_many(self._items(12, self._scope()))

    async def add_within_a_tag(self) -> None:
        tagged = self._scope().model_copy(update={"extra": {"team": self.randomly.choice(["red", "blue"])}})
        await self.store.add_many(self._items(6, tagged), within=MemoryMetadata(extra=tagged.extra))

    async def update_many(self) -> None:
        """Change what is there and add what is not, in one call, as a compaction does."""
        given = self._items(6, self._scope())
        there = [await self.store.get(item.id) for item in given]
        await self.store.update_many([found or item for found, item in zip(there, given, strict=True)])

    async def apply(self) -> None:
        given = self._items(6, self._scope())
        taken = {item.id for item in given}
        gone = [item_id for item_id in self.randomly.sample(IDS, 6) if item_id not in taken]
        await self.store.apply(adds=given, deletes=gone, purge=self.randomly.random() < 0.5, keep_created=True)

    async def append(self) -> None:
        scope = self._scope()
        await self.store.append(self._items(4, scope), after=await self.store.head(metadata=scope))

    async def pop(self) -> None:
        await self.store.pop(metadata=self._scope(), purge=self.randomly.random() < 0.5)

    async def touch(self) -> None:
        await self.store.touch(self.randomly.sample(IDS, 6), ttl=self.randomly.choice([0.01, 100.0]))

    async def delete(self) -> None:
        await self.store.delete(self.randomly.choice(IDS))

    async def restore(self) -> None:
        await self.store.restore(self.randomly.choice(IDS))

    async def restore_all(self) -> None:
        await self.store.restore(metadata=self._scope())

    async def purge(self) -> None:
        await self.store.purge(self.randomly.choice(IDS))

    async def purge_all(self) -> None:
        await self.store.purge(metadata=self._scope(), deleted_only=self.randomly.random() < 0.5)

    async def clear(self) -> None:
        await self.store.clear(metadata=self._scope())

    async def run(self) -> None:
        often = [self.add] * 3 + [self.add_many] * 3 + [self.update_many] * 4
        others: list[Callable[[], Awaitable[None]]] = [
            self.add_within_a_tag, self.apply, self.append, self.pop, self.touch,
            self.delete, self.restore, self.restore_all, self.purge, self.purge_all, self.clear,
        ]  # fmt: skip
        for _ in range(CALLS):
            with contextlib.suppress(IdConflictError, TurnConflictError, VersionConflictError):
                await self.randomly.choice([*often, *others])()


async def main(url: str, partitions: int, embedded: bool, seed: int) -> None:
    embeddings = HashingEmbeddings(16) if embedded else None
    # Whoever waits long for a turn has met no circle.
    async with PostgresMemoryStore(url, partitions=partitions, embeddings=embeddings, timeout=200) as store:
        writers = [Writes(store, random.Random(seed * WRITERS + number)) for number in range(WRITERS)]
        await asyncio.gather(*(writer.run() for writer in writers))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "embedded", int(sys.argv[4])))
