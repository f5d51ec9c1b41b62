"""``memoranda bench``: measure a store's calls beside its raw floor, and how their cost grows with its size."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import random
import sqlite3
import statistics
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from memoranda.items import HumanMemory, MemoryItem, MemoryMetadata
from memoranda.opening import open as open_store
from memoranda.plugins import Backend
from memoranda.store import Store, copy_item, dump_item
from memoranda.urls import redacted, scheme_of
from memoranda_cli.plot import check_plot, svg_plot, write_plot
from memoranda_commands import options
from memoranda_commands.exits import CommandError, ExitCode
from memoranda_commands.options import argument, option
from memoranda_commands.stores import remove_owners, run, say_if_new
from memoranda_commands.terminal import progress, show, show_json, table
from memoranda_commands.values import whole_numbers


class PythonFloor:
    """A dict and a dict of lists, which hand out copies as a store must."""

    def __init__(self) -> None:
        self._items: dict[str, MemoryItem] = {}
        self._sessions: dict[str | None, list[MemoryItem]] = {}

    def add(self, item: MemoryItem) -> None:
        kept = copy_item(item)
        self._items[item.id] = kept
        self._sessions.setdefault(item.metadata.session_id, []).append(kept)

    def add_many(self, items: Sequence[MemoryItem]) -> None:
        for item in items:
            self.add(item)

    def get(self, item_id: str) -> object:
        return copy_item(self._items[item_id])

    def last(self, session: str, limit: int) -> object:
        return [copy_item(item) for item in self._sessions[session][: -limit - 1 : -1]]

    def containing(self, text: str, limit: int) -> object:
        found = []
        for item in reversed(self._items.values()):
            if text in item.content.casefold():
                found.append(copy_item(item))
                if len(found) == limit:
                    break
        return found

    def close(self) -> None: ...


class SQLiteFloor:
    """The sqlite3 of Python with one indexed table, a write-ahead log, and a sync at each commit."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="memoranda-floor-")
        self._connection = sqlite3.connect(Path(self._folder.name) / "floor.db", isolation_level=None)
        self._connection.executescript(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
            "CREATE TABLE items (id TEXT PRIMARY KEY, session TEXT, created TEXT, content TEXT, data TEXT);"
            "CREATE INDEX by_session ON items (session, created);"
        )

    def add(self, item: MemoryItem) -> None:
        self._connection.execute(_INSERT, _row(item))

    def add_many(self, items: Sequence[MemoryItem]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(_INSERT, map(_row, items))
        self._connection.execute("COMMIT")

    def get(self, item_id: str) -> object:
        return self._connection.execute("SELECT data FROM items WHERE id = ?", (item_id,)).fetchone()

    def last(self, session: str, limit: int) -> object:
        query = "SELECT data FROM items WHERE session = ? ORDER BY created DESC, rowid DESC LIMIT ?"
        return self._connection.execute(query, (session, limit)).fetchall()

    def containing(self, text: str, limit: int) -> object:
        query = "SELECT data FROM items WHERE content LIKE ? ORDER BY created DESC, rowid DESC LIMIT ?"
        return self._connection.execute(query, (f"%{text}%", limit)).fetchall()

    def close(self) -> None:
        self._connection.close()
        self._folder.cleanup()


_LEAST = 0.01
_INSERT = "INSERT INTO items VALUES (?, ?, ?, ?, ?)"


def _row(item: MemoryItem) -> tuple[str, str | None, str, str, str]:
    return item.id, item.metadata.session_id, item.created_at, item.content, json.dumps(dump_item(item))


Floor = PythonFloor | SQLiteFloor

FLOORS: dict[str, type[Floor]] = {"memory": PythonFloor, "sqlite": SQLiteFloor}
"""The floor of each URL scheme that has one here."""

SESSION = 50
"""How many items a session has."""

USER = 1_000
"""How many items a user has, so that a store that grows has more users, and each as much as before."""

ITEMS_PER_BATCH = 1_000
"""How many items are added at once."""

FOUND = 5
"""How many items the rare text is in, however many there are."""

KNOWN = 2_000
"""About how many items are remembered, to draw from them the ones to ask for."""

_SYLLABLES = ("ka", "lo", "mi", "ter", "san", "vo", "ral", "dex", "in", "pho", "gu", "est", "na", "bir")
WORDS = [one + two + three for one in _SYLLABLES for two in _SYLLABLES for three in _SYLLABLES]
_RARITY = list(itertools.accumulate(1 / (place + 5) for place in range(len(WORDS))))


@dataclass(slots=True)
class Cost:
    """What one kind of call costs, in microseconds, by the number of items that the store holds."""

    what: str
    ours: dict[int, float] = field(default_factory=dict)
    floor: dict[int, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """The speed of the store relative to the floor at the largest size; 1 is equally fast."""
        size = max(self.ours)
        return self.floor[size] / self.ours[size] if size in self.floor else None

    @property
    def growth(self) -> float | None:
        """The exponent of growth: 0 if the cost does not depend on the size, 1 if it grows in proportion."""
        if len(self.ours) < 2:
            return None
        sizes, costs = ([math.log(value) for value in values] for values in zip(*self.ours.items(), strict=True))
        return statistics.linear_regression(sizes, costs).slope


async def measured(
    url: str,
    store_options: dict[str, Any],
    sizes: Sequence[int],
    calls: int,
    *,
    clock: Callable[[], float] = time.perf_counter,
    lasting: bool = True,
) -> list[Cost]:
    """Return what each kind of call costs at each size, by a clock. A ``lasting`` store is cleared again."""
    floor = FLOORS[scheme_of(url)]() if scheme_of(url) in FLOORS else None
    bench_run = _Run(calls, clock)
    try:
        async with open_store(url, **store_options) as store:
            try:
                with progress(f"measuring {redacted(url)}", sizes[-1]) as advance:
                    for size in sizes:
                        advance(await bench_run.grow(store, floor, size))
                        await bench_run.measure(store, floor, size)
            finally:
                # Ctrl-C cancels this task once; the removal still finishes.
                if lasting:
                    await asyncio.shield(remove_owners(store, *bench_run.users))
    finally:
        if floor is not None:
            floor.close()
    return list(bench_run.costs.values())


class _Run:
    """One store being filled and measured, step by step."""

    def __init__(self, calls: int, clock: Callable[[], float]) -> None:
        self.costs: dict[str, Cost] = {}
        self._mark = uuid.uuid4().hex
        self._calls = calls
        self._clock = clock
        self._made_so_far = 0
        self._known: list[MemoryItem] = []
        self._random = random.Random(7)

    @property
    def users(self) -> list[MemoryMetadata]:
        return [self._user(number) for number in range(0, self._made_so_far, USER)]

    async def grow(self, store: Store, floor: Floor | None, size: int) -> int:
        """Fill up to a size and return how many were added; the cost of add_many is measured along the way."""
        before, step = self._made_so_far, max(size // KNOWN, 1)
        ours = by_hand = 0.0
        while self._made_so_far < size:
            new = [self._made() for _ in range(min(ITEMS_PER_BATCH, size - self._made_so_far))]
            started = self._clock()
            await store.add_many(new)
            ours += self._clock() - started
            if floor is not None:
                started = self._clock()
                floor.add_many(new)
                by_hand += self._clock() - started
            self._known += new[self._random.randrange(min(step, len(new))) :: step]
        added = self._made_so_far - before
        if added:
            cost = self._cost("add_many, each")
            cost.ours[size] = ours / added * 1e6
            if floor is not None:
                cost.floor[size] = by_hand / added * 1e6
        if (fill_indexes := getattr(store, "fill_indexes", None)) is not None:
            await fill_indexes()  # Indexes that fill in the background would slow the reads down.
        return added

    async def measure(self, store: Store, floor: Floor | None, size: int) -> None:
        chosen = itertools.cycle(self._random.choices(self._known, k=self._calls))

        def session() -> MemoryMetadata:
            metadata = next(chosen).metadata
            return MemoryMetadata(user_id=metadata.user_id, session_id=metadata.session_id)

        def asked() -> tuple[str, MemoryMetadata]:
            item = next(chosen)
            return " ".join(item.content.split()[:4]), MemoryMetadata(user_id=item.metadata.user_id)

        def ranked() -> Awaitable[object]:
            question, user = asked()
            return store.search_ranked(query=question, metadata=user, limit=10, mode="text")

        def by_hand(work: Callable[[Floor], object]) -> Callable[[], object] | None:
            return None if floor is None else lambda: work(floor)

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
            "newest 10 with a rare text",
            size,
            lambda: store.search(query=self._mark, limit=10, mode="substring"),
            by_hand(lambda raw: raw.containing(self._mark, 10)),
            most=20,  # By hand it takes seconds in a large store.
        )
        await self._time("best 10 of a user for a question", size, ranked, None)
        await self._time(
            "add",
            size,
            lambda: store.add(self._made()),
            by_hand(lambda raw: raw.add(self._made())),
        )

    async def _time(
        self,
        what: str,
        size: int,
        ours: Callable[[], Awaitable[object]],
        floor: Callable[[], object] | None,
        most: int | None = None,
    ) -> None:
        """Time calls of both, in turns, and keep the medians."""
        of_ours, of_floor = [], []
        calls = min(self._calls, most or self._calls)
        for number in range(calls + calls // 10 + 1):
            started = self._clock()
            await ours()
            between = self._clock()
            if floor is not None:
                floor()
            ended = self._clock()
            if number > calls // 10:  # The first tenth warms caches.
                of_ours.append(between - started)
                of_floor.append(ended - between)
        cost = self._cost(what)
        # A coarse clock may not have moved.
        cost.ours[size] = max(statistics.median(of_ours) * 1e6, _LEAST)
        if floor is not None:
            cost.floor[size] = max(statistics.median(of_floor) * 1e6, _LEAST)

    def _cost(self, what: str) -> Cost:
        return self.costs.setdefault(what, Cost(what))

    def _user(self, number: int) -> MemoryMetadata:
        return MemoryMetadata(user_id=f"bench-{self._mark}-{number // USER}")

    def _made(self) -> MemoryItem:
        number = self._made_so_far
        self._made_so_far += 1
        words = self._random.choices(WORDS, cum_weights=_RARITY, k=12)
        if number < FOUND:
            words.append(self._mark)
        session = f"session-{self._mark}-{number // SESSION}"
        metadata = MemoryMetadata(user_id=self._user(number).user_id, session_id=session)
        return HumanMemory(content=" ".join(words), metadata=metadata)


def bench(
    urls: Annotated[list[str] | None, argument("[URL]...", "The stores; by default memory:// and a new file.")] = None,
    sizes: Annotated[
        str, option("--sizes N,N,...", "How many items the store holds, one after the other.")
    ] = "1000,10000",
    calls: Annotated[int, option("--calls", "How many calls of each kind to measure.", min=1)] = 200,
    plot: Annotated[Path | None, option("--plot FILE", "Write a plot of how cost grows, as SVG.")] = None,
    processor: Annotated[
        bool, option("--processor", "Measure this process's processor time, for engines that run within it.")
    ] = False,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Measure a store beside its raw floor, and plot how its cost grows with its size.

    The floors are Python's own dicts for memory:// and sqlite3 for sqlite:; other engines are measured without one.
    Everything is written under made-up users, and removed in the end.
    """
    steps = sorted(set(whole_numbers(sizes, "--sizes")))
    if steps[0] < 1:
        raise CommandError("--sizes takes numbers of at least 1.", ExitCode.USAGE)
    if plot is not None:
        check_plot(plot)
    further = options.pairs(store_options, "--option")
    found: dict[str, list[Cost]] = {}
    with tempfile.TemporaryDirectory(prefix="memoranda-bench-") as folder:
        for url in urls or _default_urls(Path(folder)):
            name = redacted(url) if urls else scheme_of(url)
            if urls:
                run(say_if_new(url, further))
            clock = time.process_time if processor else time.perf_counter
            found[name] = run(measured(url, further, steps, calls, clock=clock, lasting=bool(urls)))
    if as_json:
        show_json({name: [_as_json(cost) for cost in costs] for name, costs in found.items()})
    else:
        for name, costs in found.items():
            show(_table(name, costs, steps))
    if plot is not None:
        write_plot(plot, plotted(found))


def _default_urls(folder: Path) -> Iterator[str]:
    from memoranda.plugins import default_registry

    yield "memory://"
    if any(spec.name == "sqlite" for spec in default_registry().specs(Backend)):
        path = folder / "bench.db"
        yield f"sqlite:///{path.as_posix() if path.drive else path}"


def plotted(found: dict[str, list[Cost]]) -> str:
    """Return the plot of all costs of all stores, the floors dashed."""
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for name, costs in found.items():
        for cost in costs:
            lines = panels.setdefault(cost.what, {})
            lines[name] = [(size, value) for size, value in sorted(cost.ours.items())]
            if cost.floor:
                lines[f"{name}*"] = [(size, value) for size, value in sorted(cost.floor.items())]
    return svg_plot("How cost grows with size", "items in the store", "microseconds per call", panels)


def _table(name: str, costs: Sequence[Cost], sizes: Sequence[int]) -> Any:
    right = {"justify": "right", "no_wrap": True}
    rows = [
        (
            cost.what,
            *(f"{cost.ours[size]:,.1f}" if size in cost.ours else "" for size in sizes),
            f"{cost.floor[max(cost.floor)]:,.1f}" if cost.floor else "–",
            f"{cost.ratio:.2f}x" if cost.ratio is not None else "–",
            f"{cost.growth:+.2f}" if cost.growth is not None else "–",
        )
        for cost in costs
    ]
    at = [(f"{size:,} items", right) for size in sizes]
    columns = [("µs per call", {}), *at, ("floor", right), ("ratio", right), ("growth", right)]
    return table(*columns, rows=rows, title=name)


def _as_json(cost: Cost) -> dict[str, Any]:
    return {
        "what": cost.what,
        "microseconds": cost.ours,
        "floor": cost.floor or None,
        "ratio": cost.ratio,
        "growth": cost.growth,
    }
