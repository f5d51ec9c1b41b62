"""``memoranda bench``: measure a store's calls beside its raw floor, and how their cost grows with its size."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from memoranda.plugins import Backend
from memoranda.urls import redacted, scheme_of
from memoranda_cli.measuring import Cost, measured
from memoranda_cli.plot import check_plot, svg_plot, write_plot
from memoranda_commands import options
from memoranda_commands.exits import CommandError, ExitCode
from memoranda_commands.options import argument, option
from memoranda_commands.terminal import show, show_json, table
from memoranda_commands.values import whole_numbers


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
    from memoranda_commands.stores import run, say_if_new

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
