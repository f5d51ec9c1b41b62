"""Vectors in the file: of one model, of the present version, and gone with their items."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from memoranda import HumanMemory, MemoryMetadata
from memoranda.embeddings import Embeddings
from memoranda.errors import EmbeddingError, OtherModelError, StoreClosedError, UnsupportedError
from memoranda_backend.ranking import HashingEmbeddings, Weights
from memoranda_sqlite import SQLiteMemoryStore

TEXTS = ["green tea in the morning", "a bicycle with two flat tyres", "the capital of France is Paris"]


class Other(HashingEmbeddings):
    """Another model: other dimension, other name."""

    model = "other"

    def __init__(self) -> None:
        super().__init__(dimension=64)


class Failing(HashingEmbeddings):
    """Fails while it is told to."""

    failing = False

    async def aembed_many(self, texts: Sequence[str]) -> list[list[float]]:
        if self.failing:
            raise RuntimeError("no answer")
        return await super().aembed_many(texts)

    async def aembed(self, text: str) -> list[float]:
        if self.failing:
            raise RuntimeError("no answer")
        return self.embed(text)

    def identity(self) -> str:
        return "failing"


class Held(HashingEmbeddings):
    """Says when it is asked, and answers when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def aembed(self, text: str) -> list[float]:
        self.asked.set()
        await self.may_answer.wait()
        return self.embed(text)


