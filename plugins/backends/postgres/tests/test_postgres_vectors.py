"""Semantic and hybrid search through pgvector, which the wheel's server has."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import numpy
import pytest
import pytest_asyncio

from memoranda import HumanMemory, MemoryItem, MemoryMetadata
from memoranda.embeddings import Embeddings
from memoranda.errors import EmbeddingError, OtherModelError, UnsupportedError
from memoranda.store import Capability
from memoranda_backend.ranking import HEARD, HashingEmbeddings
from memoranda_postgres import PostgresMemoryStore, scope_cache, text_search, vectors

ALICE = MemoryMetadata(user_id="alice", session_id="s")
SENTENCES = [
    "the cat sleeps on the warm radiator",
    "quarterly revenue rose in the northern region",
    "a bicycle needs new brake pads before winter",
]


def said(number: int) -> HumanMemory:
    return HumanMemory(id=f"item-{number}", content=SENTENCES[number], metadata=ALICE)


class NamedEmbeddings(HashingEmbeddings):
    """An embedder of another name, so that its vectors are another model's."""

    def __init__(self, model: str, dimension: int) -> None:
        super().__init__(dimension)
        self.model = model


class FailingEmbeddings(HashingEmbeddings):
    failing = False

    async def aembed(self, text: str) -> list[float]:
        if self.failing:
            raise RuntimeError("the provider is down")
        return await super().aembed(text)


class WaitingEmbeddings(HashingEmbeddings):
    """An embedder that never comes to an end."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()

    async def aembed(self, text: str) -> list[float]:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        raise AssertionError("nobody wakes it")


async def fetch(url: str, text: str, *values: Any) -> list[Any]:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(text, *values)
    finally:
        await connection.close()


@pytest_asyncio.fixture
async def store(url: str) -> AsyncIterator[PostgresMemoryStore]:
    async with PostgresMemoryStore(url, embeddings=NamedEmbeddings("one", 64)) as store:
        await store.add_many([said(number) for number in range(3)])
        yield store


@pytest.fixture(params=["ranked as a whole", "large"])
def scopes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every scope be ranked as a whole, or be too large for that in a database that was reindexed."""
    if request.param == "large":
        for module in (scope_cache, text_search):
            monkeypatch.setattr(module, "WHOLE_SCOPE", -1)


async def best(store: PostgresMemoryStore, query: str, mode: Any = "semantic") -> str | None:
    found = await store.search(query=query, metadata=ALICE, mode=mode, limit=1)
    return found[0].id if found else None


async def test_a_store_with_an_embedder_declares_what_it_can_do(store: PostgresMemoryStore) -> None:
    assert {Capability.SEMANTIC, Capability.HYBRID} <= store.capabilities
    assert await best(store, "a sleeping cat") == "item-0"
    assert await best(store, "bicycle brakes", "hybrid") == "item-2"


async def test_a_doctor_says_how_semantic_search_is_turned_on(url: str) -> None:
    async with PostgresMemoryStore(url) as store:
        before = {finding.name: finding for finding in await store.doctor()}["pgvector"]
    async with PostgresMemoryStore(url, embeddings=HashingEmbeddings(16)) as store:
        after = {finding.name: finding for finding in await store.doctor()}["pgvector"]
        assert Capability.SEMANTIC in store.capabilities

    assert before.ok
    assert "with an embedder turns on semantic" in before.detail
    assert after.ok


