"""What stores with vectors ask of their embedder: every text once, and none without text."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import memoranda
from memoranda import HumanMemory, MemoryItem, MemoryStatus, Store
from memoranda.embeddings import Embeddings
from memoranda.store import Capability, SearchMode
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_encrypt import KeyRing, LocalMasterKey
from memoranda_postgres import PostgresMemoryStore
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_summary import SummaryConfig, compact
from memoranda_vector import VectorMemoryStore
from servers import postgres_server

# Long, and other modules see most faults first: a sample runs by default.
pytestmark = pytest.mark.rare("embedder calls")

BLANKS = ["", "   ", "\n\t\r\n", "\u00a0\u2003\u3000", "\x1c\x1f\x85\u2028"]
TEA, CAT = "green tea in the morning", "the cat sleeps on the radiator"


class Counting(HashingEmbeddings):
    """Remembers what it was asked."""

    model = "counting"

    def __init__(self) -> None:
        super().__init__(dimension=64)
        self.texts: list[str] = []

    async def aembed(self, text: str) -> list[float]:
        self.texts.append(text)
        return self.embed(text)

    async def aembed_many(self, texts: Sequence[str]) -> list[list[float]]:
        self.texts += texts
        return [self.embed(text) for text in texts]

    def asked(self) -> list[str]:
        """Return what was asked since the last time."""
        texts, self.texts = self.texts, []
        return texts


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def embedder(request: pytest.FixtureRequest) -> Any:
    """The embedder of a test: one of the ``kind`` that it names."""
    parameters = getattr(getattr(request.node, "callspec", None), "params", {})
    return parameters.get("kind", Counting)()


@pytest_asyncio.fixture(params=["vector", "sqlite", "postgres", "postgres-partitioned"])
async def store(
    request: pytest.FixtureRequest, embedder: Counting, server: Any, tmp_path: Path
) -> AsyncIterator[Store]:
    if request.param == "vector":
        async with VectorMemoryStore(embedder) as store:
            yield store
    elif request.param == "sqlite":
        async with SQLiteMemoryStore(tmp_path / "agent.db", embeddings=embedder) as store:
            yield store
    elif request.param == "encrypted":
        LocalMasterKey.make_file(tmp_path / "master.key")
        ring = KeyRing(LocalMasterKey.from_file(tmp_path / "master.key"), tmp_path / "keys")
        url = f"sqlite:///{tmp_path / 'sealed.db'}"
        async with memoranda.open(url, embeddings=embedder, encrypt=ring) as store:
            yield store
    else:
        partitions = 3 if request.param.endswith("partitioned") else None
        with server.database() as url:
            async with PostgresMemoryStore(url, embeddings=embedder, partitions=partitions) as store:
                yield store


async def by_meaning(store: Store, query: str) -> list[str]:
    return [item.id for item in await store.search(query=query, mode="semantic", limit=100)]


class Requests(HashingEmbeddings):
    """Counts requests, of one text or of several."""

    def __init__(self) -> None:
        super().__init__(dimension=64)
        self.requests = 0

    async def aembed(self, text: str) -> list[float]:
        self.requests += 1
        return self.embed(text)

    async def aembed_many(self, texts: Sequence[str]) -> list[list[float]]:
        self.requests += 1
        return [self.embed(text) for text in texts]


class OneByOne(Requests):
    """Takes one text at a time."""

    aembed_many = Embeddings.aembed_many


class WithQueries(Requests):
    """Embeds a query otherwise than a text."""

    async def aembed_query(self, query: str) -> list[float]:
        self.requests += 1
        return self.embed(query)


class OtherTexts(HashingEmbeddings):
    """Embeds a text otherwise than its base class, and inherits how that embeds several."""

    def __init__(self) -> None:
        super().__init__(dimension=64)
        self.requests = 0

    async def aembed(self, text: str) -> list[float]:
        self.requests += 1
        return self.embed(text)


FIRST_REQUESTS: list[tuple[type[Any], int]] = [(Requests, 1), (OneByOne, 1), (OtherTexts, 1), (WithQueries, 2)]


@pytest.mark.parametrize(("kind", "first"), FIRST_REQUESTS)
@pytest.mark.parametrize("store", ["vector", "sqlite", "postgres", "encrypted"], indirect=True)
@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
async def test_a_first_search_sends_one_request(
    store: Store, embedder: Any, kind: type[Any], first: int, mode: SearchMode
) -> None:
    await store.add_many([HumanMemory(id="a", content=TEA), HumanMemory(id="b", content=CAT)])
    embedder.requests = 0

    found = await store.search(query="tea", mode=mode, limit=1)

    assert ([item.id for item in found], embedder.requests) == (["a"], first)
    await store.search(query="the cat", mode=mode, limit=1)
    assert embedder.requests == first + 1


Write = Callable[[Store, MemoryItem], Awaitable[Any]]


async def add(store: Store, item: MemoryItem) -> None:
    await store.add(item)


async def add_many(store: Store, item: MemoryItem) -> None:
    await store.add_many([item])


async def update(store: Store, item: MemoryItem) -> None:
    stored = await store.get(item.id)
    await store.update_many([item.model_copy(update={"version": stored.version if stored else 0})])


WRITES = pytest.mark.parametrize("write", [add, add_many, update])


@WRITES
async def test_content_that_is_stored_already_is_not_embedded_again(
    store: Store, embedder: Counting, write: Write
) -> None:
    await store.add(HumanMemory(id="a", content=TEA))
    await store.add(HumanMemory(id="b", content=CAT))
    assert embedder.asked() == [TEA, CAT]

    await write(store, HumanMemory(id="a", content=TEA, status=MemoryStatus.DRAFT, name="Ada"))

    assert embedder.asked() == []
    assert await by_meaning(store, TEA) == ["a", "b"]
    stored = await store.get("a")
    assert stored is not None
    assert (stored.version, stored.name) == (2, "Ada")


@WRITES
async def test_a_vector_stays_the_same_however_often_its_item_is_added(
    store: Store, embedder: Counting, write: Write
) -> None:
    await store.add(HumanMemory(id="a", content=TEA))
    before = await store.search_ranked(query="a cup of tea", mode="semantic")
    for _ in range(3):
        await write(store, HumanMemory(id="a", content=TEA))

    after = await store.search_ranked(query="a cup of tea", mode="semantic")

    assert [found.score for found in after] == [found.score for found in before]


@WRITES
async def test_changed_content_is_embedded(store: Store, embedder: Counting, write: Write) -> None:
    await store.add_many([HumanMemory(id="a", content=TEA), HumanMemory(id="b", content="a bicycle")])
    embedder.asked()

    await write(store, HumanMemory(id="a", content=CAT))

    assert embedder.asked() == [CAT]
    assert await by_meaning(store, CAT) == ["a", "b"]


async def test_of_a_batch_only_what_is_new_is_embedded(store: Store, embedder: Counting) -> None:
    await store.add_many([HumanMemory(id=str(number), content=f"note {number}") for number in range(700)])
    embedder.asked()

    await store.add_many(
        [HumanMemory(id=str(number), content=f"note {max(number, 2)}") for number in [*range(700), 700]]
    )

    assert embedder.asked() == ["note 2", "note 2", "note 700"]
    assert (await by_meaning(store, "note 699"))[0] == "699"


async def test_the_same_content_under_another_id_is_another_item(store: Store, embedder: Counting) -> None:
    await store.add(HumanMemory(id="a", content=TEA))
    await store.add(HumanMemory(id="b", content=TEA))

    assert sorted(await by_meaning(store, TEA)) == ["a", "b"]


async def test_what_was_deleted_and_is_added_again_is_found(store: Store, embedder: Counting) -> None:
    await store.add(HumanMemory(id="a", content=TEA))
    assert Capability.DELETE in store.capabilities
    await store.delete("a")
    await store.add(HumanMemory(id="a", content=TEA))

    assert await by_meaning(store, TEA) == ["a"]


async def test_archiving_asks_only_for_the_summary(store: Store, embedder: Counting) -> None:
    class Model:
        async def summarize(self, prompt: str) -> str:
            return "They talked."

    await store.add_many([HumanMemory(content=f"note {number}") for number in range(6)])
    embedder.asked()

    config = SummaryConfig(templates=("brief",), prompts={"brief": "Sum up."}, keep_recent=2)
    await compact(store, None, config, Model(), force=True)

    assert embedder.asked() == ["They talked."]


@pytest.mark.parametrize("blank", BLANKS)
async def test_an_item_without_text_is_stored_and_never_embedded(store: Store, embedder: Counting, blank: str) -> None:
    await store.add(HumanMemory(id="one", content=blank))
    await store.add_many([HumanMemory(id="two", content=blank), HumanMemory(id="tea", content=TEA)])
    await update(store, HumanMemory(id="three", content=blank))

    assert embedder.asked() == [TEA]
    assert await by_meaning(store, "tea") == ["tea"]
    assert await store.count() == 4


async def test_text_that_becomes_blank_is_not_found_by_its_old_meaning(store: Store, embedder: Counting) -> None:
    await store.add_many([HumanMemory(id="a", content=TEA), HumanMemory(id="b", content=CAT)])
    await store.add(HumanMemory(id="a", content=""))
    await update(store, HumanMemory(id="b", content=" "))

    assert await by_meaning(store, TEA) == []

    await store.add(HumanMemory(id="a", content=TEA))
    assert await by_meaning(store, TEA) == ["a"]


async def test_restoring_and_reindexing_leave_items_without_text_alone(store: Store, embedder: Counting) -> None:
    await store.add_many([HumanMemory(id=f"blank{number}", content=blank) for number, blank in enumerate(BLANKS)])
    await store.add(HumanMemory(id="tea", content=TEA))
    await store.clear()
    embedder.asked()

    await store.restore()
    assert embedder.asked() == [TEA]

    reindex = getattr(store, "reindex", None)
    if reindex is not None:
        await reindex()
        assert embedder.asked() == []
    assert await by_meaning(store, TEA) == ["tea"]


async def test_a_doctor_does_not_miss_vectors_of_items_without_text(store: Store) -> None:
    doctor = getattr(store, "doctor", None)
    if doctor is None:
        pytest.skip("This store has nothing to be examined.")
    await store.add_many([HumanMemory(content=blank) for blank in BLANKS])

    findings = {finding.name: finding for finding in await doctor()}

    assert findings["pgvector" if "pgvector" in findings else "vectors"].ok


async def test_a_query_without_text_is_not_embedded(store: Store, embedder: Counting) -> None:
    await store.add(HumanMemory(id="tea", content=TEA))
    embedder.asked()

    await store.search(query=" \n", mode="semantic")

    assert embedder.asked() == []


async def test_a_ranking_by_words_and_meaning_passes_over_items_without_text(store: Store) -> None:
    await store.add_many([HumanMemory(id="blank", content=" "), HumanMemory(id="tea", content=TEA)])

    found = await store.search_ranked(query="green tea", mode="hybrid")

    assert found[0].item.id == "tea"
