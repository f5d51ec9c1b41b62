"""What every benchmark shares: contenders run interleaved, medians are compared, ratios to a floor are printed.

Machines are noisy and differ, so no absolute time decides anything: a row says how fast memoranda is as a part of the
floor measured in the same run (1.0 is as fast, 0.5 half as fast), beside the goal that was set for it.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

# Poolers, clusters and a system's own PostgreSQL come from the servers of the repository's tests.
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

LINES_VARIABLE = "MEMORANDA_BENCH_LINES"
"""Names a file to which every reported line is appended as JSON; ``python bench`` adds them up."""

Contender = Callable[[], object] | Callable[[], Awaitable[object]]


@dataclass
class Measured:
    """The times of one contender, in seconds for one call."""

    name: str
    times: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.times)


@dataclass(frozen=True)
class Line:
    """One line of a report: memoranda against a floor."""

    what: str
    ours: float
    floor: float
    goal: str = ""
    unit: str = "µs"

    @property
    def ratio(self) -> float:
        """How fast memoranda is as a part of the floor."""
        return self.floor / self.ours


async def interleaved(
    contenders: Mapping[str, Contender],
    *,
    rounds: int = 9,
    calls: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Measured]:
    """Time the contenders in turn, round after round, in an order that turns too; return the times of one call each."""
    measured = {name: Measured(name) for name in contenders}
    names = list(contenders)
    for number in range(rounds + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            gc.collect()
            started = clock()
            for _ in range(calls):
                result = contenders[name]()
                if inspect.isawaitable(result):
                    await result
            elapsed = (clock() - started) / calls
            if number:  # The first round warms caches and is thrown away.
                measured[name].times.append(elapsed)
    return measured


def line(
    what: str, measured: Mapping[str, Measured], *, ours: str = "memoranda", floor: str = "floor", goal: str = ""
) -> Line:
    """Return the line that compares two contenders."""
    return Line(what, measured[ours].median * 1e6, measured[floor].median * 1e6, goal)


def report(title: str, lines: Sequence[Line]) -> None:
    """Print the lines as a table."""
    width = max([len(entry.what) for entry in lines] + [4])
    print(f"\n{title}")
    print(f"{'what':<{width}}  {'memoranda':>12}  {'floor':>12}  {'ratio':>7}  goal")
    for entry in lines:
        print(
            f"{entry.what:<{width}}  {entry.ours:>9.1f} {entry.unit:<2}  {entry.floor:>9.1f} {entry.unit:<2}  "
            f"{entry.ratio:>6.2f}x  {entry.goal}"
        )
    if LINES_VARIABLE in os.environ:
        with Path(os.environ[LINES_VARIABLE]).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps({"title": title, **asdict(entry)}) + "\n" for entry in lines)


def growth(sizes: Sequence[int], times: Sequence[float]) -> float:
    """Return the exponent of growth: 0 where time does not depend on size, 1 where it grows with it."""
    xs = [math.log(size) for size in sizes]
    ys = [math.log(seconds) for seconds in times]
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Run a benchmark's main coroutine."""

    async def whole() -> None:
        await main()

    asyncio.run(whole())
