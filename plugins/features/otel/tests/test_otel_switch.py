"""Switching it on: by name, by OpenTelemetry's variables, and with opentelemetry-instrument; a real OTLP receiver."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from gzip import decompress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import memoranda
from memoranda import HumanMemory
from memoranda.plugins import ObserverSpec, Registry
from memoranda.store import InMemoryStore
from memoranda_otel import MemorandaInstrumentor, OpenTelemetry
from memoranda_otel.settings import is_switched_on


def spec(registry: Registry) -> ObserverSpec:
    return registry.find(ObserverSpec, "otel")


async def test_it_is_found_through_its_entry_point_and_attached_by_name() -> None:
    async with memoranda.open("memory://", observers=["otel"]) as store:
        await store.add(HumanMemory(content="tea"))
        assert await store.count() == 1
        assert any(isinstance(observer, OpenTelemetry) for observer in store._observers)


@pytest.mark.parametrize(
    ("variables", "on"),
    [
        ({}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_METRICS_EXPORTER": "console"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:4318"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "None"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_SERVICE_NAME": "assistant"}, False),
    ],
)
def test_the_variables_of_opentelemetry_switch_it_on(variables: dict[str, str], on: bool) -> None:
    assert is_switched_on(variables) is on


def test_every_store_gets_it_where_the_variables_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)
    assert not spec(Registry()).auto
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    registry = Registry()
    assert spec(registry).auto
    store = memoranda.open("memory://", registry=registry, observers=["otel"])
    assert len([each for each in store._observers if isinstance(each, OpenTelemetry)]) == 2
    assert len(store.measured_by) == 1  # type: ignore[attr-defined]  # they are equal, so one reports


async def test_the_instrumentor_measures_stores_however_they_are_made(telemetry: Any) -> None:
    before = InMemoryStore()
    instrumentor = MemorandaInstrumentor()
    instrumentor.instrument(tracer_provider=telemetry.traces, meter_provider=telemetry.meters)
    try:
        made = InMemoryStore()
        await made.scoped(user_id="ada").add(HumanMemory(content="tea"))
        async with memoranda.open("memory://", observers=[telemetry.observer()]) as store:
            await store.count()
    finally:
        instrumentor.uninstrument()
    await InMemoryStore().count()
    await before.count()
    names = ["upsert_memory", "create_memory_store", "search_memory", "close_memory_store"]
    assert [span.name for span in telemetry.spans] == names


def test_the_instrumentor_has_an_entry_point() -> None:
    (found,) = entry_points(group="opentelemetry_instrumentor", name="memoranda")
    assert found.load() is MemorandaInstrumentor
    assert list(MemorandaInstrumentor().instrumentation_dependencies()) == ["memoranda >= 0.1, < 0.2"]


class Receiver:
    """An OTLP receiver on this machine."""

    def __init__(self) -> None:
        self.traces: list[Any] = []
        self.metrics: list[Any] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = decompress(body)
                if self.path == "/v1/traces":
                    receiver.traces.append(ExportTraceServiceRequest.FromString(body))
                elif self.path == "/v1/metrics":
                    receiver.metrics.append(ExportMetricsServiceRequest.FromString(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def spans(self) -> list[Any]:
        """The spans of all requests."""
        scopes = [scope for request in self.traces for each in request.resource_spans for scope in each.scope_spans]
        return [span for scope in scopes for span in scope.spans]

    @property
    def metric_names(self) -> set[str]:
        """The names of all metrics."""
        scopes = [
            scope for request in self.metrics for each in request.resource_metrics for scope in each.scope_metrics
        ]
        return {metric.name for scope in scopes for metric in scope.metrics}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def environment(receiver: Receiver, tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEMORANDA", "OTEL"))}
    return kept | {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_LOGS_EXPORTER": "none",
        "OTEL_SERVICE_NAME": "assistant",
        "XDG_DATA_HOME": str(tmp_path),
    }


def instrumented(*words: str) -> list[str]:
    return [str(Path(sys.executable).parent / "opentelemetry-instrument"), sys.executable, *words]


def test_an_instrumented_program_exports_to_a_receiver(receiver: Receiver, tmp_path: Path) -> None:
    program = (
        "import asyncio, memoranda\\n"
        "async def main():\\n"
        f"    async with memoranda.open('sqlite:///{tmp_path}/memories.db') as store:\\n"
        "        await store.scoped(user_id='ada').add(memoranda.HumanMemory(content='I like tea.'))\\n"
        "asyncio.run(main())\\n"
    ).replace("\\n", "\n")
    subprocess.run(instrumented("-c", program), env=environment(receiver, tmp_path), check=True, timeout=60)
    calls = {span.name for span in receiver.spans if not span.name.startswith("memoranda.")}
    assert calls == {"create_memory_store", "upsert_memory", "close_memory_store"}
    assert len([span for span in receiver.spans if span.name == "upsert_memory"]) == 1
    resource = receiver.traces[0].resource_spans[0].resource
    assert "assistant" in [attribute.value.string_value for attribute in resource.attributes]
    assert {"gen_ai.client.operation.duration", "memoranda.items.written"} <= receiver.metric_names
    assert "I like tea" not in str(receiver.traces) + str(receiver.metrics)


@pytest.mark.slow
async def test_the_mcp_server_as_a_process_joins_its_callers_trace(receiver: Receiver, tmp_path: Path) -> None:
    command, *words = instrumented("-m", "memoranda", "mcp", "--store", f"sqlite:///{tmp_path}/m.db", "--user", "ada")
    server = StdioServerParameters(command=command, args=words, env=environment(receiver, tmp_path))
    caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with Client(server) as client:
        await client.call_tool("remember", {"content": "I like tea."}, meta={"traceparent": caller})
    by_name = {span.name: span for span in receiver.spans if span.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"}
    tool, memory = by_name["tools/call remember"], by_name["upsert_memory"]
    assert tool.parent_span_id.hex() == "b7ad6b7169203331"
    assert memory.parent_span_id == tool.span_id


def test_without_the_sdk_there_is_nothing_to_export(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['opentelemetry.sdk'] = None\n"
        "import memoranda.sync\n"
        "with memoranda.sync.open('memory://', observers=['otel']) as store:\n"
        "    store.add(memoranda.HumanMemory(content='tea'))\n"
        "    print(store.count())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "1\n"
