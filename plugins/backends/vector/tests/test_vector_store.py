"""What the vector store does beyond the kit: search by meaning, by words and by both, and bad vectors."""

from __future__ import annotations

import asyncio
import math
import sys
import weakref
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memoranda
import memoranda_vector
from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, MemoryStatus
from memoranda.errors import BadVectorError, EmbeddingError, IdConflictError, InputError, UnsupportedError
from memoranda.store import InMemoryStore, Observer
from memoranda_backend.ranking import HashingEmbeddings, Weights, checked_vector, embed_query, likeness
from memoranda_vector import Embeddings, VectorMemoryStore


class Table(Embeddings):
    """Vectors by text; what is not listed has the zero vector. Remembers what it was asked."""

    def __init__(self, vectors: dict[str, Any], dimension: int = 2) -> None:
        self.vectors = vectors
        self.asked: list[str] = []
        self._dimension = dimension

    @property
    def dimension(self) -> int:
        return self._dimension

    def embed(self, text: str) -> list[float]:
        self.asked.append(text)
        vector = self.vectors.get(text, [0.0] * self._dimension)
        if isinstance(vector, Exception):
            raise vector
        return vector  # type: ignore[no-any-return]  # bad vectors are part of the tests

    async def aembed(self, text: str) -> list[float]:
        await asyncio.sleep(0)
        return self.embed(text)


def contents(items: Sequence[MemoryItem]) -> list[str]:
    return [item.content for item in items]


def turn(content: str, minute: int = 0, **fields: Any) -> HumanMemory:
    return HumanMemory(content=content, created_at=f"2024-05-01T10:{minute:02d}:00", **fields)


COMPASS = {"east": [1, 0], "north": [0, 1], "west": [-1, 0], "north-east": [1, 1], "?": [1, 0.1]}


async def compass() -> VectorMemoryStore:
    store = VectorMemoryStore(Table(COMPASS))
    await store.add_many([turn(name, minute) for minute, name in enumerate(COMPASS) if name != "?"])
    return store


# By meaning


async def test_a_query_finds_the_nearest_first() -> None:
    store = await compass()
    assert contents(await store.search(query="?")) == ["east", "north-east", "north", "west"]
    assert contents(await store.search(query="?", limit=2)) == ["east", "north-east"]


async def test_without_a_query_the_newest_come_first() -> None:
    assert contents(await (await compass()).search()) == ["north-east", "west", "north", "east"]


async def test_a_ranked_search_tells_the_cosine_where_unrelated_texts_have_none() -> None:
    ranked = await (await compass()).search_ranked(query="?")
    cosines = [math.cos(math.atan2(0.1, 1) - angle) for angle in (0, math.pi / 4, math.pi / 2, math.pi)]
    expected = [max(0.0, cosine) for cosine in cosines]
    assert [found.score for found in ranked] == pytest.approx(expected, abs=1e-6)
    assert [found.parts for found in ranked] == [{"semantic": found.score} for found in ranked]


class Listed(Table):
    """Fails on what is not listed."""

    def embed(self, text: str) -> list[float]:
        vector = super().embed(text)
        if text not in self.vectors:
            raise LookupError(text)
        return vector

    async def aembed_many(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.embed(text) for text in texts]


async def test_an_embedder_that_fails_on_unrelated_texts_is_not_asked_for_them_by_every_search() -> None:
    embeddings = Listed(COMPASS)
    store = VectorMemoryStore(embeddings)
    await store.add(turn("east"))
    for _ in range(3):
        (found,) = await store.search_ranked(query="?")
        assert found.score == pytest.approx(math.cos(math.atan2(0.1, 1)))
    assert len([text for text in embeddings.asked if text not in COMPASS]) == 1


async def test_the_length_of_a_vector_does_not_matter() -> None:
    store = VectorMemoryStore(Table({"far": [1e-20, 1e-20], "near": [3e30, 0], "?": [1e-12, 0]}))
    await store.add_many([turn("far"), turn("near")])
    assert [found.score for found in await store.search_ranked(query="?")] == pytest.approx([1, math.sqrt(0.5)])


