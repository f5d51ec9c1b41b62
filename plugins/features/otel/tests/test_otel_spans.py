"""Spans: one for each public call, on every backend, with the names and attributes of the conventions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind, StatusCode
from stepwise import StepwiseStore

import memoranda.sync
from memoranda import HumanMemory, MemoryMetadata, ShortTermMemory
from memoranda.errors import InputError
from memoranda.store import Capability, InMemoryStore, Store
from memoranda_otel import OpenTelemetry

Opened = Callable[..., Any]

BACKENDS = ("memory", "sqlite", "vector", "postgres", "redis")


async def called(store: Store) -> list[tuple[str, str, int | None]]:
    """Call each public method once; return method, name of its span and the number of records, in this order."""
    expected: list[tuple[str, str, int | None]] = [("init", "create_memory_store", None)]

    async def call(operation: str, name: str, count: int | None, *given: Any, **named: Any) -> Any:
        expected.append((operation, name, count))
        return await getattr(store, operation)(*given, **named)

    session = MemoryMetadata(session_id="s")
    await call("add", "upsert_memory", 1, HumanMemory(content="green tea", id="1", metadata=session))
    await call("add_many", "upsert_memory", 2, (HumanMemory(content=word, id=word) for word in ("milk", "jam")))
    await call("append", "create_memory", 1, [HumanMemory(content="cake", id="2", metadata=session)], after="1")
    await call("apply", "upsert_memory", 1, adds=[HumanMemory(content="salt", id="3")], deletes=["milk"])
    item = await call("get", "search_memory", 1, "1")
    item = await call("update", "update_memory", 1, item)
    await call("update_many", "update_memory", 1, [item])
    await call("get_many", "search_memory", 2, ["1", "2", "gone"])
    await call("search", "search_memory", 1, query="tea", mode="substring")
    await call("search_ranked", "search_memory", 1, query="tea", mode="text", limit=1)
    await call("recall", "search_memory", 1, "tea", limit=1)
    await call("window", "search_memory", 4)
    await call("payloads", "search_memory", 4)
    await call("head", "search_memory", None)
    await call("count", "search_memory", 4)
    expected.append(("scan", "search_memory", 4))
    assert len([each async for each in store.scan()]) == 4
    expected.append(("owners", "search_memory", None))
    assert [owner.value async for owner in store.owners("session_id")] == ["s"]
    await call("exists", "exists_memory_store", None)
    if Capability.TTL in store.capabilities:
        await call("touch", "update_memory", 1, ["1"], ttl=1000)
        await call("sweep", "delete_memory", 0)
    if Capability.DELETE in store.capabilities:
        await call("delete", "delete_memory", 1, "2")
        await call("restore", "update_memory", 1, "2")
    if Capability.FORK in store.capabilities:
        await call("fork", "create_memory", None, "s", at="1")
    await call("pop", "delete_memory", 1, metadata=session)
    await call("clear", "delete_memory", 1, metadata=session)
    await call("purge", "delete_memory", 1, "jam")
    # The record of the branch is an item, too.
    await call("clear", "delete_memory_store", 2 if Capability.FORK in store.capabilities else 1)
    await call("close", "close_memory_store", None)
    return expected


@pytest.mark.parametrize("backend", BACKENDS)
async def test_every_call_has_one_span_with_its_conventional_name(backend: str, opened: Opened, telemetry: Any) -> None:
    expected = await called(await opened(backend))
    attributes = [dict(span.attributes or {}) for span in telemetry.calls]
    assert [
        (each["memoranda.operation"], each["gen_ai.operation.name"], each.get("gen_ai.memory.record.count"))
        for each in attributes
    ] == expected
    assert [span.name for span in telemetry.calls] == [each["gen_ai.operation.name"] for each in attributes]
    assert {each["memoranda.backend"] for each in attributes} == {backend}
    assert len({each["gen_ai.memory.store.id"] for each in attributes}) == 1
    assert {span.kind for span in telemetry.calls} == {SpanKind.CLIENT}
    assert {each["memoranda.outcome"] for each in attributes} == {"ok"}
    assert {span.status.status_code for span in telemetry.calls} == {StatusCode.UNSET}


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_call_has_spans_of_its_steps_below_it(backend: str, opened: Opened, telemetry: Any) -> None:
    store = await opened(backend)
    telemetry.exporter.clear()
    await store.add_many([HumanMemory(content="green tea"), HumanMemory(content="black coffee")])
    await store.recall("tea")
    by_id = {span.context.span_id: span for span in telemetry.spans}
    steps = {
        (_top(span, by_id), span.name.removeprefix("memoranda.")) for span in telemetry.spans if span.parent is not None
    }
    written = {"sqlite": {"statement"}, "vector": {"embed"}, "postgres": {"pool", "statement"}, "redis": {"statement"}}
    read = {name: each | {"rank"} for name, each in written.items()}
    assert {step for call, step in steps if call == "add_many"} == written.get(backend, set())
    assert {step for call, step in steps if call == "recall"} == read.get(backend, {"rank"})


def _top(span: ReadableSpan, by_id: dict[int, ReadableSpan]) -> Any:
    while span.parent is not None:
        span = by_id[span.parent.span_id]
    return (span.attributes or {})["memoranda.operation"]


async def test_an_embedder_of_sqlite_has_a_span(opened: Opened, telemetry: Any) -> None:
    store = await opened("sqlite", embeddings="hashing")
    await store.add(HumanMemory(content="green tea"))
    await store.search(query="tea", mode="semantic")
    assert [span.name for span in telemetry.spans].count("memoranda.embed") >= 2


async def test_a_span_says_what_bounds_the_call_and_never_whom(opened: Opened, telemetry: Any) -> None:
    store = await opened("memory")
    handle = store.scoped(user_id="ada")
    await handle.count()
    await handle.scoped(session_id="s1", namespace=("notes",)).count()
    await handle.search(metadata=MemoryMetadata(task_id="t1"))
    await store.count()
    kinds = [(span.attributes or {})["memoranda.scope"] for span in telemetry.calls[1:]]
    assert kinds == ["user", "user+session+namespace", "user+task", "all"]


async def test_a_single_record_is_named(opened: Opened, telemetry: Any) -> None:
    store = await opened("memory")
    await store.add(HumanMemory(content="tea", id="r1"))
    for call in (store.get("r1"), store.delete("r1"), store.purge(item_id="r1")):
        await call
        assert (telemetry.last.attributes or {})["gen_ai.memory.record.id"] == "r1"
    await store.get_many(["r1"])
    assert "gen_ai.memory.record.id" not in (telemetry.last.attributes or {})


@pytest.mark.parametrize(
    ("backend", "mode", "seen"),
    [
        ("memory", None, "substring"),
        ("memory", "text", "text"),
        ("vector", None, "semantic"),
        ("vector", "hybrid", "hybrid"),
    ],
)
async def test_a_search_says_how_it_ranks(backend: str, mode: Any, seen: str, opened: Opened, telemetry: Any) -> None:
    store = await opened(backend)
    await store.scoped(user_id="ada").search(query="tea", mode=mode)
    assert (telemetry.last.attributes or {})["memoranda.search.mode"] == seen
    assert (telemetry.last.attributes or {})["memoranda.outcome"] == "empty"


async def test_a_failed_call_says_the_class_of_its_error_and_no_message(opened: Opened, telemetry: Any) -> None:
    store = await opened("memory")
    with pytest.raises(InputError):
        await store.search(limit=-1)
    span = telemetry.last
    assert (span.attributes or {})["error.type"] == "InputError"
    assert (span.attributes or {})["memoranda.outcome"] == "error"
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert list(span.events) == []


async def test_a_cancelled_call_says_so(telemetry: Any) -> None:
    class Hangs(StepwiseStore):
        async def _count(self, *_: Any) -> int:
            await asyncio.sleep(60)
            return 0

    store = Hangs()
    store.observe(telemetry.observer())
    task = asyncio.create_task(store.count())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (telemetry.last.attributes or {})["memoranda.outcome"] == "cancelled"


async def test_spans_are_children_of_the_callers(opened: Opened, telemetry: Any) -> None:
    store = await opened("memory")
    with telemetry.traces.get_tracer("app").start_as_current_span("turn") as turn:
        await store.add(HumanMemory(content="tea"))
        await asyncio.gather(store.count(), store.count())
        assert trace.get_current_span() is turn
    assert {span.parent.span_id for span in telemetry.calls[1:] if span.parent} == {turn.get_span_context().span_id}


async def test_a_stream_is_no_parent_of_what_its_reader_does(opened: Opened, telemetry: Any) -> None:
    store = await opened("memory")
    await store.add_many([HumanMemory(content="tea"), HumanMemory(content="milk")])
    async for _ in store.scan():
        await store.count()
    *counts, scan = telemetry.calls[2:]
    assert (scan.attributes or {})["gen_ai.memory.record.count"] == 2
    assert [span.parent for span in counts] == [None, None]


async def test_an_approval_has_its_reading_and_writing_below_it(opened: Opened, telemetry: Any) -> None:
    store = await opened("memory")
    await store.add(HumanMemory(content="tea", id="1"))
    await store.approve("1", trust="user", by="vera")
    get, update, approve = telemetry.calls[-3:]
    assert approve.name == "update_memory"
    assert get.parent == update.parent == approve.context


async def test_a_conversation_has_one_span_for_each_call(telemetry: Any) -> None:
    memory = ShortTermMemory(scope="session")
    memory.observe(telemetry.observer())
    await memory.add(HumanMemory(content="tea"))
    await memory.search()
    await memory.clear()
    assert [span.name for span in telemetry.spans] == ["upsert_memory", "search_memory", "delete_memory_store"]


def test_a_store_that_blocks_joins_the_trace_of_its_thread(telemetry: Any) -> None:
    turns = telemetry.traces.get_tracer("app").start_as_current_span("turn")
    with turns as turn, memoranda.sync.open("memory://", observers=[telemetry.observer()]) as store:
        store.add(HumanMemory(content="tea"))
        assert len(list(store.scan())) == 1
    assert [span.name for span in telemetry.calls] == [
        "create_memory_store", "upsert_memory", "search_memory", "close_memory_store",
    ]  # fmt: skip
    assert {span.context.trace_id for span in telemetry.calls} == {turn.get_span_context().trace_id}


async def test_two_observers_of_the_same_settings_make_one_span(telemetry: Any) -> None:
    store = InMemoryStore()
    store.observe(telemetry.observer())
    store.observe(telemetry.observer())
    store.scoped(user_id="ada").observe(telemetry.observer())
    await store.count()
    assert len(telemetry.spans) == 1


# The spans that are made without the SDK's


class Copies(SpanProcessor):
    """Looks at a span when it begins, as some processors do."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        span.set_attribute("copied", "yes")


