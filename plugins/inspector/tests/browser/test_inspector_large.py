"""A large store, which takes longer to make than all other tests together: it stands with those of the browser."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import memoranda
from memoranda import HumanMemory, MemoryMetadata


async def test_a_store_of_a_hundred_thousand_items_is_listed_at_once(tmp_path: Path, inspecting: Any) -> None:
    """Processor time, since others use the machine too: on a free one it is the time that passes."""
    async with memoranda.open(f"sqlite:///{tmp_path / 'large.db'}") as store:
        for start in range(0, 100_000, 10_000):
            await store.add_many(
                HumanMemory(
                    content=f"turn {n}", metadata=MemoryMetadata(user_id=f"u{n % 1000:04}", session_id=f"s{n % 3000}")
                )
                for n in range(start, start + 10_000)
            )
        async with inspecting(store) as client:
            for path in (f"{client.root}/", await client.owner("u0999")):
                started = time.process_time()
                assert "u0" in await client.get(path)
                assert time.process_time() - started < 0.3, path