async def test_a_zero_vector_ranks_last() -> None:
    store = await compass()
    await store.add(turn("nowhere", 59))
    ranked = await store.search_ranked(query="?")
    assert contents([found.item for found in ranked])[-2:] == ["west", "nowhere"]
    assert ranked[-1].score == 0.0


async def test_a_query_with_the_zero_vector_finds_the_newest_first() -> None:
    assert contents(await (await compass()).search(query="unknown", limit=2)) == ["north-east", "west"]


async def test_of_equals_the_newest_come_first() -> None:
    store = VectorMemoryStore(Table({}))
    await store.add_many([turn(f"{number}", number % 7) for number in range(30)])
    by_time = sorted(range(30), key=lambda number: (number % 7, number), reverse=True)
    assert contents(await store.search(query="?", limit=4)) == [str(number) for number in by_time[:4]]


async def test_filters_come_before_the_ranking() -> None:
    store = VectorMemoryStore(Table(COMPASS))
    for number in range(40):
        await store.add(turn("east", metadata=MemoryMetadata(user_id=f"u{number % 2}")))
    await store.add(turn("west", metadata=MemoryMetadata(user_id="u0", session_id="s", extra={"k": 1})))
    await store.add(AIMemory(content="north", status=MemoryStatus.DRAFT, metadata=MemoryMetadata(user_id="u1")))
    await store.add(turn("north-east", archived_by="summary", metadata=MemoryMetadata(user_id="u2")))
    for filters, expected in (
        ({"metadata": MemoryMetadata(user_id="u0", session_id="s")}, ["west"]),
        ({"metadata": MemoryMetadata(session_id="s", agent_id="a")}, []),
        ({"metadata": MemoryMetadata(extra={"k": 1})}, ["west"]),
        ({"memory_type": "ai"}, ["north"]),
        ({"status": MemoryStatus.DRAFT}, ["north"]),
        ({"metadata": MemoryMetadata(user_id="u2")}, []),
        ({"metadata": MemoryMetadata(user_id="nobody")}, []),
    ):
        assert contents(await store.search(query="?", limit=5, **filters)) == expected  # type: ignore[arg-type]


async def test_the_names_of_speakers_are_not_embedded() -> None:
    embeddings = Table({})
    store = VectorMemoryStore(embeddings)
    ours, theirs = MemoryMetadata(user_id="u"), MemoryMetadata(user_id="v")
    await store.add(turn("hello", name="Ana Sol", metadata=ours))
    await store.add(turn("Ben: hello", metadata=ours))
    await store.add(turn("hello", name="Paris", metadata=theirs))
    embeddings.asked.clear()
    await store.search(query="What did Ana tell Ben about Paris?", metadata=ours)
    assert embeddings.asked[0] == "What did tell about Paris?"


async def test_adding_in_bulk_embeds_in_one_call() -> None:
    calls = []

    class Counting(Table):
        async def aembed_many(self, texts: Sequence[str]) -> list[list[float]]:
            calls.append(len(texts))
            return [[1.0, 0.0] for _ in texts]

    await VectorMemoryStore(Counting({})).add_many([turn(str(number)) for number in range(10)])
    assert calls == [10]


class Numbers(list[float]):
    """A list of which it can be told how many there are."""


class Counted(Embeddings):
    """Gives one vector at a time, and remembers how many of its lists there were at once."""

    dimension = 16

    def __init__(self) -> None:
        self.held: weakref.WeakValueDictionary[int, Numbers] = weakref.WeakValueDictionary()
        self.most = 0

    def embed(self, text: str) -> list[float]:
        number = int(text)
        randomly = Random(number)
        vector = self.held[number] = Numbers(randomly.uniform(-1, 1) for _ in range(self.dimension))
        self.most = max(self.most, len(self.held))
        return vector

    async def aembed(self, text: str) -> list[float]:
        return self.embed(text)


