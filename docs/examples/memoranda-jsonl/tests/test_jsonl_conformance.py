"""The store does what every store does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from memoranda_testing import Reopen, StoreConformance

from memoranda_jsonl import JsonLinesStore


class TestConformance(StoreConformance):
    """Everything that memoranda promises of a store."""

    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[JsonLinesStore]:
        async with JsonLinesStore(tmp_path / "memories.jsonl") as store:
            yield store

    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Reopen:
        async def reopen() -> JsonLinesStore:
            return JsonLinesStore(tmp_path / "memories.jsonl")

        return reopen
