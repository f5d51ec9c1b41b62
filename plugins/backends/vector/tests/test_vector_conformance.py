"""The vector store does what every store must do."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from memoranda_backend.ranking import HashingEmbeddings
from memoranda_testing import StoreConformance
from memoranda_vector import VectorMemoryStore


class TestVectorStore(StoreConformance):
    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[VectorMemoryStore]:
        async with VectorMemoryStore(HashingEmbeddings(64)) as store:
            yield store


@pytest.mark.rare
class TestVectorStoreWithAnApproximateIndex(StoreConformance):
    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[VectorMemoryStore]:
        async with VectorMemoryStore(HashingEmbeddings(64), ann=True, ann_above=0) as store:
            yield store