async def test_a_large_batch_with_one_new_id_for_two_users_is_refused_before_the_embedder_is_asked() -> None:
    embedder = Table({})
    store = VectorMemoryStore(embedder)
    batch = [turn(f"{number}", id=f"{number}", metadata=MemoryMetadata(user_id="ada")) for number in range(600)]
    with pytest.raises(IdConflictError):
        await store.add_many([*batch, turn("mine", id="5", metadata=MemoryMetadata(user_id="bob"))])
    assert (len(store), embedder.asked) == (0, [])


async def test_a_large_batch_holds_few_of_the_lists_that_an_embedder_gives_one_by_one() -> None:
    embedder = Counted()
    store = VectorMemoryStore(embedder)
    await store.add_many([turn(str(number)) for number in range(5_001)])
    assert embedder.most < 2_500
    for number in (0, 1_024, 5_000):
        (found,) = await store.search(query=str(number), limit=1)
        assert found.content == str(number)


async def test_the_caller_may_change_an_item_while_it_is_embedded() -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()

    class Held(Table):
        async def aembed(self, text: str) -> list[float]:
            asked.set()
            await may_answer.wait()
            return [1.0, 0.0]

    store = VectorMemoryStore(Held({}))
    item = turn("before")
    adding = asyncio.create_task(store.add(item))
    await asked.wait()
    item.content = "after"
    may_answer.set()
    await adding
    assert contents(await store.search()) == ["before"]


# Bad vectors

BAD: list[Any] = [[], [1.0], [1.0, 2.0, 3.0], [math.nan, 1.0], [math.inf, 1.0], [1e300, 1.0], "ab", None, [None, 1.0]]


@pytest.mark.parametrize("bad", BAD)
async def test_a_bad_vector_is_refused_and_what_was_stored_stays(bad: Any) -> None:
    store = VectorMemoryStore(Table({**COMPASS, "bad": bad}))
    item = turn("east")
    await store.add(item)
    with pytest.raises(BadVectorError):
        await store.add(turn("bad"))
    with pytest.raises(EmbeddingError):
        await store.add_many([turn("north"), turn("bad")])
    with pytest.raises(BadVectorError):
        await store.add(turn("bad", id=item.id))
    with pytest.raises(BadVectorError):
        await store.search(query="bad")
    with pytest.raises(BadVectorError):
        await store.search(query="bad", mode="hybrid")
    assert contents(await store.search(query="?")) == ["east"]
    assert (await store.search())[0].version == 1


async def test_a_failing_provider_changes_nothing() -> None:
    store = VectorMemoryStore(Table({**COMPASS, "bad": RuntimeError("down")}))
    await store.add(turn("east"))
    with pytest.raises(EmbeddingError) as caught:
        await store.add_many([turn("north"), turn("bad")])
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert contents(await store.search()) == ["east"]


async def test_words_are_found_while_the_provider_fails() -> None:
    embeddings = Table(dict(COMPASS))
    store = VectorMemoryStore(embeddings)
    await store.add(turn("east"))
    embeddings.vectors["the east"] = RuntimeError("down")
    assert contents(await store.search(query="the east", mode="text")) == ["east"]


@pytest.mark.parametrize("dimension", [0, -1, None, "3"])
def test_an_embedder_without_a_dimension_is_refused(dimension: Any) -> None:
    with pytest.raises(InputError, match="dimension"):
        VectorMemoryStore(Table({}, dimension))


async def test_given_vectors_need_no_embedder() -> None:
    embeddings = Table({"?": [1.0, 0.0]})
    store = VectorMemoryStore(embeddings)
    await store.add_vectors([turn("a"), turn("b")], np.array([[0.0, 2.0], [3.0, 0.0]]))
    assert embeddings.asked == []
    assert contents(await store.search(query="?")) == ["b", "a"]


