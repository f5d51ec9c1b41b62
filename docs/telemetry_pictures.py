"""Take the pictures of telemetry for the documentation: ``python docs/telemetry_pictures.py`` (needs chromium).

A small load runs for a while on a PostgreSQL of its own, with an embedder, and is read as an operator's tools would:
its metrics once a second, its spans as they end. What the panels of the dashboard and one trace show then is drawn as a
page and photographed. The numbers are those of the run; the drawing is this file's, not Grafana's.
"""

from __future__ import annotations

import asyncio
import html
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import memoranda
from memoranda import HumanMemory
from memoranda.errors import InputError
from memoranda_context import ContextManager
from memoranda_otel import OpenTelemetry

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from servers import postgres_server  # it lies where the line above says

FOLDER = Path(__file__).parent / "pages" / "pictures"
SECONDS = 30
COLOURS = ("#3b82f6", "#f59e0b", "#10b981", "#ef4444", "#8b5cf6", "#14b8a6", "#ec4899", "#64748b")
TOPICS = ("tea", "a train to Oslo", "the garden", "chess", "my sister's birthday", "a bicycle", "jazz", "the dentist")

Point = dict[tuple[str, ...], float]


class Run:
    """A load, and what telemetry said of it."""

    def __init__(self) -> None:
        self.spans = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.tracing = TracerProvider()
        self.tracing.add_span_processor(SimpleSpanProcessor(self.spans))
        self.observer = OpenTelemetry(
            tracer_provider=self.tracing, meter_provider=MeterProvider(metric_readers=[self.reader])
        )
        self.samples: list[tuple[float, dict[str, list[Any]]]] = []
        self.trace: list[ReadableSpan] = []

    async def go(self, url: str) -> None:
        """Run the load, and sample it."""
        async with memoranda.open(url, observers=[self.observer], embeddings="hashing", max_size=4) as store:
            end = time.monotonic() + SECONDS
            working = [asyncio.create_task(self._user(store, f"user-{number}", end)) for number in range(6)]
            while time.monotonic() < end:
                await asyncio.sleep(1)
                self._sample()
            await asyncio.gather(*working)
            self.spans.clear()
            with self.tracing.get_tracer("assistant").start_as_current_span("POST /ask"):
                handle = store.scoped(user_id="user-1")
                await handle.add(HumanMemory(content="How do I like my tea?"))
                await ContextManager(long_term=handle, token_budget=250).assemble_context("How do I like my tea?")
            self.trace = list(self.spans.get_finished_spans())

    async def _user(self, store: Any, user: str, end: float) -> None:
        chance = random.Random(user)
        handle = store.scoped(user_id=user)
        while (left := end - time.monotonic()) > 0:
            topic = chance.choice(TOPICS)
            await handle.add(HumanMemory(content=f"Something about {topic}, said at {left:.2f}."))
            for _ in range(chance.randrange(3)):
                await handle.search(query=topic.split()[-1], limit=5)
            if chance.random() < 0.3:
                await handle.recall(f"What did I say about {topic}?")
            if chance.random() < 0.05:
                with suppress(InputError):
                    await handle.search(limit=-1)
            if chance.random() < 0.1:
                await handle.pop(purge=True)
            await asyncio.sleep(chance.random() * (0.05 if SECONDS / 3 < left < SECONDS / 2 else 0.2))

    def _sample(self) -> None:
        data: Any = self.reader.get_metrics_data()
        scopes = [scope for each in data.resource_metrics for scope in each.scope_metrics]
        points = {metric.name: list(metric.data.data_points) for scope in scopes for metric in scope.metrics}
        self.samples.append((time.monotonic(), points))

    def values(self, name: str, *by: str, of: Callable[[Any], float] = lambda point: float(point.value)) -> list[Point]:
        """Return the values of a metric at each sample, by these attributes."""
        series = []
        for _, points in self.samples:
            added: Point = defaultdict(float)
            for point in points.get(name, []):
                added[tuple(str(point.attributes.get(each, "")) for each in by)] += of(point)
            series.append(dict(added))
        return series

    def rates(self, series: list[Point]) -> list[Point]:
        """Return by how much each value grew in a second."""
        times = [moment for moment, _ in self.samples]
        grown = []
        for (earlier, later), (before, after) in zip(pairwise(series), pairwise(times), strict=True):
            grown.append({key: (value - earlier.get(key, 0.0)) / (after - before) for key, value in later.items()})
        return grown

    def quantile(self, share: float) -> list[Point]:
        """Return the durations below which this share of the calls of each second stays, by operation, in ms."""
        found = []
        name = "gen_ai.client.operation.duration"
        for (_, earlier), (_, later) in pairwise(self.samples):
            before = {tuple(sorted(point.attributes.items())): point.bucket_counts for point in earlier.get(name, [])}
            merged: dict[str, tuple[Any, list[int]]] = {}
            for point in later.get(name, []):
                old = before.get(tuple(sorted(point.attributes.items())), [0] * len(point.bucket_counts))
                new = [now - then for now, then in zip(point.bucket_counts, old, strict=True)]
                call = str(point.attributes["memoranda.operation"])
                kept = merged.get(call, (point.explicit_bounds, [0] * len(new)))[1]
                merged[call] = (point.explicit_bounds, [a + b for a, b in zip(kept, new, strict=True)])
            found.append({(call,): 1000 * _within(share, *each) for call, each in merged.items() if sum(each[1])})
        return found


