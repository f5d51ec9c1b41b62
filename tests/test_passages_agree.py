"""Long items are found by the meaning of the same passages, with the same scores, wherever they are kept."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from memoranda import HumanMemory, MemoryMetadata, Store
from memoranda.store import SearchMode
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_postgres import PostgresMemoryStore
from memoranda_postgres import vectors as postgres_vectors
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_vector import VectorMemoryStore
from servers import postgres_server

WORDS = [f"{first}{second}" for first in ("tea", "rain", "road", "moon", "salt") for second in ("house", "man", "song")]
MODES: tuple[SearchMode, ...] = ("semantic", "hybrid")


def items(seed: int) -> list[HumanMemory]:
    """Return items of one word to some thirty passages, the same for each store."""
    chance = random.Random(seed)
    return [
        HumanMemory(
            id=f"item-{number}",
            content=" ".join(chance.choices(WORDS, k=chance.choice((1, 5, 40, 89, 91, 200, 1_800)))),
            created_at=f"2024-01-01T00:{number:02}:00+00:00",
            metadata=MemoryMetadata(user_id="ada", session_id=f"s{number % 3}"),
        )
        for number in range(40)
    ]


async def rankings(store: Store, seed: int) -> list[list[tuple[str, Any, str]]]:
    """Return what is found for some queries: ids, scores and passages."""
    await store.add_many(items(seed))
    await store.add_many(items(seed + 1)[:20])  # Other contents, of other lengths.
    chance = random.Random(seed + 2)
    found = []
    for mode in MODES:
        for _ in range(5):
            query = " ".join(chance.sample(WORDS, 3))
            ranked = await store.search_ranked(query=query, mode=mode, limit=chance.choice((3, 40)))
            found.append([(each.item.id, pytest.approx(each.score, abs=1e-4), each.passage) for each in ranked])
    return found


@pytest.mark.rare
async def test_long_items_are_ranked_alike_by_meaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embeddings = HashingEmbeddings(64)
    wanted = await rankings(VectorMemoryStore(embeddings), 7)
    assert any(passage for ranked in wanted for _, _, passage in ranked)
    async with SQLiteMemoryStore(tmp_path / "m.db", embeddings=embeddings) as sqlite:
        assert await rankings(sqlite, 7) == wanted
    with postgres_server() as server:
        for exact_below in (20_000, 0):
            monkeypatch.setattr(postgres_vectors, "EXACT_BELOW", exact_below)
            with server.database() as url:
                async with PostgresMemoryStore(url, embeddings=embeddings) as postgres:
                    assert await rankings(postgres, 7) == wanted