async def test_vectors_that_come_with_items_stay_with_them_where_an_observer_withholds_one() -> None:
    class Withholding(Observer):
        def hides(self, item: MemoryItem) -> bool:
            return item.content == "hide me"

        def stand_in(self, item: MemoryItem) -> MemoryItem | None:
            return HumanMemory(content="Something was withheld.", metadata=item.metadata)

    store = VectorMemoryStore(HashingEmbeddings(16))
    store.observe(Withholding())
    vectors = [store.embeddings.embed(text) for text in ("hide me", "a red bicycle")]
    await store.add_vectors([HumanMemory(content="hide me"), HumanMemory(content="a red bicycle")], vectors)

    found = await store.search(query="a red bicycle", mode="semantic", limit=1)
    assert [item.content for item in found] == ["a red bicycle"]
    assert "hide me" not in [item.content for item in await store.search(limit=9)]


@pytest.mark.parametrize(
    "bad", [[[1.0, 0.0]], [[1.0], [2.0]], [[1.0, 0.0], [math.nan, 0.0]], [["1", "2"], ["3", "4"]], 7]
)
async def test_bad_given_vectors_are_refused(bad: Any) -> None:
    store = VectorMemoryStore(Table({}))
    with pytest.raises(EmbeddingError):
        await store.add_vectors([turn("a"), turn("b")], bad)
    assert len(store) == 0


# Removing


async def test_removed_items_are_not_found_by_meaning_or_words() -> None:
    store = await compass()
    assert contents(await store.search(query="east", mode="hybrid"))[0] == "east"
    ids = {item.content: item.id for item in await store.search()}
    await store.delete(ids["east"])
    await store.purge(ids["north"])
    assert contents(await store.search(query="?")) == ["north-east", "west"]
    assert contents(await store.search(query="east north", mode="text")) == ["north-east", "west"]
    await store.clear()
    assert await store.search(query="?") == []
    assert len(store) == 0


async def test_restoring_embeds_again() -> None:
    embeddings = Table(COMPASS)
    store = VectorMemoryStore(embeddings)
    item = turn("east")
    await store.add(item)
    await store.delete(item.id)
    embeddings.asked.clear()
    assert await store.restore(item.id) == 1
    assert embeddings.asked == ["east"]
    assert contents(await store.search(query="?")) == ["east"]


async def test_a_restore_that_cannot_embed_leaves_the_item_in_the_bin() -> None:
    embeddings = Table(dict(COMPASS))
    store = VectorMemoryStore(embeddings)
    item = turn("east")
    await store.add(item)
    await store.delete(item.id)
    embeddings.vectors["east"] = RuntimeError("down")
    with pytest.raises(EmbeddingError):
        await store.restore(item.id)
    embeddings.vectors["east"] = [1.0, 0.0]
    assert await store.restore() == 1


async def test_a_replaced_item_has_its_new_vector_only() -> None:
    store = await compass()
    item = (await store.search(query="?", limit=1))[0]
    item.content = "west"
    await store.add(item)
    assert contents(await store.search(query="?", limit=1)) == ["north-east"]
    assert len(store) == 4


operations = st.lists(
    st.tuples(st.sampled_from(["add", "add_many", "delete", "restore", "purge", "clear"]), st.integers(0, 15)),
    max_size=25,
)