def _within(share: float, bounds: Any, counts: list[int]) -> float:
    """Return a quantile of a histogram, as Prometheus does: evenly within a bucket."""
    rank, below = share * sum(counts), 0
    for number, count in enumerate(counts):
        if below + count >= rank and count:
            low = 0.0 if number == 0 else bounds[number - 1]
            high = bounds[min(number, len(bounds) - 1)]
            return float(low + (high - low) * (rank - below) / count)
        below += count
    return float(bounds[-1])


def chart(title: str, series: list[Point], unit: str = "") -> str:
    """Return a panel with a line for each key."""
    keys = sorted({key for point in series for key in point})
    most = max([value for point in series for value in point.values()] or [1.0]) or 1.0
    lines, legend = [], []
    for number, key in enumerate(keys):
        colour = COLOURS[number % len(COLOURS)]
        places = [
            f"{40 + 510 * at / max(1, len(series) - 1):.1f},{150 - 130 * point[key] / most:.1f}"
            for at, point in enumerate(series)
            if key in point
        ]
        lines.append(f'<polyline points="{" ".join(places)}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        legend.append(
            f'<span style="color:{colour}">&#9644;</span> {html.escape(" ".join(filter(None, key)) or title)}'
        )
    grid = "".join(
        f'<line x1="40" x2="550" y1="{y}" y2="{y}" stroke="#334155" stroke-width=".5"/>'
        f'<text x="34" y="{y + 4}" text-anchor="end">{most * (150 - y) / 130:.4g}</text>'
        for y in (20, 85, 150)
    )
    return (
        f"<section><h2>{html.escape(title)} <small>{unit}</small></h2>"
        f'<svg viewBox="0 0 560 160">{grid}{"".join(lines)}</svg><p>{" ".join(legend)}</p></section>'
    )


