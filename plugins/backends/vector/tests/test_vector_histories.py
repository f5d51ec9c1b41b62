"""Whatever is called in whatever order, the vector store answers as the model does."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from memoranda import HumanMemory, MemoryItem, MemoryMetadata
from memoranda.errors import TurnConflictError
from memoranda.store import InMemoryStore, Store
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_testing.model import compare
from memoranda_vector import VectorMemoryStore

# Long, and other modules see most faults first: a sample runs by default.
pytestmark = pytest.mark.rare("vector histories")

ADA = MemoryMetadata(user_id="ada", session_id="s")


@pytest.mark.parametrize("seed", range(12))
async def test_random_calls_are_answered_as_the_model_answers(seed: int) -> None:
    await compare(VectorMemoryStore(HashingEmbeddings(8)), seed)


class Waiting(HashingEmbeddings):
    """An embedder that answers when it is told to, and says when it was asked."""

    def __init__(self) -> None:
        super().__init__(8)
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()
        self.calls = 0

    async def aembed_many(self, texts: list[str]) -> list[list[float]]:
        self.calls += 1
        self.asked.set()
        await self.answers.wait()
        return self.embed_many(texts)

    async def aembed(self, text: str) -> list[float]:
        return (await self.aembed_many([text]))[0]


async def test_of_two_turns_that_are_embedded_at_the_same_time_one_is_stored() -> None:
    embedder = Waiting()
    store = VectorMemoryStore(embedder)
    turns = [
        asyncio.ensure_future(
            store.append([HumanMemory(content=f"{name} {part}", metadata=ADA) for part in "ab"], after=None)
        )
        for name in ("one", "two")
    ]
    while embedder.calls < 2:
        await asyncio.sleep(0)
    embedder.answers.set()

    outcomes = await asyncio.gather(*turns, return_exceptions=True)

    assert sorted(isinstance(outcome, TurnConflictError) for outcome in outcomes) == [False, True]
    assert len({item.content[:3] for item in await store.search(metadata=ADA)}) == 1
    assert await store.count() == 2


async def test_a_turn_that_cannot_follow_does_not_ask_the_embedder() -> None:
    embedder = Waiting()
    embedder.answers.set()
    store = VectorMemoryStore(embedder)
    await store.add(HumanMemory(content="first", metadata=ADA))
    with pytest.raises(TurnConflictError):
        await store.append([HumanMemory(content="second", metadata=ADA)], after=None)
    assert embedder.calls == 1


async def test_touching_keeps_the_vector_and_asks_nobody() -> None:
    embedder = Waiting()
    embedder.answers.set()
    store = VectorMemoryStore(embedder)
    item = HumanMemory(content="tea", metadata=ADA)
    await store.add(item, ttl=100)
    assert await store.touch([item.id], ttl=200) == 1
    assert embedder.calls == 1
    (found,) = await store.search_ranked(query="tea", metadata=ADA, mode="semantic")
    assert found.score == pytest.approx(1.0)
    assert found.item.ttl == 200


async def test_vectors_given_with_items_in_different_places_stay_in_their_places() -> None:
    store = VectorMemoryStore(HashingEmbeddings(4))
    items = [
        HumanMemory(content=f"{number}", metadata=MemoryMetadata(user_id="ada", namespace=("p", str(number % 20))))
        for number in range(100)
    ]
    await store.add_vectors(items, [[1, number, 0, 0] for number in range(100)])
    for number in range(20):
        inside = MemoryMetadata(namespace=("p", str(number)))
        assert {item.content for item in await store.search(metadata=inside, limit=100)} == {
            f"{other}" for other in range(number, 100, 20)
        }
    assert await store.count(metadata=MemoryMetadata(namespace=("p",))) == 100


def note(draw: random.Random) -> MemoryItem:
    """One of a hundred ids, in one of a few sessions and places, archived or not."""
    return HumanMemory(
        id=str(draw.randrange(100)),
        content=draw.choice(["", "tea", "saffron"]),
        metadata=MemoryMetadata(
            user_id="ada", session_id=draw.choice(["s", "t", None]), namespace=draw.choice([(), ("p",), ("p", "q")])
        ),
        created_at=f"2024-05-{draw.randrange(1, 28):02d}T10:00:00",
        archived_by=draw.choice([None, "summary"]),
    )


async def batch(store: Store, seed: int) -> Any:
    """Write as the seed says, and return what the call returns."""
    draw = random.Random(seed)
    items = [note(draw) for _ in range(draw.randrange(5, 60))]
    ids = {item.id for item in items}
    kind = draw.choice(["add", "hide", "apply", "purge", "update", "touch", "restore"])
    if kind == "add":
        return await store.add_many(items, keep_created=draw.random() < 0.5, ttl=draw.choice([None, 10**6]))
    if kind == "hide":
        return await store.add_many(items, deleted=draw.sample(sorted(ids), len(ids) // 2))
    if kind in ("apply", "purge"):
        gone = [str(number) for number in range(draw.randrange(100)) if str(number) not in ids]
        scope = draw.choice([None, ADA])
        return await store.apply(adds=[] if scope else items, deletes=gone, within=scope, purge=kind == "purge")
    if kind == "update":
        held = {item.id: item.version for item in await store.get_many(sorted(ids))}
        new = {item.id: item for item in items}
        given = [item.model_copy(update={"version": held.get(key, 0)}) for key, item in new.items()]
        return [item.version for item in await store.update_many(given)]
    if kind == "touch":
        return await store.touch(sorted(ids), ttl=draw.choice([10**6, 10**7]))
    return await store.restore(metadata=ADA)


async def shown(store: Store) -> list[Any]:
    found: list[Any] = [await store.count(metadata=MemoryMetadata(namespace=("p",)))]
    for scope in (ADA, MemoryMetadata(user_id="ada"), MemoryMetadata(namespace=("p", "q"))):
        for mode in (None, "text"):
            query = {} if mode is None else {"query": "tea", "mode": mode}
            items = await store.search(metadata=scope, limit=200, **query)  # type: ignore[arg-type]  # it is a mode
            found.append([(item.id, item.version, item.content, item.ttl, item.created_at) for item in items])
    hidden = [item async for item in store.scan(include_deleted=True, order="added")]
    return [*found, [(item.id, item.version, item.metadata) for item in hidden]]


@pytest.mark.parametrize("seed", range(4))
async def test_batches_of_any_kind_are_written_as_the_store_in_memory_writes_them(seed: int) -> None:
    store, model = VectorMemoryStore(HashingEmbeddings(8)), InMemoryStore()
    for step in range(30):
        number = 1000 * seed + step
        assert await batch(store, number) == await batch(model, number), number
        assert await shown(store) == await shown(model), number
