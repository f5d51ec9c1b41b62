"""Planted memories are held by the in-memory store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from memoranda.store import InMemoryStore, Store
from memoranda_testing import TrustConformance


class TestTrustInMemory(TrustConformance):
    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[Store]:
        async with InMemoryStore() as store:
            yield store