def waterfall(spans: list[ReadableSpan]) -> str:
    """Return a trace: a bar for each span, below its parent."""
    begun = min(span.start_time or 0 for span in spans)
    whole = max((span.end_time or 0) - begun for span in spans)
    children: dict[Any, list[ReadableSpan]] = defaultdict(list)
    for span in sorted(spans, key=lambda span: span.start_time or 0):
        children[None if span.parent is None else span.parent.span_id].append(span)
    rows: list[str] = []

    def draw(span: ReadableSpan, depth: int) -> None:
        assert span.context is not None
        start, took = (span.start_time or 0) - begun, (span.end_time or 0) - (span.start_time or 0)
        shown = {name: value for name, value in (span.attributes or {}).items() if name not in HIDDEN}
        details = " ".join(
            f"{name.removeprefix('memoranda.').removeprefix('gen_ai.')}={value}" for name, value in shown.items()
        )
        rows.append(
            f'<tr><td style="padding-left:{8 + 16 * depth}px">{html.escape(span.name)}</td><td>{took / 1e6:.2f} ms</td>'
            f'<td class="bar"><i style="left:{100 * start / whole:.2f}%;width:{max(0.3, 100 * took / whole):.2f}%;'
            f'background:{COLOURS[depth % len(COLOURS)]}"></i></td><td><small>{html.escape(details)}</small></td></tr>'
        )
        for child in children[span.context.span_id]:
            draw(child, depth + 1)

    for root in children[None]:
        draw(root, 0)
    return f"<section><h2>One request: {len(spans)} spans</h2><table>{''.join(rows)}</table></section>"


HIDDEN = (
    "gen_ai.memory.store.id",
    "gen_ai.operation.name",
    "memoranda.backend",
    "db.system.name",
    "gen_ai.memory.record.id",
)
STYLE = """body{background:#0f172a;color:#e2e8f0;font:13px system-ui,sans-serif;margin:16px}
main{display:grid;grid-template-columns:1fr 1fr;gap:12px}section{background:#1e293b;border-radius:6px;padding:8px 12px}
main.one{grid-template-columns:1fr}h2{font-size:13px;margin:0 0 6px}small{color:#94a3b8}p{margin:4px 0 0;font-size:11px}
svg{width:100%;font-size:10px}svg text{fill:#94a3b8}table{width:100%;border-collapse:collapse;table-layout:fixed}
td{padding:2px 8px;white-space:nowrap;overflow:hidden;text-overflow:ellipsis;font-size:12px}
td:nth-child(1){width:250px}td:nth-child(2){width:70px}td.bar{width:430px;position:relative}
td.bar i{position:absolute;top:5px;height:8px;border-radius:2px}"""


def photograph(name: str, body: str, height: int, *, one: bool = False) -> None:
    """Write a page, and take its picture."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium is not None, "There is no chromium to take pictures with."
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        kind = ' class="one"' if one else ""
        page.write_text(f"<meta charset=utf-8><style>{STYLE}</style><main{kind}>{body}</main>", encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu", f"--window-size=1280,{height}"]
        picture = f"--screenshot={FOLDER / name}"
        subprocess.run([chromium, *options, f"--user-data-dir={folder}/profile", picture, str(page)], check=True)


def main() -> None:
    """Run the load, and take both pictures."""
    run = Run()
    with postgres_server() as server, server.database() as url:
        asyncio.run(run.go(url))
    duration = run.values(
        "gen_ai.client.operation.duration", "memoranda.operation", of=lambda point: float(point.count)
    )
    failed = run.values(
        "gen_ai.client.operation.duration", "error.type", "memoranda.operation", of=lambda point: float(point.count)
    )
    errors = [{key: value for key, value in point.items() if key[0]} for point in run.rates(failed)]
    items = [
        {("written",): sum(written.values()), ("read",): sum(read.values())}
        for written, read in zip(
            run.rates(run.values("memoranda.items.written")), run.rates(run.values("memoranda.items.read")), strict=True
        )
    ]
    waits = [
        {("writes",): sum(queue.values()), ("items for an index",): sum(backlog.values())}
        for queue, backlog in zip(
            run.values("memoranda.writer.queue"), run.values("memoranda.index.backlog"), strict=True
        )
    ]
    panels = [
        chart("Calls per second", run.rates(duration)),
        chart("Duration, 95th percentile", run.quantile(0.95), "ms"),
        chart("Errors per second, by class", errors),
        chart("Items per second", items),
        chart("Connections", run.values("db.client.connection.count", "db.client.connection.state")),
        chart("What waits", waits),
    ]
    photograph("telemetry-metrics.png", "".join(panels), 730)
    photograph("telemetry-trace.png", waterfall(run.trace), 120 + 22 * len(run.trace), one=True)


if __name__ == "__main__":
    main()
