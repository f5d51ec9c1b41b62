"""What telemetry costs: the time of a call with spans, with a sampler that is off, and with metrics, beside none.

python bench/otel.py

A call is a ``get`` from a store in memory, the quickest that there is, so that little else is in the figures. Spans go
to the SDK's batch processor, whose exporter drops them. The floor is the same call of a store without observers; the
cost is the difference. The best of many short rounds counts, since other programs can only make a round longer.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence

from harness import Line, report, run
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

from memoranda import HumanMemory
from memoranda.store import InMemoryStore, Observer
from memoranda_otel import OpenTelemetry
from memoranda_otel.measuring import Call, Measuring

ROUNDS = 300
CALLS = 50


class Nowhere(SpanExporter):
    """Drops every span."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class Ignores(Measuring):
    """Measures nothing: what the hook itself costs."""

    def around(self, call: Call) -> None:
        return None


def spans(sampler: object = None) -> TracerProvider:
    provider = TracerProvider(sampler=sampler)  # type: ignore[arg-type]  # None is the default
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    return provider


async def measured(store: InMemoryStore) -> float:
    started = time.perf_counter()
    for _ in range(CALLS):
        await store.get("1")
    return (time.perf_counter() - started) / CALLS


async def main() -> None:
    recorded, off, off_by_parent = spans(), spans(ALWAYS_OFF), spans(ParentBased(ALWAYS_OFF))
    contenders: dict[str, tuple[Callable[[], list[Observer]], str]] = {
        "no observer": (list, ""),
        "an observer that ignores every call": (lambda: [Ignores()], ""),
        "spans": (lambda: [OpenTelemetry(tracer_provider=recorded)], "+ 15 µs"),
        "spans and metrics": (
            lambda: [OpenTelemetry(tracer_provider=recorded, meter_provider=metrics())],
            "",
        ),
        "sampler off": (lambda: [OpenTelemetry(tracer_provider=off)], "+ 3 µs"),
        "sampler off unless the parent is sampled": (lambda: [OpenTelemetry(tracer_provider=off_by_parent)], "+ 3 µs"),
        "sampler off, with metrics": (
            lambda: [OpenTelemetry(tracer_provider=off, meter_provider=metrics())],
            "",
        ),
    }
    stores = {}
    for name, (observers, _) in contenders.items():
        stores[name] = InMemoryStore()
        for observer in observers():
            stores[name].observe(observer)
        await stores[name].add(HumanMemory(content="I like green tea.", id="1"))
    best = dict.fromkeys(stores, float("inf"))
    for number in range(ROUNDS):
        for name, store in stores.items():
            best[name] = min(best[name], await measured(store))
        if number % 5 == 0:
            recorded.force_flush()
            gc.collect()
    floor = best["no observer"]
    report(
        "A get from memory, against a store without observers",
        [
            Line(f"{name} (+ {1e6 * (took - floor):.1f} µs)", 1e6 * took, 1e6 * floor, goal=contenders[name][1])
            for name, took in best.items()
        ],
    )


def metrics() -> MeterProvider:
    return MeterProvider(metric_readers=[InMemoryMetricReader()])


if __name__ == "__main__":
    run(main)
