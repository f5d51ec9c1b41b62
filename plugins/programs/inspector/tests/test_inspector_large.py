"""A large store, which takes longer to make than most other tests together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import HumanMemory, MemoryMetadata

pytestmark = pytest.mark.slow


async def test_a_store_of_a_hundred_thousand_items_is_listed_by_owner(tmp_path: Path, inspecting: Any) -> None:
    async with memoranda.open(f"sqlite:///{tmp_path / 'large.db'}") as store:
        for start in range(0, 100_000, 10_000):
            await store.add_many(
                HumanMemory(
                    content=f"turn {n}", metadata=MemoryMetadata(user_id=f"u{n % 1000:04}", session_id=f"s{n % 3000}")
                )
                for n in range(start, start + 10_000)
            )
        async with inspecting(store) as client:
            assert "u0000" in await client.get(f"{client.root}/")
            assert "u0999" in await client.get(await client.owner("u0999"))