async def test_without_pgvector_the_embedder_is_not_used(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A user who may not create the extension stands for a server that does not have it."""
    async with PostgresMemoryStore(url):
        pass
    await fetch(url, "CREATE ROLE visitor LOGIN PASSWORD 'visitor'")
    try:
        await fetch(url, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO visitor")
        await fetch(url, "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO visitor")
        visitor_url = f"postgresql://visitor:visitor@{url.rpartition('@')[2]}"
        async with PostgresMemoryStore(visitor_url, embeddings=HashingEmbeddings(16)) as store:
            await store.add(said(0))
            with pytest.raises(UnsupportedError):
                await store.search(query="cat", mode="semantic")
            assert await store.search(query="cat", mode="text")
            findings = {finding.name: finding for finding in await store.doctor()}
            assert not findings["pgvector"].ok
            assert "pgvector" in caplog.text
    finally:
        await fetch(url, "DROP OWNED BY visitor")
        await fetch(url, "DROP ROLE visitor")


async def test_removing_items_removes_their_vectors(store: PostgresMemoryStore, url: str) -> None:
    async def vectors() -> set[str]:
        return {row[0] for row in await fetch(url, "SELECT item_id FROM memory_vectors")}

    assert await vectors() == {"item-0", "item-1", "item-2"}
    await store.delete("item-0")
    assert await vectors() == {"item-1", "item-2"}
    await store.restore("item-0")
    assert await best(store, SENTENCES[0]) == "item-0"
    await store.purge("item-1")
    assert await vectors() == {"item-0", "item-2"}
    await store.clear(metadata=ALICE)
    assert await vectors() == set()


async def test_an_item_with_one_vector_and_several_passages_is_divided_by_reindexing(
    store: PostgresMemoryStore, url: str
) -> None:
    filler = "nothing of note was said in the meeting about the budget. " * 30
    await store.add(HumanMemory(id="long", content=f"{filler}{SENTENCES[2]}. {filler}", metadata=ALICE))
    await fetch(url, "DELETE FROM memory_vectors WHERE part > 0")
    await fetch(url, "UPDATE memory_vectors SET parts = 1")
    found = {each.item.id: each for each in await store.search_ranked(query=SENTENCES[2], mode="semantic")}
    assert (len(found), found["long"].passage) == (4, "")
    await store.reindex()
    found = {each.item.id: each for each in await store.search_ranked(query=SENTENCES[2], mode="semantic")}
    assert (len(found), SENTENCES[2] in found["long"].passage) == (4, True)


async def test_a_store_without_an_embedder_removes_vectors_too(store: PostgresMemoryStore, url: str) -> None:
    async with PostgresMemoryStore(url) as plain:
        await plain.clear(metadata=ALICE)
    assert await fetch(url, "SELECT FROM memory_vectors") == []


async def test_a_change_by_a_store_without_an_embedder_makes_the_vector_stale(
    store: PostgresMemoryStore, url: str
) -> None:
    async with PostgresMemoryStore(url) as plain:
        await plain.add(HumanMemory(id="item-0", content="something else entirely", metadata=ALICE))
    found = await store.search(query=SENTENCES[0], metadata=ALICE, mode="semantic")
    assert "item-0" not in [item.id for item in found]
    findings = {finding.name: finding for finding in await store.doctor()}
    assert "1 items have none" in findings["pgvector"].detail
    await store.reindex()
    assert await best(store, "something else entirely") == "item-0"


async def test_a_search_that_is_broken_off_breaks_the_embedder_off(url: str) -> None:
    embeddings = WaitingEmbeddings()
    async with PostgresMemoryStore(url, embeddings=embeddings) as store:
        search = asyncio.create_task(store.search(query="cat", metadata=ALICE, mode="hybrid"))
        await embeddings.begun.wait()
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
        assert embeddings.ended.is_set()


async def test_a_failing_embedder_fails_a_search_by_words_and_meaning(url: str) -> None:
    embeddings = FailingEmbeddings()
    async with PostgresMemoryStore(url, embeddings=embeddings) as store:
        await store.add(said(0))
        embeddings.failing = True
        with pytest.raises(EmbeddingError):
            await store.search(query="cat", metadata=ALICE, mode="hybrid")


@pytest.mark.parametrize("whole_scope", [1_000, 1])
async def test_a_stale_vector_counts_for_nothing_beside_words(
    store: PostgresMemoryStore, url: str, whole_scope: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (scope_cache, text_search):
        monkeypatch.setattr(module, "WHOLE_SCOPE", whole_scope)
    async with PostgresMemoryStore(url) as plain:
        await plain.reindex()
        await plain.add(HumanMemory(id="item-0", content="no cat is anywhere", metadata=ALICE))
    ranked = await store.search_ranked(query=SENTENCES[0], metadata=ALICE, mode="hybrid")
    assert "semantic" not in {hit.item.id: hit.parts for hit in ranked}["item-0"]


async def test_another_model_says_so_and_reindexing_mends_it(
    store: PostgresMemoryStore, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with PostgresMemoryStore(url, embeddings=NamedEmbeddings("two", 32)) as other:
        assert "one (64 dimensions)" in caplog.text
        for mode in ("semantic", "hybrid"):
            with pytest.raises(OtherModelError, match=r"one \(64 dimensions\).*two \(32 dimensions\)"):
                await other.search(query="cat", metadata=ALICE, mode=mode)
        assert await best(other, "cat", "text") == "item-0"
        await other.add(HumanMemory(id="new", content="an owl in the attic", metadata=ALICE))
        progress: list[tuple[int, int]] = []
        assert await other.reindex(progress=lambda done, total: progress.append((done, total))) == 4
        assert progress[-1][0] == progress[-1][1]
        assert await best(other, "the owl in the attic") == "new"
        assert await best(other, SENTENCES[2]) == "item-2"
    with pytest.raises(OtherModelError):
        await store.search(query="cat", mode="semantic")
    await store.add(HumanMemory(id="from the old one", content="still stored", metadata=ALICE))
    assert (await store.get("from the old one")) is not None


async def test_a_failing_embedder_stores_nothing_and_keeps_what_was_there(url: str) -> None:
    embeddings = FailingEmbeddings(16)
    async with PostgresMemoryStore(url, embeddings=embeddings) as store:
        await store.add(said(0))
        embeddings.failing = True
        with pytest.raises(EmbeddingError):
            await store.add(HumanMemory(id="item-0", content="never", metadata=ALICE))
        with pytest.raises(EmbeddingError):
            await store.add_many([said(1), said(2)])
        assert await store.count() == 1
        found = await store.get("item-0")
        assert found is not None
        assert found.content == SENTENCES[0]


async def test_a_vector_of_zeros_is_similar_to_nothing(url: str, scopes: None) -> None:
    async with PostgresMemoryStore(url, embeddings=HashingEmbeddings(16)) as store:
        await store.add(HumanMemory(id="zero", content="?!", metadata=ALICE))
        await store.add_many([said(0), said(1)])
        await store.reindex()
        found = await store.search_ranked(query=SENTENCES[0], metadata=ALICE, mode="semantic")
        assert found[0].item.id == "item-0"
        assert {hit.item.id: hit.score for hit in found}["zero"] == 0


async def test_a_query_is_embedded_without_the_names_of_those_who_took_part_lately(url: str, scopes: None) -> None:
    asked: list[str] = []

    class Recorded(HashingEmbeddings):
        async def aembed_query(self, text: str) -> list[float]:
            asked.append(text)
            return self.embed(text)

    lately = [
        HumanMemory(content="my sister sings", name="Grace", metadata=ALICE),
        HumanMemory(content="Ana: hello there", metadata=ALICE),
        HumanMemory(content="Thanks, Ada! That helps", metadata=ALICE),
        MemoryItem(content="a note", memory_type="note", metadata=ALICE),
    ]
    early = HumanMemory(content="I sing", name="Boris", created_at="2020-01-01", metadata=ALICE)
    between = [HumanMemory(content=f"so {number}", created_at="2021-01-01", metadata=ALICE) for number in range(HEARD)]
    async with PostgresMemoryStore(url, embeddings=Recorded(16)) as store:
        await store.add_many([early, *lately, *between])
        await store.reindex()
        for mode in ("semantic", "hybrid"):
            await store.search(query="What did Grace, Ana, Ada and Boris note about songs?", metadata=ALICE, mode=mode)
        assert [[word for word in text.replace(",", " ").split() if word[0].isupper()] for text in asked] == [
            ["What", "Boris"]
        ] * 2
        assert all("note" in text for text in asked)


async def test_vectors_too_long_for_an_index_are_searched_as_well(url: str, scopes: None) -> None:
    async with PostgresMemoryStore(url, embeddings=HashingEmbeddings(3_072)) as store:
        await store.add_many([said(number) for number in range(3)])
        await store.reindex()
        assert await best(store, SENTENCES[1]) == "item-1"


async def test_concurrent_adds_with_vectors_are_all_found(url: str) -> None:
    async with PostgresMemoryStore(url, embeddings=HashingEmbeddings(32)) as store:
        words = [f"word{number} thing" for number in range(40)]
        await asyncio.gather(*(store.add(HumanMemory(id=word, content=word, metadata=ALICE)) for word in words))
        for word in words[::8]:
            assert await best(store, word) == word


USERS, EACH, QUESTIONS = 66, 330, 20


class ClusteredEmbeddings(Embeddings):
    """Vectors around centres, as those of real texts are. A text ends in the number of its row."""

    model = "clustered"

    def __init__(self, dimension: int = 32, centres: int = 200) -> None:
        randomly = numpy.random.default_rng(5)
        rows = USERS * EACH + QUESTIONS
        middle = randomly.normal(size=(centres, dimension))[randomly.integers(centres, size=rows)]
        matrix = middle + randomly.normal(scale=0.6, size=(rows, dimension))
        self.matrix = (matrix / numpy.linalg.norm(matrix, axis=1, keepdims=True)).astype(numpy.float32)

    @property
    def dimension(self) -> int:
        return int(self.matrix.shape[1])

    def embed(self, text: str) -> list[float]:
        return self.matrix[int(text.split()[-1])].tolist()

    async def aembed(self, text: str) -> list[float]:
        return self.embed(text)

    def nearest(self, question: int, rows: numpy.ndarray[Any, Any]) -> set[str]:
        scores = self.matrix[rows] @ self.matrix[question]
        return {f"{row:06d}" for row in rows[scores.argsort()[::-1][:10]]}


@pytest_asyncio.fixture
async def many(url: str, scopes: None) -> AsyncIterator[tuple[PostgresMemoryStore, ClusteredEmbeddings]]:
    """66 users with 330 items each."""
    embeddings = ClusteredEmbeddings()
    async with PostgresMemoryStore(url, timeout=300) as plain:
        for user in range(USERS):
            scope = MemoryMetadata(user_id=f"u{user}", agent_id=f"a{user % 3}")
            numbers = range(user * EACH, (user + 1) * EACH)
            await plain.add_many(
                [HumanMemory(id=f"{number:06d}", content=f"memory {number}", metadata=scope) for number in numbers]
            )
    async with PostgresMemoryStore(url, embeddings=embeddings, timeout=300) as store:
        await store.reindex()
        yield store, embeddings


@pytest.mark.slow
async def test_filtered_search_finds_the_true_nearest(
    many: tuple[PostgresMemoryStore, ClusteredEmbeddings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """recall@10 against exact search is at least 0.95, whatever part of some 22,000 items the filter leaves."""
    store, embeddings = many
    # Where scopes are large, the index answers for a third of so many items; one user's are compared one by one.
    monkeypatch.setattr(vectors, "EXACT_BELOW", USERS * EACH // 3 - 1)
    rows = numpy.arange(USERS * EACH)

    def scoped(scope: str, number: int) -> tuple[MemoryMetadata | None, numpy.ndarray[Any, Any]]:
        if scope == "one user":
            return MemoryMetadata(user_id=f"u{number * 3}"), rows[rows // EACH == number * 3]
        if scope == "a third of all users":
            return MemoryMetadata(agent_id=f"a{number % 3}"), rows[rows // EACH % 3 == number % 3]
        return None, rows

    recalls = {}
    for scope in ("one user", "a third of all users", "everything"):
        found = 0
        for number in range(QUESTIONS):
            metadata, inside = scoped(scope, number)
            question = USERS * EACH + number
            items = await store.search(query=f"question {question}", metadata=metadata, mode="semantic", limit=10)
            found += len(embeddings.nearest(question, inside) & {item.id for item in items})
        recalls[scope] = found / (10 * QUESTIONS)
    assert min(recalls.values()) >= 0.95, recalls
