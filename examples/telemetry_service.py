"""A web service with telemetry: each request is a trace with the memory calls in it, and the metrics go with it.

pip install -r requirements.txt
pip install -c constraints.txt './plugins/features/otel[sdk]' fastapi uvicorn httpx
OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 uvicorn --app-dir examples telemetry_service:app
python examples/telemetry_service.py

FastAPI makes a span of each request, and joins the caller's trace. Run as a program, this file sends itself a few
requests and prints their spans instead.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fastapi import FastAPI, Request
from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel

import memoranda
from memoranda import HumanMemory
from memoranda_context import ContextManager
from memoranda_otel import TraceIds

logger = logging.getLogger("telemetry_service")


def set_up(processor: SpanProcessor, reader: MetricReader) -> None:
    """Say where spans and metrics go, once for the process, and put the trace's id into the log lines."""
    resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "assistant")})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(processor)
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([reader], resource=resource))
    handler = logging.StreamHandler()
    handler.addFilter(TraceIds())
    handler.setFormatter(logging.Formatter("%(levelname)s trace=%(otelTraceID)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open one store for the process, with the observer that reports its calls."""
    url = os.environ.get("MEMORANDA_URL", "sqlite:///agent.db")
    async with memoranda.open(url, observers=["otel"]) as store:
        app.state.store = store
        yield


app = FastAPI(lifespan=lifespan)


class Said(BaseModel):
    """The body of a request."""

    text: str


@app.post("/say/{user}", status_code=201)
async def say(user: str, said: Said, request: Request) -> dict[str, str]:
    """Remember what a user says."""
    item = HumanMemory(content=said.text)
    await request.app.state.store.scoped(user_id=user).add(item)
    return {"id": item.id}


@app.post("/ask/{user}")
async def ask(user: str, said: Said, request: Request) -> dict[str, Any]:
    """Return the context that a model would be asked with."""
    manager = ContextManager(long_term=request.app.state.store.scoped(user_id=user), token_budget=300)
    context = await manager.assemble_context(said.text)
    logger.info("a context of %d tokens", context.tokens)
    return {"tokens": context.tokens, "left_out": len(context.explanation.dropped)}


def tree(spans: list[ReadableSpan]) -> list[str]:
    """Return a line for each span, indented below its parent."""
    depths: dict[int, int] = {}
    lines = []
    for span in sorted(spans, key=lambda span: span.start_time or 0):
        assert span.context is not None
        depths[span.context.span_id] = depth = depths.get(span.parent.span_id, -1) + 1 if span.parent else 0
        attributes = span.attributes or {}
        shown = [f"{name.rpartition('.')[2]}={attributes[name]}" for name in SHOWN if name in attributes]
        lines.append(f"{'  ' * depth}{span.name} {' '.join(shown)}".rstrip())
    return lines


SHOWN = (
    "memoranda.scope",
    "memoranda.search.mode",
    "gen_ai.memory.record.count",
    "memoranda.context.tokens",
    "memoranda.outcome",
)


async def main() -> None:
    """Send a few requests, and print their spans."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    set_up(SimpleSpanProcessor(exporter), reader)
    os.environ["MEMORANDA_URL"] = "memory://"
    transport = httpx.ASGITransport(app)
    async with lifespan(app), httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        exporter.clear()
        for text in ("I take my tea without milk.", "My sister lives in Lisbon."):
            await client.post("/say/ada", json={"text": text})
        await client.post("/ask/ada", json={"text": "How do I like my tea?"})
    print("\n".join(tree(list(exporter.get_finished_spans()))))
    data: Any = reader.get_metrics_data()
    names = [metric.name for scope in data.resource_metrics[0].scope_metrics for metric in scope.metrics]
    print("metrics:", ", ".join(sorted(names)))


if __name__ == "__main__":
    asyncio.run(main())
elif "OTEL_EXPORTER_OTLP_ENDPOINT" in os.environ:
    set_up(BatchSpanProcessor(OTLPSpanExporter()), PeriodicExportingMetricReader(OTLPMetricExporter()))
