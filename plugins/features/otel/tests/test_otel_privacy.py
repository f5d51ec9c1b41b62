"""No span or metric has content, a secret or the id of a person, unless that is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from memoranda import AIMemory, HumanMemory, MemoryMetadata, ToolMemory
from memoranda.errors import MemoryError
from memoranda.store import Store
from memoranda_context import ContextManager
from memoranda_otel.settings import captures_content, names_people

Opened = Callable[..., Any]

PLACES = ("text", "query", "user", "session", "task", "agent", "place", "extra", "name", "tool", "approver", "origin")
CANARIES = [f"canary-{place}" for place in (*PLACES, "id")]


async def lived_in(store: Store) -> None:
    """Store and ask for canaries in every place that takes one, with calls that fail, too."""
    owner = MemoryMetadata(
        user_id="canary-user",
        session_id="canary-session",
        task_id="canary-task",
        agent_id="canary-agent",
        namespace=("canary-place",),
        extra={"key": "canary-extra"},
    )
    handle = store.scoped(user_id="canary-user", trust="external", origin="canary-origin")
    call = {"id": "c", "name": "canary-tool", "arguments": {"x": "canary-text"}}
    items = [
        HumanMemory(content="canary-text", name="canary-name", metadata=owner, id="1"),
        AIMemory(content="canary-text", tool_calls=[call], metadata=owner, id="2"),
        ToolMemory(content="canary-text", tool_call_id="c", tool_name="canary-tool", metadata=owner, id="3"),
    ]
    await handle.add(items[0])
    await handle.add_many(items[1:])
    await handle.search(query="canary-query", metadata=owner, where={"key": "canary-extra"})
    await handle.search_ranked(query="canary-query", mode="text")
    await handle.recall("canary-query canary-text")
    await handle.window(metadata=owner)
    assert [item.id async for item in handle.scan()] == ["1", "2", "3"]
    assert [owner.value async for owner in store.owners()] == ["canary-user"]
    await store.approve("1", trust="user", by="canary-approver")
    await ContextManager(long_term=handle).assemble_context("canary-query")
    failing: list[Callable[[], Any]] = [
        lambda: handle.add(HumanMemory(content="canary-text\0")),
        lambda: handle.search(metadata=MemoryMetadata(user_id="canary-user-2")),
        lambda: handle.search(query="canary-query", mode="canary-query"),  # type: ignore[arg-type]  # what is tested
        lambda: store.scoped(user_id="canary-user-2").add(items[0]),
        lambda: store.approve("canary-id", trust="user", by="canary-approver"),
    ]
    for fail in failing:
        with pytest.raises(MemoryError):
            await fail()
    assert await handle.get("canary-id") is None
    await handle.clear(metadata=owner)


@pytest.mark.parametrize("backend", ["memory", "sqlite", "vector", "postgres", "redis"])
async def test_nothing_private_is_exported_by_default(backend: str, opened: Opened, telemetry: Any) -> None:
    await lived_in(await opened(backend))
    exported = " ".join(span.to_json() for span in telemetry.spans)
    data: Any = telemetry.reader.get_metrics_data()
    exported += data.to_json()
    assert len(telemetry.calls) > 15
    assert [canary for canary in CANARIES if canary in exported] == []


async def test_no_secret_of_a_url_is_exported(telemetry: Any, servers: Callable[[str], str]) -> None:
    import memoranda

    url = "postgresql://canary-user:canary-password@127.0.0.1:1/canary-database?connect_timeout=1"
    store = memoranda.open(url, observers=[telemetry.observer()])
    with pytest.raises(MemoryError):
        await store.init()
    exported = " ".join(span.to_json() for span in telemetry.spans)
    assert "create_memory_store" in exported
    assert "canary" not in exported


async def test_ids_are_there_where_they_are_asked_for(opened: Opened, telemetry: Any) -> None:
    store = await opened("memory", observers=[telemetry.observer(ids=True)])
    handle = store.scoped(user_id="ada", agent_id="g")
    await handle.search(metadata=MemoryMetadata(session_id="s1", task_id="t1", namespace=("notes", "x")))
    attributes = dict(telemetry.last.attributes)
    wanted = {
        "user.id": "ada",
        "gen_ai.agent.id": "g",
        "gen_ai.conversation.id": "s1",
        "memoranda.task.id": "t1",
        "memoranda.namespace": "notes/x/",
    }
    assert {name: attributes.get(name) for name in wanted} == wanted


async def test_content_is_there_where_it_is_asked_for(
    opened: Opened, telemetry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    store = await opened("memory", observers=[telemetry.observer()])
    await store.add(HumanMemory(content="I like green tea.", id="1"))
    await store.search_ranked(query="tea", mode="text")
    added, searched = (dict(span.attributes) for span in telemetry.calls[1:])
    assert json.loads(added["gen_ai.memory.records"]) == [{"id": "1", "content": "I like green tea."}]
    assert searched["gen_ai.memory.query.text"] == "tea"
    (record,) = json.loads(searched["gen_ai.memory.records"])
    assert (record["id"], record["content"]) == ("1", "I like green tea.")
    assert 0 < record["score"] <= 1


@pytest.mark.parametrize(
    ("value", "captures"),
    [
        *((value, True) for value in ("true", "True", "1", "span_only", "SPAN_AND_EVENT")),
        *((value, False) for value in ("", "false", "no_content", "event_only", "0", "yes")),
    ],
)
def test_the_variable_decides_on_content(value: str, captures: bool) -> None:
    assert captures_content({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": value}) is captures


def test_the_variable_decides_on_ids() -> None:
    assert names_people({"MEMORANDA_OTEL_IDS": "true"})
    assert not names_people({"MEMORANDA_OTEL_IDS": "no"})
    assert not names_people({})