def vectors_in(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        (count,) = connection.execute("SELECT count(*) FROM memoranda_vectors").fetchone()
        return int(count)
    finally:
        connection.close()


def store_at(path: Path, embeddings: Embeddings | None = None) -> SQLiteMemoryStore:
    return SQLiteMemoryStore(path, embeddings=embeddings or HashingEmbeddings())


async def filled(path: Path) -> None:
    async with store_at(path) as store:
        await store.add_many([HumanMemory(id=text[:5], content=text) for text in TEXTS])


async def test_vectors_are_kept_in_the_file(tmp_path: Path) -> None:
    await filled(tmp_path / "a.db")
    async with store_at(tmp_path / "a.db") as store:
        (found,) = await store.search(query="flat tyres", mode="semantic", limit=1)
        assert found.content == TEXTS[1]
        ranked = await store.search_ranked(query="flat tyres", mode="semantic", limit=3)
        assert [result.score for result in ranked] == sorted((result.score for result in ranked), reverse=True)
        assert all(result.parts == {"semantic": result.score} for result in ranked)


async def test_semantic_search_needs_an_embedder(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        with pytest.raises(UnsupportedError):
            await store.search(query="tea", mode="semantic")


async def test_a_file_of_another_model_says_so_and_reindexing_mends_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.db"
    await filled(path)
    async with store_at(path, Other()) as store:
        assert "reindex" in caplog.text
        with pytest.raises(OtherModelError, match="reindex"):
            await store.search(query="tea", mode="semantic")
        with pytest.raises(OtherModelError):
            await store.search(query="tea", mode="hybrid")
        # Words are found meanwhile, and items can be added.
        assert len(await store.search(query="tea", mode="text", limit=1)) == 1
        await store.add(HumanMemory(id="new", content="an old clock"))
        steps: list[tuple[int, int]] = []
        assert await store.reindex(progress=lambda done, total: steps.append((done, total))) == 4
        assert steps[-1] == (4, 4)
        (found,) = await store.search(query="old clock", mode="semantic", limit=1)
        assert found.id == "new"
    async with store_at(path) as store:
        with pytest.raises(OtherModelError):
            await store.search(query="tea", mode="semantic")


async def test_items_of_programs_without_an_embedder_are_found_after_reindexing(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await filled(path)
    async with SQLiteMemoryStore(path) as store:
        await store.add(HumanMemory(id="green", content="red wine at night"))
        await store.add(HumanMemory(id="late", content="a yellow submarine"))
    async with store_at(path) as store:
        found = await store.search(query="green tea in the morning", mode="semantic", limit=10)
        assert {item.id for item in found} == {"a bic", "the c"}  # An outdated vector is not used.
        assert await store.reindex() == 4
        (first, *_) = await store.search(query="yellow submarine", mode="semantic", limit=10)
        assert first.id == "late"


async def test_reindexing_divides_a_long_item_that_has_one_vector(tmp_path: Path) -> None:
    filler = "nothing of note was said in the meeting about the budget. " * 30
    long = HumanMemory(content=f"{filler}{TEXTS[1]}. {filler}")
    async with SQLiteMemoryStore(
        tmp_path / "m.db", embeddings=HashingEmbeddings(), weights=Weights(passage=0)
    ) as store:
        await store.add(long)
        await store.add(HumanMemory(content=TEXTS[1]))
    async with SQLiteMemoryStore(tmp_path / "m.db", embeddings=HashingEmbeddings()) as store:
        found = {each.item.id: each for each in await store.search_ranked(query=TEXTS[1], mode="semantic")}
        before = found[long.id]
        await store.reindex()
        found = {each.item.id: each for each in await store.search_ranked(query=TEXTS[1], mode="semantic")}
    assert (before.passage, len(found)) == ("", 2)
    assert TEXTS[1] in found[long.id].passage


async def test_vectors_go_with_their_items(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    scope = MemoryMetadata(user_id="ada")
    async with store_at(path) as store:
        items = [HumanMemory(id=str(number), content=f"tea {number}", metadata=scope) for number in range(6)]
        await store.add_many(items)
        assert vectors_in(path) == 6
        await store.delete("0")
        assert vectors_in(path) == 5
        await store.purge("1")
        assert vectors_in(path) == 4
        assert await store.restore("0") == 1
        assert vectors_in(path) == 5
        assert (await store.search(query="tea 0", mode="semantic", limit=1))[0].id == "0"
        await store.clear(metadata=scope)
        assert vectors_in(path) == 0
        await store.purge(metadata=scope)
        assert vectors_in(path) == 0


async def test_nothing_is_stored_when_the_embedder_fails(tmp_path: Path) -> None:
    embeddings = Failing()
    async with store_at(tmp_path / "a.db", embeddings) as store:
        await store.add(HumanMemory(id="one", content="tea"))
        embeddings.failing = True
        with pytest.raises(EmbeddingError):
            await store.add(HumanMemory(id="two", content="coffee"))
        with pytest.raises(EmbeddingError):
            await store.add_many([HumanMemory(content="a"), HumanMemory(content="b")])
        assert await store.count() == 1
        embeddings.failing = False
        await store.add(HumanMemory(id="two", content="coffee"))
        assert len(await store.search(query="coffee", mode="semantic", limit=5)) == 2


async def test_reindexing_that_fails_can_be_done_again(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await filled(path)
    embeddings = Failing()
    embeddings.failing = True
    async with store_at(path, embeddings) as store:
        with pytest.raises(EmbeddingError):
            await store.reindex()
        assert await store.count() == 3
        assert len(await store.search(query="bicycle", mode="text", limit=1)) == 1
        embeddings.failing = False
        assert await store.reindex() == 3
        assert len(await store.search(query="bicycle", mode="semantic")) == 3


async def test_text_search_goes_on_during_reindexing(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await filled(path)

    class Watched(Other):
        async def aembed_many(self, texts: Sequence[str]) -> list[list[float]]:
            assert len(await store.search(query="BICYCLE")) == 1
            assert len(await store.search(query="bicycle", mode="text", limit=1)) == 1
            return await super().aembed_many(texts)

    async with store_at(path, Watched()) as store:
        assert await store.reindex() == 3


async def test_close_waits_for_an_add_that_is_being_embedded(tmp_path: Path) -> None:
    embeddings = Held()
    store = store_at(tmp_path / "a.db", embeddings)
    await store.init()
    adding = asyncio.create_task(store.add(HumanMemory(id="one", content="tea")))
    await embeddings.asked.wait()
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    assert not closing.done()
    embeddings.may_answer.set()
    await closing
    await adding
    with pytest.raises(StoreClosedError):
        await store.get("one")
    async with store:
        assert await store.get("one") is not None


async def test_one_user_does_not_find_anothers_items_by_meaning(tmp_path: Path) -> None:
    async with store_at(tmp_path / "a.db") as store:
        for user in ("ada", "bob"):
            scope = MemoryMetadata(user_id=user)
            await store.add_many([HumanMemory(content=f"{text} ({user})", metadata=scope) for text in TEXTS])
        for mode in ("semantic", "hybrid"):
            found = await store.scoped(user_id="bob").search(query="green tea (ada)", mode=mode, limit=100)
            assert {item.metadata.user_id for item in found} == {"bob"}


async def test_what_is_written_between_searches_is_found(tmp_path: Path) -> None:
    """Also by another store on the same file, and in memory, where one connection does everything."""
    for path in (str(tmp_path / "a.db"), ":memory:"):
        async with SQLiteMemoryStore(path, embeddings=HashingEmbeddings()) as store:
            await store.add(HumanMemory(id="one", content=TEXTS[0]))
            for round_number in range(3):
                assert len(await store.search(query="tea", mode="semantic", limit=100)) == 1 + 2 * round_number
                await store.add(HumanMemory(id=f"here-{round_number}", content=TEXTS[1]))
                if path == ":memory:":
                    await store.add(HumanMemory(id=f"there-{round_number}", content=TEXTS[2]))
                else:
                    async with store_at(tmp_path / "a.db") as other:
                        await other.add(HumanMemory(id=f"there-{round_number}", content=TEXTS[2]))
            await store.purge("one")
            found = await store.search(query=TEXTS[0], mode="semantic", limit=100)
            assert "one" not in {item.id for item in found}
            assert len(found) == 6


async def test_without_numpy_the_answer_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(tmp_path / "a.db")
    answers = []
    for _ in range(2):
        async with store_at(tmp_path / "a.db") as store:
            ranked = await store.search_ranked(query="green bicycle", mode="semantic")
            answers.append([(result.item.id, round(result.score, 4)) for result in ranked])
        monkeypatch.setitem(sys.modules, "numpy", None)
    assert answers[0] == answers[1]


async def test_hybrid_search_finds_what_shares_no_word(tmp_path: Path) -> None:
    class Meanings(HashingEmbeddings):
        def embed(self, text: str) -> list[float]:
            return super().embed(text.replace("automobile", "car"))

        def identity(self) -> str:
            return "meanings"

    async with store_at(tmp_path / "a.db", Meanings()) as store:
        items = [HumanMemory(content=f"note {number} about nothing much") for number in range(1_200)]
        items[37] = HumanMemory(content="the automobile is blue")
        await store.add_many(items)
        await store.fill_indexes()
        (found,) = await store.search(query="my car", mode="hybrid", limit=1)
        assert found.content == "the automobile is blue"
