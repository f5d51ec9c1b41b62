"""Traces go through: adapters, the MCP server, context assembly, threads and logs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from stepwise import StepwiseStore

from memoranda import AIMemory, HumanMemory, MemoryMetadata
from memoranda.store import InMemoryStore
from memoranda_context import ContextManager, assemble
from memoranda_langgraph import MemorandaStore
from memoranda_mcp import ScopedMemory, make_server
from memoranda_openai_agents import MemorandaSession
from memoranda_otel import TraceIds

Opened = Callable[..., Any]


def turn(telemetry: Any) -> Any:
    """Return the span of an application, as a context."""
    return telemetry.traces.get_tracer("app").start_as_current_span("turn")


def traces(telemetry: Any) -> set[int]:
    return {span.context.trace_id for span in telemetry.calls}


async def test_the_mcp_server_joins_the_trace_of_its_caller(telemetry: Any) -> None:
    store = InMemoryStore()
    store.observe(telemetry.observer())
    memory = ScopedMemory(store.scoped(user_id="ada"), store.scoped(user_id="ada"))
    async with Client(make_server(memory)) as client:
        with turn(telemetry) as span:
            await client.call_tool("remember", {"content": "I like tea."})
            await client.call_tool("recall", {"query": "tea"})
    await memory.subscriptions.close()
    assert {each.name for each in telemetry.calls} >= {"upsert_memory", "search_memory"}
    assert traces(telemetry) == {span.get_span_context().trace_id}


async def test_a_trace_in_the_meta_of_a_request_is_joined(telemetry: Any) -> None:
    store = InMemoryStore()
    store.observe(telemetry.observer())
    memory = ScopedMemory(store.scoped(user_id="ada"), store.scoped(user_id="ada"))
    caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with Client(make_server(memory)) as client:
        await client.call_tool("remember", {"content": "I like tea."}, meta={"traceparent": caller})
    await memory.subscriptions.close()
    assert {f"{trace:032x}" for trace in traces(telemetry)} == {"0af7651916cd43dd8448eb211c80319c"}
    parents = [span.parent for span in telemetry.calls]
    assert all(parent is not None and f"{parent.span_id:016x}" == "b7ad6b7169203331" for parent in parents)


async def test_an_agents_session_joins_the_trace(opened: Opened, telemetry: Any) -> None:
    store = await opened("sqlite")
    telemetry.exporter.clear()
    session = MemorandaSession("s1", store.scoped(user_id="ada"))
    with turn(telemetry) as span:
        await session.add_items([{"role": "user", "content": "I like tea."}])
        assert len(await session.get_items()) == 1
    assert len(telemetry.calls) >= 2
    assert traces(telemetry) == {span.get_span_context().trace_id}


def test_a_graphs_store_that_blocks_joins_the_trace_of_its_thread(telemetry: Any, tmp_path: Path) -> None:
    import memoranda.sync

    url = f"sqlite:///{tmp_path}/memories.db"
    with memoranda.sync.open(url, observers=[telemetry.observer()]) as store:
        telemetry.exporter.clear()
        memories = MemorandaStore(store)
        with turn(telemetry) as span:
            memories.put(("ada",), "tea", {"likes": True})
            assert memories.get(("ada",), "tea") is not None
        seen = telemetry.calls
    assert len(seen) >= 2
    assert {each.context.trace_id for each in seen} == {span.get_span_context().trace_id}


async def test_a_context_has_a_span_with_its_tokens_and_what_was_left_out(opened: Opened, telemetry: Any) -> None:
    store = await opened("memory")
    handle = store.scoped(user_id="ada")
    await handle.add_many([HumanMemory(content=f"I drank green tea {number} times. " * 20) for number in range(8)])
    manager = ContextManager(long_term=handle, long_term_limit=10, token_budget=600)
    context = await manager.assemble_context("How often did I drink tea?")
    span = telemetry.last
    attributes = dict(span.attributes)
    assert (span.name, attributes["memoranda.scope"]) == ("assemble_context", "user")
    assert attributes["memoranda.context.tokens"] == context.tokens
    assert attributes["memoranda.context.token_budget"] == 600
    assert attributes["memoranda.context.kept"] == len(context.explanation.kept)
    left_out = {name.rpartition(".")[2]: value for name, value in attributes.items() if ".left_out." in name}
    assert left_out.pop("total") == len(context.explanation.dropped) == sum(left_out.values()) > 0
    assert left_out["no_room"] > 0
    below = [each for each in telemetry.calls if each.parent == span.context]
    assert {dict(each.attributes)["memoranda.operation"] for each in below} == {"recall", "search"}


async def test_assembling_for_a_handle_has_such_a_span_too(opened: Opened, telemetry: Any) -> None:
    store = await opened("memory")
    handle = store.scoped(user_id="ada", session_id="s")
    await handle.add_many([HumanMemory(content="I like tea."), AIMemory(content="Noted.")])
    assert await assemble(handle, "What do I like?")
    attributes = dict(telemetry.last.attributes)
    assert (telemetry.last.name, attributes["memoranda.scope"]) == ("assemble_context", "user+session")
    assert attributes["memoranda.context.tokens"] > 0
    assert attributes["memoranda.outcome"] == "ok"


async def test_an_empty_context_says_why(opened: Opened, telemetry: Any) -> None:
    store = await opened("memory")
    await ContextManager(long_term=store.scoped(user_id="ada")).assemble_context("What do I like?")
    attributes = dict(telemetry.last.attributes)
    assert attributes["memoranda.context.left_out.total"] == 0
    assert attributes["memoranda.context.warnings"] == 1  # There are no long-term memories.


async def test_logs_within_a_call_carry_its_ids(telemetry: Any) -> None:
    logger = logging.getLogger("memoranda_test")
    records: list[Any] = []

    class Keeps(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    class Logs(StepwiseStore):
        async def _count(self, *given: Any) -> int:
            logger.warning("within")
            return await super()._count(*given)

    handler = Keeps()
    handler.addFilter(TraceIds())
    logger.addHandler(handler)
    try:
        store = Logs()
        store.observe(telemetry.observer())
        await store.count(metadata=MemoryMetadata(user_id="ada"))
        logger.warning("outside")
    finally:
        logger.removeHandler(handler)
    within, outside = records
    context = telemetry.last.context
    assert (within.otelTraceID, within.otelSpanID) == (f"{context.trace_id:032x}", f"{context.span_id:016x}")
    assert (outside.otelTraceID, outside.otelSpanID) == ("", "")


async def test_ids_that_a_record_has_are_left(caplog: pytest.LogCaptureFixture) -> None:
    record = logging.LogRecord("x", logging.INFO, "x", 1, "x", (), None)
    record.otelTraceID = "given"
    assert TraceIds().filter(record)
    assert record.otelTraceID == "given"
    assert not hasattr(record, "otelSpanID")