@given(operations)
def test_after_any_operations_a_search_finds_what_a_loop_finds(steps: list[tuple[str, int]]) -> None:
    """Rows are reused; no vector may outlive its item or be compared for another one."""

    async def check() -> None:
        embeddings = HashingEmbeddings(16)
        store = VectorMemoryStore(embeddings)
        for count, (step, number) in enumerate(steps):
            scope = MemoryMetadata(user_id=f"u{number % 3}")
            item = turn(f"word{number} and word{count}", count, id=f"i{number}", metadata=scope)
            if step == "add":
                await store.add(item)
            elif step == "add_many":
                others = [turn(f"word{count} {n}", count, id=f"b{count}.{n}", metadata=scope) for n in range(3)]
                await store.add_many([*others, item])
            elif step in ("delete", "restore", "purge"):
                await getattr(store, step)(f"i{number}")
            else:
                await store.clear(metadata=scope)
            await store.search(query="word1", mode="text")
        for scope in (None, *(MemoryMetadata(user_id=f"u{number}") for number in range(3))):
            items = await store.search(metadata=scope, limit=99)
            query = checked_vector(embeddings.embed("word1 word2"), 16)
            _, level = await embed_query(embeddings, "word1 word2")
            cosines = [_cosine(query, embeddings.embed(item.content)) for item in items]
            expected = sorted((likeness(cosine, level) for cosine in cosines), reverse=True)
            ranked = await store.search_ranked(query="word1 word2", metadata=scope, limit=99)
            assert [found.score for found in ranked] == pytest.approx(expected, abs=1e-5)
            assert {found.item.id for found in ranked} == {item.id for item in items}
            hits = await store.search(query="word1", metadata=scope, mode="text", limit=99)
            assert {item.id for item in hits} >= {item.id for item in items if "word1" in item.content.split()}
            assert {item.id for item in hits} <= {item.id for item in items}

    asyncio.run(check())


def _cosine(left: Sequence[float], right: Sequence[float]) -> float:
    return float(np.dot(left, right) / (np.linalg.norm(left) * np.linalg.norm(right)))


# By words, and by both


async def talk(**options: Any) -> VectorMemoryStore:
    store = VectorMemoryStore(HashingEmbeddings(), **options)
    lines = [
        ("Ana", "Which instrument do you play?"),
        ("Ben", "The violin, since I was five."),
        ("Ana", "I went hiking in the Alps last week."),
        ("Ben", "Sounds lovely."),
    ]
    scope = MemoryMetadata(user_id="u", session_id="s")
    await store.add_many([turn(line, number, name=name, metadata=scope) for number, (name, line) in enumerate(lines)])
    return store


async def test_words_find_the_answer_through_its_question() -> None:
    store = await talk()
    ranked = await store.search_ranked(query="What instrument does Ben play?", mode="text")
    assert [found.item.content for found in ranked[:1]] == ["The violin, since I was five."]
    assert ranked[0].parts["speaker"] > 0


async def test_a_hybrid_search_tells_both_parts() -> None:
    ranked = await (await talk()).search_ranked(query="Who hikes in mountains?", mode="hybrid")
    assert ranked[0].item.content == "I went hiking in the Alps last week."
    assert ranked[0].terms == ("hike",)
    assert {"text", "semantic"} <= ranked[0].parts.keys()


async def test_filters_of_type_and_status_apply_to_hybrid_search() -> None:
    store = await talk()
    assert await store.search(query="violin", mode="hybrid", memory_type="ai") == []
    assert len(await store.search(query="violin", mode="hybrid", memory_type="human", limit=2)) == 2


async def test_other_scopes_do_not_count_in_a_hybrid_search() -> None:
    store = await talk()
    other = MemoryMetadata(user_id="v", session_id="s")
    await store.add_many([turn("a violin", number, metadata=other) for number in range(5)])
    found = await store.search(query="violin", mode="hybrid", metadata=MemoryMetadata(user_id="u"), limit=99)
    assert {item.metadata.user_id for item in found} == {"u"}
    assert len(found) == 4


async def test_weights_are_an_option() -> None:
    store = await talk(weights=Weights(before=0, after=0, session=0))
    assert contents(await store.search(query="instrument", mode="text")) == ["Which instrument do you play?"]


async def test_a_text_search_over_many_items_keeps_to_the_rarest_terms() -> None:
    store = VectorMemoryStore(HashingEmbeddings(8))
    many = [
        turn(f"common talk {number}", metadata=MemoryMetadata(user_id=f"u{number % 50}")) for number in range(5_000)
    ]
    await store.add_vectors([*many, turn("common violin")], np.ones((5_001, 8)))
    assert contents(await store.search(query="common violin", mode="text", limit=1)) == ["common violin"]


