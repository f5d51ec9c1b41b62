"""Ranked search over whatever Unicode has: no text makes it fail, and every engine ranks a large scope alike."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from memoranda import MemoryItem, MemoryMetadata, Store
from memoranda.store import Capability, InMemoryStore, SearchMode
from memoranda_backend.ranking import HashingEmbeddings, index_terms, query_terms
from memoranda_postgres import PostgresMemoryStore
from memoranda_redis.store import RedisMemoryStore
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_vector import VectorMemoryStore
from servers import postgres_server, redis_server

# Long, and other modules see most faults first: a sample runs by default.
pytestmark = pytest.mark.rare("odd words")

USER = MemoryMetadata(user_id="ada")
ODD = (
    "ـــ", "ـ", "مـــرحبا", "\u064b\u064c\u064d", "\u0301\u0301\u0301", "\u200b\u200c\u200d", "\ufe0f\ufe0e",
    "\x01\x02",
    "🦉🦉🦉", "👩\u200d👩\u200d👧", "!!!", "…", "\u093e\u0947\u0902", "\u0650\u0650\u0650", "\u061c\u202e", "ⅣⅤⅥ",
    "ªªª",
    "ʰʰʰ", "ーーー", "々々", "\u3164\u3164\u3164", "\U000e0061\U000e0062", "the", "ﷺ", "ΣΊΣ", "ηκε", "İİİ", "ßßß",
    "१२३",
    "𝒜𝒷𝒸", "\u00ad\u00ad\u00ad", "___", "1st", "ийийий",
)  # fmt: skip
LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
WORDS = (
    st.sampled_from(ODD) | st.text(LETTERS, min_size=1, max_size=6) | st.sampled_from(["rain", "garden", "xylophone"])
)


def texts() -> st.SearchStrategy[str]:
    return st.lists(WORDS, min_size=1, max_size=5).map(" ".join)


def stack() -> list[MemoryItem]:
    """Return many items, of odd words and of letters from everywhere."""
    chosen = random.Random(7)
    letters = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]
    items = []
    for number in range(1_200):
        strange = "".join(chosen.choices(letters, k=chosen.randint(1, 5)))
        words = [*chosen.choices(ODD, k=2), strange, chosen.choice(["rain", "garden", ""])]
        session = MemoryMetadata(user_id="ada", session_id=f"s{number // 50}")
        name = chosen.choice([None, None, "Ada"])
        items.append(
            MemoryItem(id=f"{number:04}", content=" ".join(words), name=name, metadata=session, memory_type="human")
        )
    return items


class Engines:
    """One open store of every engine with the same items, in one event loop."""

    def __init__(self, stores: dict[str, Store], runner: asyncio.Runner) -> None:
        self._stores, self._runner = stores, runner

    def rankings(self, query: str, mode: SearchMode) -> dict[str, list[tuple[str, str]]]:
        return self._runner.run(self._rankings(query, mode))

    async def _rankings(self, query: str, mode: SearchMode) -> dict[str, list[tuple[str, str]]]:
        found = {}
        for name, store in self._stores.items():
            if Capability(mode) in store.capabilities:
                ranked = await store.search_ranked(query=query, metadata=USER, mode=mode, limit=15)
                found[name] = [(each.item.id, f"{each.score:.6g}") for each in ranked]
        return found


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    folder: Path = tmp_path_factory.mktemp("odd")
    with ExitStack() as servers, asyncio.Runner() as runner:
        url = servers.enter_context(servers.enter_context(postgres_server()).database())
        redis = servers.enter_context(redis_server())

        async def opened(stack_of: AsyncExitStack) -> dict[str, Store]:
            meaning = HashingEmbeddings(dimension=32)
            sqlite = SQLiteMemoryStore(folder / "odd.db", durability="normal", embeddings=meaning)
            stores: dict[str, Store] = {
                "memory": InMemoryStore(),
                "sqlite": await stack_of.enter_async_context(sqlite),
                "postgres": await stack_of.enter_async_context(PostgresMemoryStore(url, embeddings=meaning)),
                "redis": await stack_of.enter_async_context(RedisMemoryStore(redis.url, namespace=uuid.uuid4().hex)),
                "vector": VectorMemoryStore(meaning),
            }
            items = stack()
            for store in stores.values():
                await store.add_many(items)
            return stores

        closing = AsyncExitStack()
        yield Engines(runner.run(opened(closing)), runner)
        runner.run(closing.aclose())


LASTING = settings(deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])


@LASTING
@given(query=texts().filter(str.strip))
def test_a_large_scope_of_odd_words_is_ranked_alike(engines: Engines, query: str) -> None:
    rankings = engines.rankings(query, "text")
    for name, ranking in rankings.items():
        assert ranking == rankings["memory"], name


@pytest.mark.slow
@LASTING
@given(query=texts().filter(str.strip))
def test_a_large_scope_of_odd_words_is_ranked_by_words_and_meaning(engines: Engines, query: str) -> None:
    rankings = engines.rankings(query, "hybrid")
    assert set(rankings) == {"sqlite", "postgres", "vector"}


@given(text=texts())
def test_no_text_has_an_empty_term(text: str) -> None:
    assert "" not in index_terms(text)
    assert "" not in query_terms(text)
