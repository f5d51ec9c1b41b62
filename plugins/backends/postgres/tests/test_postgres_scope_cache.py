"""What ranked searches keep of a scope is what the server has, whichever program writes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from memoranda import HumanMemory, MemoryMetadata
from memoranda.store.lifetimes import Lifetimes
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_postgres import PostgresMemoryStore, scope_cache, text_search
from memoranda_postgres.scope_cache import lists_open_transactions

ADA = MemoryMetadata(user_id="ada")
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "green", "tea")
BY_HAND = (
    "UPDATE memory_items SET content = 'amber tea' WHERE id = $1",  # Neither the version nor the time is another.
    "UPDATE memory_items SET session_id = 't', metadata = metadata || '{\"session_id\": \"t\"}' WHERE id = $1",
    "DELETE FROM memory_items WHERE id = $1",
)


class History:
    """A random history of a database that stores and statements by hand change, some of which stay open for a while."""

    def __init__(self, seed: int, connection: asyncpg.Connection) -> None:
        self.random = random.Random(seed)
        self.added = 0
        self.connection = connection
        self.unfinished: Any = None
        self.now = 1_700_000_000.0

    def timed(self, store: PostgresMemoryStore) -> PostgresMemoryStore:
        store.clock = lambda: self.now
        return store

    def item(self, item_id: str | None = None) -> HumanMemory:
        self.added += 1
        return HumanMemory(
            id=item_id or f"item {self.added}",
            content=" ".join(self.random.choices(WORDS, k=self.random.choice((3, 5, 90)))),
            metadata=MemoryMetadata(user_id="ada", session_id=self.random.choice("st")),
            created_at=f"2024-05-{self.random.randint(1, 28):02}T10:00:00.{self.added:06}+00:00",
            name=self.random.choice((None, "Grace")),
        )

    async def step(self, stores: Sequence[PostgresMemoryStore]) -> None:
        store, item_id = self.random.choice(stores), f"item {self.random.randint(1, self.added)}"
        if self.unfinished is not None:
            await self.random.choice((self.unfinished.commit, self.unfinished.rollback))()
            self.unfinished = None
        match self.random.randrange(9):
            case 0:
                await store.add_many([self.item() for _ in range(3)])
            case 1:
                await store.add(self.item(item_id))
            case 2:
                await store.delete(item_id)
            case 3:
                await store.restore(item_id)
            case 4:
                await store.purge(item_id)
            case 5:
                await self.connection.execute(self.random.choice(BY_HAND), item_id)
            case 6:
                self.unfinished = self.connection.transaction()
                await self.unfinished.start()
                await self.connection.execute(self.random.choice(BY_HAND), item_id)
            case 7:
                await store.touch([item_id], ttl=30)
            case 8:
                self.now += self.random.choice((20, 20, -25))


async def found(store: PostgresMemoryStore, query: str) -> list[tuple[str, float, str]]:
    ranked = await store.search_ranked(query=query, metadata=ADA, mode="text", limit=1000)
    # The last digits depend on the order in which rows were read.
    return [(hit.item.id, round(hit.score, 9), hit.item.content) for hit in ranked]


@pytest.mark.parametrize(
    ("partitions", "whole_scope"),
    [
        (None, 1_000),
        pytest.param(None, 20, marks=pytest.mark.slow),
        pytest.param(3, 20, marks=pytest.mark.rare("partitions")),
    ],
)
async def test_what_is_known_finds_what_a_store_finds_that_was_just_opened(
    url: str, partitions: int | None, whole_scope: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope_cache, "WHOLE_SCOPE", whole_scope)
    monkeypatch.setattr(text_search, "WHOLE_SCOPE", whole_scope)
    monkeypatch.setattr(Lifetimes, "is_to_sweep", lambda *_: False)  # A clock that is set back shows it all again.
    connection = await asyncpg.connect(url)
    history = History(whole_scope, connection)
    one, other = PostgresMemoryStore(url, partitions=partitions), PostgresMemoryStore(url)
    async with history.timed(one), history.timed(other):
        await one.add_many([history.item() for _ in range(60)])
        await one.reindex()  # Creates the index of terms where it is needed.
        for _ in range(20):
            for _ in range(history.random.randrange(3)):
                await history.step((one, other))
            query = " ".join(history.random.sample((*WORDS, "Grace"), 2))
            async with history.timed(PostgresMemoryStore(url)) as fresh:
                expected = await found(fresh, query)
            assert [await found(store, query) for store in (one, other, one)] == [expected] * 3
    await connection.close()


@pytest.mark.parametrize("most_bytes", [0, 150_000])
async def test_scopes_that_were_dropped_for_others_are_read_again(
    url: str, most_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope_cache, "MOST_BYTES", most_bytes)
    users = [MemoryMetadata(user_id=f"user {number}") for number in range(6)]
    drawn = random.Random(4)
    async with PostgresMemoryStore(url) as store, PostgresMemoryStore(url) as other:
        for step in range(30):
            user = drawn.choice(users)
            text = " ".join(drawn.choices(WORDS, k=4))
            await drawn.choice((store, other)).add_many([HumanMemory(content=f"{text} {step}", metadata=user)] * 3)
            asked = drawn.choice(users)
            async with PostgresMemoryStore(url) as fresh:
                ranked = [
                    await each.search_ranked(query="amber tea", metadata=asked, mode="text", limit=50)
                    for each in (store, fresh)
                ]
            first, second = ([(hit.item.content, round(hit.score, 9)) for hit in found] for found in ranked)
            assert first == second


async def test_vectors_that_are_made_later_are_noticed(url: str) -> None:
    embeddings = HashingEmbeddings(16)
    async with PostgresMemoryStore(url, embeddings=embeddings) as one, PostgresMemoryStore(url) as plain:
        await plain.add_many([HumanMemory(id=word, content=f"{word} tea", metadata=ADA) for word in WORDS])
        before = await one.search_ranked(query="amber tea", metadata=ADA, mode="hybrid")
        async with PostgresMemoryStore(url, embeddings=embeddings) as other:
            await other.reindex()
        after = await one.search_ranked(query="amber tea", metadata=ADA, mode="hybrid")
    assert not any("semantic" in hit.parts for hit in before)
    assert "semantic" in after[0].parts


async def test_searches_of_one_scope_at_once_find_the_same_also_if_one_is_broken_off(url: str) -> None:
    async with PostgresMemoryStore(url) as store:
        history = History(1, await asyncpg.connect(url))
        await store.add_many([history.item() for _ in range(700)])
        broken = asyncio.create_task(found(store, "amber tea"))
        searches = [asyncio.create_task(found(store, "amber tea")) for _ in range(4)]
        await asyncio.sleep(0.05)
        broken.cancel()
        async with PostgresMemoryStore(url) as fresh:
            expected = await found(fresh, "amber tea")
        assert [await search for search in searches] == [expected] * 4
        assert await found(store, "amber tea") == expected
        await history.connection.close()


@pytest.mark.parametrize(("snapshot", "complete"), [("7:7: s", True), ("7:9:7,8 s", True), ("7:9: s", False)])
def test_a_snapshot_of_a_standby_does_not_list_open_transactions(snapshot: str, complete: bool) -> None:
    assert lists_open_transactions(snapshot) is complete
