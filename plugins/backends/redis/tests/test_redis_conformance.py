"""The Redis store does what every store must do, on one server and, in a sample, on a cluster."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from memoranda_redis import RedisMemoryStore
from memoranda_testing import Reopen, StoreConformance


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test has."""
    return uuid.uuid4().hex


class TestRedisStandalone(StoreConformance):
    @pytest_asyncio.fixture
    async def store(self, standalone_url: str, namespace: str) -> AsyncIterator[RedisMemoryStore]:
        async with RedisMemoryStore(standalone_url, namespace=namespace, timeout=240) as store:
            yield store

    @pytest.fixture
    def reopen(self, standalone_url: str, namespace: str) -> Reopen:
        async def reopen() -> RedisMemoryStore:
            return RedisMemoryStore(standalone_url, namespace=namespace, timeout=240)

        return reopen


@pytest.mark.rare("cluster")
class TestRedisCluster(StoreConformance):
    @pytest_asyncio.fixture
    async def store(self, cluster_url: str, namespace: str) -> AsyncIterator[RedisMemoryStore]:
        async with RedisMemoryStore(cluster_url, namespace=namespace, timeout=240) as store:
            yield store

    @pytest.fixture
    def reopen(self, cluster_url: str, namespace: str) -> Reopen:
        async def reopen() -> RedisMemoryStore:
            return RedisMemoryStore(cluster_url, namespace=namespace, timeout=240)

        return reopen
