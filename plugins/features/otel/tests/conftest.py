"""What the tests of telemetry share: providers that keep everything in memory, and a store of each backend."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import memoranda
from memoranda.store import Store
from memoranda_otel import OpenTelemetry
from servers import postgres_server, redis_server


@dataclass
class Telemetry:
    """Providers, and what was exported through them."""

    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)

    def __post_init__(self) -> None:
        self.traces = TracerProvider()
        self.traces.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider(metric_readers=[self.reader])

    def observer(self, **options: Any) -> OpenTelemetry:
        return OpenTelemetry(tracer_provider=self.traces, meter_provider=self.meters, **options)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    @property
    def calls(self) -> list[ReadableSpan]:
        """The spans of public calls."""
        return [span for span in self.spans if "memoranda.operation" in (span.attributes or {})]

    @property
    def last(self) -> ReadableSpan:
        return self.calls[-1]

    def metrics(self) -> dict[str, Any]:
        """Collect, and return the metrics by name."""
        data: Any = self.reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: metric
            for each in data.resource_metrics
            for scope in each.scope_metrics
            for metric in scope.metrics
        }

    def values(self, name: str, *by: str) -> dict[Any, Any]:
        """Collect, and return the values of a metric by these attributes; of a histogram its counts."""
        metric = self.metrics().get(name)
        points = [] if metric is None else metric.data.data_points
        found: dict[Any, Any] = {}
        for point in points:
            key = tuple(point.attributes.get(attribute) for attribute in by)
            value = getattr(point, "count", None)
            found[key] = found.get(key, 0) + (point.value if value is None else value)
        return found


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


@pytest.fixture(scope="session")
def servers() -> Iterator[Callable[[str], str]]:
    """Return the URL of a server, started when it is first asked for."""
    urls: dict[str, str] = {}
    with ExitStack() as stack:

        def url(name: str) -> str:
            if name not in urls:
                if name == "redis":
                    urls[name] = stack.enter_context(redis_server()).url
                else:
                    urls[name] = stack.enter_context(stack.enter_context(postgres_server()).database())
            return urls[name]

        yield url


@pytest_asyncio.fixture
async def opened(
    telemetry: Telemetry, servers: Callable[[str], str], tmp_path: Path
) -> AsyncIterator[Callable[..., Any]]:
    """Open a store of a backend that reports to the telemetry."""
    async with AsyncExitStack() as stack:

        async def open_store(backend: str, **options: Any) -> Store:
            unique = uuid.uuid4().hex
            urls = {"memory": "memory://", "vector": "vector://?embeddings=hashing"}
            if backend == "sqlite":
                url = f"sqlite:///{tmp_path}/{unique}.db"
            elif backend == "postgres":
                url, options = servers(backend), {"schema": f"s{unique}", **options}
            elif backend == "redis":
                url, options = servers(backend), {"namespace": unique, **options}
            else:
                url = urls[backend]
            options.setdefault("observers", [telemetry.observer()])
            return await stack.enter_async_context(memoranda.open(url, **options))

        yield open_store
