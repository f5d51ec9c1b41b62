"""Whatever is called in whatever order, the Redis store answers as the model does."""

from __future__ import annotations

import uuid

import pytest

from memoranda_redis import RedisMemoryStore
from memoranda_testing.model import compare

# Long, and other modules see most faults first: a sample runs by default.
pytestmark = pytest.mark.rare("redis histories")


@pytest.mark.parametrize("seed", range(12))
async def test_random_calls_are_answered_as_the_model_answers(url: str, seed: int) -> None:
    async with RedisMemoryStore(url, namespace=uuid.uuid4().hex) as store:
        await compare(store, seed)
        findings = await store.doctor()
        assert all(finding.ok for finding in findings if finding.name != "persistence")  # The server keeps nothing.