# The approximate index


async def test_the_approximate_index_finds_almost_what_the_exact_search_finds() -> None:
    random = np.random.default_rng(3)
    vectors = random.standard_normal((3_000, 16))
    items = [turn(str(number)) for number in range(len(vectors))]
    queries = {f"q{number}": vectors[number] + 0.1 for number in range(20)}
    exact = VectorMemoryStore(Table(queries, 16))
    approximate = VectorMemoryStore(Table(queries, 16), ann=True, ann_above=1_000)
    for store in (exact, approximate):
        await store.add_vectors(items, vectors)
        for item in items[::3]:
            await store.purge(item.id)
    found = 0
    for query in queries:
        wanted = {item.id for item in await exact.search(query=query)}
        found += len(wanted & {item.id for item in await approximate.search(query=query)})
    assert found >= 0.95 * 200


async def test_the_approximate_index_follows_changes() -> None:
    western = {f"w{number}": [-1.0, math.tan((number - 25) / 20)] for number in range(50)}
    store = VectorMemoryStore(Table(COMPASS | western), ann=True, ann_above=10)
    await store.add_many([turn(name) for name in western])
    item = turn("north")
    await store.add(item)
    assert contents(await store.search(query="?", limit=1)) == ["north"]
    item.content = "west"
    await store.add(item)
    await store.add(turn("east"))
    found = contents(await store.search(query="?", limit=2))
    assert found[0] == "east"
    assert found[1] in western


def test_the_approximate_index_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(
        UnsupportedError,
        match=r"pip install 'memoranda-vector\[ann\]'",
    ):
        VectorMemoryStore(HashingEmbeddings(), ann=True)


def test_the_embedder_of_another_distribution_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "memoranda_openai", None)
    monkeypatch.delitem(sys.modules, "memoranda_openai.embeddings", raising=False)
    monkeypatch.delitem(vars(memoranda_vector), "OpenAIEmbeddings", raising=False)
    with pytest.raises(
        ModuleNotFoundError,
        match=r"pip install 'memoranda\[openai\]'",
    ):
        _ = memoranda_vector.OpenAIEmbeddings


# Opening, and what the seeds document


async def test_it_opens_from_a_url_with_a_named_embedder() -> None:
    async with memoranda.open("vector://?embeddings=hashing") as store:
        await store.add(HumanMemory(content="I love hiking"))
        assert contents(await store.search(query="hikes")) == ["I love hiking"]
    async with memoranda.open("vector://", embeddings="hashing", ann=True) as store:
        assert type(store) is VectorMemoryStore


def test_opening_without_an_embedder_says_what_to_give() -> None:
    with pytest.raises(InputError, match="embeddings"):
        memoranda.open("vector://")


async def test_repr_len_and_embeddings() -> None:
    embeddings = HashingEmbeddings(32)
    store = VectorMemoryStore(embeddings)
    await store.add(HumanMemory(content="x"))
    assert repr(store) == "VectorMemoryStore(items=1, dimension=32)"
    assert (len(store), store.embeddings) == (1, embeddings)


async def test_the_documented_example() -> None:
    store = VectorMemoryStore(HashingEmbeddings())
    await store.add(HumanMemory(content="I love hiking in the mountains"))
    await store.add(HumanMemory(content="Python is my favorite language"))
    await store.add(AIMemory(content="That's great! The outdoors are wonderful."))
    results = await store.search(query="outdoor activities", limit=2)
    assert results[0].content == "That's great! The outdoors are wonderful."


