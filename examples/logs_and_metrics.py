"""Logs as JSON Lines and metrics for a dashboard, without any memory content.

pip install -r requirements.txt
python examples/logs_and_metrics.py
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Sequence

import memoranda
from memoranda import HumanMemory, MemoryItem, MemoryMetadata
from memoranda.store import Observer


class JsonLines(logging.Formatter):
    """Write a record as JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        line = {"level": record.levelname, "logger": record.name, "message": record.getMessage()}
        return json.dumps(line, ensure_ascii=False)


class Numbers(Observer):
    """Count what a store does. If an observer raises, the store logs it and keeps what it stored."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def added(self, items: Sequence[MemoryItem]) -> None:
        """Count items by their type."""
        self.counts.update(f"added.{item.memory_type}" for item in items)

    def searched(self, query: str, items: Sequence[MemoryItem]) -> None:
        """Count searches, and those that found nothing."""
        self.counts["searches"] += 1
        self.counts["searches.empty"] += not items

    def cleared(self, metadata: MemoryMetadata | None, removed: int) -> None:
        """Count what was removed."""
        self.counts["removed"] += removed


class Broken(Observer):
    """An observer with a bug."""

    def added(self, items: Sequence[MemoryItem]) -> None:
        """Fail."""
        raise RuntimeError("The dashboard is down.")


async def main() -> None:
    """Store and search a little, and print the counts."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    # The core logs under "memoranda", a plugin under its package's name.
    for name in ("memoranda", "memoranda_sqlite"):
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(logging.INFO)

    numbers = Numbers()
    async with memoranda.open("memory://", observers=[numbers, Broken()]) as store:
        ada = store.scoped(user_id="ada")
        await ada.add(HumanMemory(content="My door code is 4711."))
        await ada.search(query="door")
        await ada.search(query="window")
        await ada.clear()
    print(json.dumps(numbers.counts, sort_keys=True))


if __name__ == "__main__":
    asyncio.run(main())