async def _told(provider: TracerProvider) -> list[dict[str, Any]]:
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    store = InMemoryStore()
    store.observe(OpenTelemetry(tracer_provider=provider))
    with provider.get_tracer("app").start_as_current_span("turn"):
        await store.add(HumanMemory(content="tea", id="1"))
        with pytest.raises(InputError):
            await store.search(limit=-1)
    return [json.loads(span.to_json()) for span in exporter.get_finished_spans()[:-1]]


async def test_plain_spans_say_the_same_as_those_of_the_sdk() -> None:
    plain, ours = TracerProvider(), TracerProvider()
    ours.add_span_processor(Copies())
    seen, expected = await _told(plain), await _told(ours)
    for span in (*seen, *expected):
        assert span["attributes"].pop("copied", "yes") == "yes"
        for changing in ("context", "parent_id", "start_time", "end_time"):
            assert span.pop(changing)
        span["attributes"].pop("gen_ai.memory.store.id")
    assert seen == expected


async def test_a_processor_that_looks_at_beginnings_sees_every_span(telemetry: Any) -> None:
    store = InMemoryStore()
    store.observe(telemetry.observer())
    await store.count()
    telemetry.traces.add_span_processor(Copies())
    await store.count()
    assert ["copied" in (span.attributes or {}) for span in telemetry.spans] == [False, True]


