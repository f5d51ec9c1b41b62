"""The in-memory store: the whole kit, and what is its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from recollect.in_memory import InMemoryStore
from recollect.testing import StoreConformance


class TestInMemoryStore(StoreConformance):
    @pytest_asyncio.fixture
    async def store(self) -> AsyncIterator[InMemoryStore]:
        async with InMemoryStore() as store:
            yield store
