"""Measuring what a store's calls cost, beside the same work by hand."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from memoranda.items import HumanMemory, MemoryItem, MemoryMetadata
from memoranda.store import BaseStore, Capability
from memoranda.urls import redacted, scheme_of
from memoranda_cli.floors import FLOORS, Floor
from memoranda_cli.terminal import progress

SESSION = 50
"""How many items a session has."""

WORDS = ("window", "seat", "train", "hotel", "coffee", "garden", "music", "letter", "river", "bridge", "paper", "clock")


@dataclass(slots=True)
class Cost:
    """What one kind of call costs, in microseconds, by the number of items that the store holds."""

    what: str
    ours: dict[int, float] = field(default_factory=dict)
    floor: dict[int, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """How fast the store is as a part of the floor, at the largest size; 1 is as fast."""
        size = max(self.ours)
        return self.floor[size] / self.ours[size] if size in self.floor else None

    @property
    def growth(self) -> float | None:
        """The exponent of growth: 0 where the cost does not depend on the size, 1 where it grows with it."""
        if len(self.ours) < 2:
            return None
        sizes, costs = ([math.log(value) for value in values] for values in zip(*self.ours.items(), strict=True))
        return statistics.linear_regression(sizes, costs).slope


async def measured(url: str, store_options: dict[str, Any], sizes: Sequence[int], calls: int) -> list[Cost]:
    """Return what each kind of call costs at each size."""
    from memoranda.plugins import open as open_store

    floor = FLOORS[scheme_of(url)]() if scheme_of(url) in FLOORS else None
    bench_run = _Run(MemoryMetadata(user_id=f"bench-{uuid.uuid4().hex}"), calls)
    try:
        async with open_store(url, **store_options) as store:
            try:
                with progress(f"measuring {redacted(url)}", sizes[-1]) as advance:
                    for size in sizes:
                        advance(await bench_run.grow(store, floor, size))
                        await bench_run.measure(store, floor, size)
            finally:
                # Ctrl-C cancels this task once; what it began to remove is removed.
                await asyncio.shield(_remove(store, bench_run.owner))
    finally:
        if floor is not None:
            floor.close()
    return list(bench_run.costs.values())


class _Run:
    """One store being filled and measured, step by step."""

    def __init__(self, owner: MemoryMetadata, calls: int) -> None:
        self.owner = owner
        self.costs: dict[str, Cost] = {}
        self._calls = calls
        self._items: list[MemoryItem] = []
        self._random = random.Random(7)

    async def grow(self, store: BaseStore, floor: Floor | None, size: int) -> int:
        """Fill up to a size and return how many were added; costs of adding many are measured by the way."""
        new = [self._made(number) for number in range(len(self._items), size)]
        if not new:
            return 0
        started = time.perf_counter()
        for start in range(0, len(new), 1000):
            await store.add_many(new[start : start + 1000])
        self._cost("add_many, each").ours[size] = (time.perf_counter() - started) / len(new) * 1e6
        if floor is not None:
            started = time.perf_counter()
            for start in range(0, len(new), 1000):
                floor.add_many(new[start : start + 1000])
            self._cost("add_many, each").floor[size] = (time.perf_counter() - started) / len(new) * 1e6
        self._items += new
        return len(new)

    async def measure(self, store: BaseStore, floor: Floor | None, size: int) -> None:
        """Measure every kind of call at this size."""
        chosen = itertools.cycle(self._random.choices(self._items, k=self._calls))
        extra = itertools.count(len(self._items))

        def session() -> MemoryMetadata:
            metadata = next(chosen).metadata
            return MemoryMetadata(user_id=metadata.user_id, session_id=metadata.session_id)

        def by_hand(work: Callable[[Floor], object]) -> Callable[[], object] | None:
            return None if floor is None else lambda: work(floor)

        await self._time(
            "add",
            size,
            lambda: store.add(self._made(next(extra))),
            by_hand(lambda raw: raw.add(self._made(next(extra)))),
        )
        await self._time(
            "get",
            size,
            lambda: store.get(next(chosen).id),
            by_hand(lambda raw: raw.get(next(chosen).id)),
        )
        await self._time(
            "last 20 of a session",
            size,
            lambda: store.search(metadata=session(), limit=20, mode="substring"),
            by_hand(lambda raw: raw.last(str(next(chosen).metadata.session_id), 20)),
        )
        await self._time(
            "newest 10 containing a text",
            size,
            lambda: store.search(query="river bridge", metadata=self.owner, limit=10, mode="substring"),
            by_hand(lambda raw: raw.containing("river bridge", 10)),
        )
        await self._time(
            "best 10 of a session for a question",
            size,
            lambda: store.search_ranked(query="coffee by the river", metadata=session(), limit=10, mode="text"),
            None,
        )

    async def _time(
        self,
        what: str,
        size: int,
        ours: Callable[[], Awaitable[object]],
        floor: Callable[[], object] | None,
    ) -> None:
        """Time calls of both, in turns, and keep the medians."""
        of_ours, of_floor = [], []
        for number in range(self._calls + self._calls // 10 + 1):
            started = time.perf_counter()
            await ours()
            between = time.perf_counter()
            if floor is not None:
                floor()
            ended = time.perf_counter()
            if number > self._calls // 10:  # The first tenth warms caches.
                of_ours.append(between - started)
                of_floor.append(ended - between)
        cost = self._cost(what)
        cost.ours[size] = statistics.median(of_ours) * 1e6
        if floor is not None:
            cost.floor[size] = statistics.median(of_floor) * 1e6

    def _cost(self, what: str) -> Cost:
        return self.costs.setdefault(what, Cost(what))

    def _made(self, number: int) -> MemoryItem:
        metadata = MemoryMetadata(user_id=self.owner.user_id, session_id=f"session-{number // SESSION}")
        return HumanMemory(content=" ".join(self._random.choices(WORDS, k=12)), metadata=metadata)


async def _remove(store: BaseStore, owner: MemoryMetadata) -> None:
    await (store.purge(metadata=owner) if Capability.PURGE in store.capabilities else store.clear(metadata=owner))