async def test_adds_during_the_first_search_by_words_are_found() -> None:
    """The index of words is built in parts; what changes meanwhile is part of it."""
    store = VectorMemoryStore(HashingEmbeddings(4))
    items = [turn(f"word{number}") for number in range(3_000)]
    await store.add_vectors(items, np.ones((3_000, 4)))
    searching = asyncio.create_task(store.search(query="word2999", mode="text"))
    await asyncio.sleep(0)
    await store.add(turn("violin"))
    await store.delete(items[2_998].id)
    assert contents(await searching)[:1] == ["word2999"]
    assert contents(await store.search(query="violin", mode="text", limit=1)) == ["violin"]
    assert "word2998" not in contents(await store.search(query="word2998", mode="text", limit=99))


async def test_a_text_search_for_a_speaker_alone_finds_what_was_said() -> None:
    store = VectorMemoryStore(HashingEmbeddings())
    await store.add(HumanMemory(content="roses in the garden", name="Ada"))
    await store.add(HumanMemory(content="rain all day", name="Grace"))

    found = await store.search(query="Ada", mode="text")

    assert [item.content for item in found][:1] == ["roses in the garden"]


@pytest.mark.parametrize("size", [150, 700])
@pytest.mark.parametrize("query", ["What did Ana say?", "Bram", "7 May 2024", "in June", "2023", "Ana in May"])
async def test_a_speaker_or_a_day_alone_finds_what_the_store_in_memory_finds(size: int, query: str) -> None:
    """Whatever the size of the scope: each item is a session of its own here, so that no neighbours are found."""
    random = Random(size)
    days = ["2023-12-31", "2024-05-07", "2024-05-08", "2024-06-01"]
    items = [
        kind(
            id=str(number),
            content=random.choice(["saffron", "Ana: two lemons", "a telescope", "the 7 of hearts"]),
            name=random.choice([None, None, "Ana", "Bram Stoker"]),
            metadata=MemoryMetadata(user_id="ada", session_id=str(number)),
            created_at=f"{random.choice(days)}T10:{number % 60:02d}:00",
        )
        for number, kind in enumerate(random.choices([HumanMemory, AIMemory], k=size))
    ]
    vector, memory = VectorMemoryStore(Table({})), InMemoryStore()
    await vector.add_many(items)
    await memory.add_many(items)
    found, wanted = [
        {item.id for item in await store.search(query=query, mode="text", limit=size)} for store in (vector, memory)
    ]
    assert found == wanted != set()


# Others


def saffron(many: int, metadata: MemoryMetadata) -> list[MemoryItem]:
    """Return so many items with the same word that not all of them are ranked."""
    return [
        HumanMemory(
            id=f"{metadata.user_id}-{number}",
            content=f"saffron {number}",
            metadata=metadata,
            created_at=f"2024-05-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}",
        )
        for number in range(many)
    ]


@pytest.mark.parametrize("mode", ["text", "hybrid"])
async def test_where_others_items_lay_does_not_choose_among_mine(mode: Any) -> None:
    """Rows that others left are given to my later items, which makes them no older."""
    mine, theirs = MemoryMetadata(user_id="ada"), MemoryMetadata(user_id="eve")
    items = saffron(1_300, mine)
    rankings = []
    for others in ([], saffron(600, theirs)):
        store = VectorMemoryStore(Table({}))
        await store.add_many(others)
        await store.add_many(items[:700])
        await store.purge(metadata=theirs)
        await store.add_many(items[700:])
        ranked = await store.search_ranked(query="saffron", metadata=mine, mode=mode, limit=1_300)
        rankings.append([(found.item.id, found.score) for found in ranked])
    assert rankings[0] == rankings[1]


async def test_items_that_do_not_match_take_no_place_in_a_large_scope() -> None:
    mine = MemoryMetadata(user_id="ada")
    letter = MemoryItem(content="saffron", memory_type="letter", metadata=mine, created_at="2023-01-01")
    store = VectorMemoryStore(Table({}))
    await store.add_many([letter, *saffron(1_300, mine)])
    found = await store.search(query="saffron", metadata=mine, mode="text", memory_type="letter")
    assert [item.id for item in found] == [letter.id]
