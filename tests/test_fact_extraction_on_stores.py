"""Extraction reads each utterance once on every store, in runs and in the background."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from memoranda import AIMemory, HumanMemory, MemoryMetadata
from memoranda.store import Store
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_facts import Facts
from memoranda_facts.extraction import BackgroundExtraction, ExtractionRun, RuleExtractor, everyday_schema
from memoranda_postgres import PostgresMemoryStore
from memoranda_redis import RedisMemoryStore
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_vector import VectorMemoryStore
from servers import postgres_server, redis_server


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    with ExitStack() as stack:
        postgres = stack.enter_context(postgres_server())
        yield {
            "postgresql": stack.enter_context(postgres.database()),
            "redis": stack.enter_context(redis_server()).url,
        }


@pytest_asyncio.fixture(params=["sqlite", "postgresql", "redis", "vector"])
async def store(request: pytest.FixtureRequest, servers: dict[str, str], tmp_path: Path) -> AsyncIterator[Store]:
    """A store of each kind, empty."""
    made: dict[str, Store] = {
        "sqlite": SQLiteMemoryStore(tmp_path / "facts.db"),
        "postgresql": PostgresMemoryStore(servers["postgresql"]),
        "redis": RedisMemoryStore(servers["redis"], namespace=uuid.uuid4().hex),
        "vector": VectorMemoryStore(HashingEmbeddings(64)),
    }
    async with made[request.param] as opened:
        yield opened


async def test_words_become_facts_once(store: Store) -> None:
    ada = MemoryMetadata(user_id="ada", session_id="s")
    await store.add(HumanMemory(content="I live in Paris.", metadata=ada))
    async with BackgroundExtraction(store, RuleExtractor(), schema=everyday_schema()) as extraction:
        await store.add(AIMemory(content="And you work at Siemens, right?", metadata=ada))
        await store.add(HumanMemory(content="Yes.", metadata=ada))
        await extraction.drain()
        await store.add(HumanMemory(content="I moved from Paris to Oslo.", metadata=ada))
    assert extraction.failures == {}

    facts = Facts(store.scoped(user_id="ada"), schema=everyday_schema())
    held = {fact.predicate: str(fact.object) for fact in await facts.current()}
    assert held == {"lives_in": "Oslo", "employer": "Siemens"}
    again = await ExtractionRun(facts, RuleExtractor()).run()
    assert (again.read, again.applied) == (0, 0)