@pytest.mark.parametrize(
    ("sampler", "alone", "below"),
    [
        (ALWAYS_ON, 1, 1),
        (ALWAYS_OFF, 0, 0),
        (ParentBased(ALWAYS_ON), 1, 1),
        (ParentBased(ALWAYS_OFF), 0, 1),
        (TraceIdRatioBased(1.0), 1, 1),
        (TraceIdRatioBased(0.0), 0, 0),
        (ParentBased(TraceIdRatioBased(0.0)), 0, 1),
        (ParentBased(ALWAYS_ON, local_parent_sampled=ALWAYS_OFF), 1, 0),
    ],
)
async def test_the_sampler_decides(sampler: Any, alone: int, below: int) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider(sampler=sampler)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    store = InMemoryStore()
    store.observe(OpenTelemetry(tracer_provider=provider))
    await store.count()
    assert len(exporter.get_finished_spans()) == alone
    exporter.clear()
    with TracerProvider().get_tracer("app").start_as_current_span("turn"):
        await store.count()
    assert len(exporter.get_finished_spans()) == below


async def test_a_trace_that_is_not_sampled_stays_so_below_a_call() -> None:
    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(0.0)))
    seen = []

    class Looks(StepwiseStore):
        async def _count(self, *given: Any) -> int:
            seen.append(trace.get_current_span().get_span_context())
            return await super()._count(*given)

    store = Looks()
    store.observe(OpenTelemetry(tracer_provider=provider))
    await store.count()
    assert seen[0].is_valid
    assert not seen[0].trace_flags.sampled


async def test_code_within_a_call_can_use_its_span(telemetry: Any) -> None:
    class Notes(StepwiseStore):
        async def _count(self, *given: Any) -> int:
            span = trace.get_current_span()
            span.set_attribute("rows", 3)
            span.add_event("read", {"page": 1})
            span.record_exception(ValueError("my door code"))
            span.update_name("renamed")
            assert span.is_recording()
            return await super()._count(*given)

    store = Notes()
    store.observe(telemetry.observer())
    await store.count()
    (span,) = telemetry.spans
    assert (span.name, (span.attributes or {})["rows"]) == ("renamed", 3)
    assert [event.name for event in span.events] == ["read", "exception"]
    assert "door" not in span.to_json()


async def test_a_store_without_any_provider_works() -> None:
    store = InMemoryStore()
    store.observe(OpenTelemetry())
    await store.add(HumanMemory(content="tea"))
    assert await store.count() == 1
