"""The names of OpenTelemetry's conventions that are used here, our own for what they lack, and which call is which.

The GenAI ones are those of https://github.com/open-telemetry/semantic-conventions-genai (stability: development), the
others those of the database and general conventions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from opentelemetry.trace import SpanKind

from memoranda.store import Store
from memoranda.store.calls import Call

SCOPE = "memoranda"
"""The name of the tracer and the meter."""

SCHEMA_URL = "https://opentelemetry.io/schemas/1.37.0"

# Spans
OPERATION_NAME = "gen_ai.operation.name"
STORE_ID = "gen_ai.memory.store.id"
RECORD_ID = "gen_ai.memory.record.id"
RECORD_COUNT = "gen_ai.memory.record.count"
QUERY_TEXT = "gen_ai.memory.query.text"
RECORDS = "gen_ai.memory.records"
CONVERSATION_ID = "gen_ai.conversation.id"
AGENT_ID = "gen_ai.agent.id"
USER_ID = "user.id"
ERROR_TYPE = "error.type"
DB_SYSTEM = "db.system.name"

CREATE, UPDATE, UPSERT, DELETE, SEARCH = (
    f"{verb}_memory" for verb in ("create", "update", "upsert", "delete", "search")
)
CREATE_STORE, DELETE_STORE = "create_memory_store", "delete_memory_store"

CALL = "memoranda.operation"
BACKEND = "memoranda.backend"
SCOPE_KIND = "memoranda.scope"
MODE = "memoranda.search.mode"
OUTCOME = "memoranda.outcome"
TASK_ID = "memoranda.task.id"
NAMESPACE = "memoranda.namespace"
STEP_COUNT = "memoranda.step.count"

CONTEXT_TOKENS = "memoranda.context.tokens"
CONTEXT_BUDGET = "memoranda.context.token_budget"
CONTEXT_KEPT = "memoranda.context.kept"
CONTEXT_LEFT_OUT = "memoranda.context.left_out"
CONTEXT_WARNINGS = "memoranda.context.warnings"

# Metrics, each with its unit
DURATION = ("gen_ai.client.operation.duration", "s")
POOL_COUNT = ("db.client.connection.count", "{connection}")
POOL_MAX = ("db.client.connection.max", "{connection}")
POOL_PENDING = ("db.client.connection.pending_requests", "{request}")
POOL_NAME, POOL_STATE = "db.client.connection.pool.name", "db.client.connection.state"

WRITTEN = ("memoranda.items.written", "{item}")
READ = ("memoranda.items.read", "{item}")
PURGED = ("memoranda.items.purged", "{item}")
EXPIRED = ("memoranda.items.expired", "{item}")
QUARANTINED = ("memoranda.items.quarantined", "{item}")
WRITER_QUEUE = ("memoranda.writer.queue", "{write}")
INDEX_BACKLOG = ("memoranda.index.backlog", "{item}")
EXTRACTION_BACKLOG = ("memoranda.extraction.backlog", "{item}")

BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The bounds of durations: a read of a local store takes a tenth of a millisecond, and one with a model seconds."""

Counts = Literal["read", "written", "removed", "touched", ""]


Count = Callable[[Call, Any], int | None]
"""Counts the items of a call, given its result."""


def _one(call: Call, result: Any) -> int:
    return 1


def _none(call: Call, result: Any) -> None:
    return None


def _result(call: Call, result: Any) -> int:
    return int(result)


def _found(call: Call, result: Any) -> int:
    return 0 if result is None else 1


def _length(call: Call, result: Any) -> int:
    return len(result)


def _given(name: str) -> Count:
    def length(call: Call, result: Any) -> int | None:
        given = call.given[0] if call.given else call.named.get(name, ())
        return len(given) if hasattr(given, "__len__") else None

    return length


@dataclass(frozen=True, slots=True)
class Operation:
    """A kind of call: its name in the conventions, and how to count what it did."""

    name: str
    counts: Counts = ""
    count: Count = _none
    record: str = ""
    """The argument that is the id of the one record, or the record."""
    ranks: bool = False
    may_purge: bool = False
    kind: SpanKind = SpanKind.CLIENT


OPENING = Operation(CREATE_STORE)

OPERATIONS = {
    "add": Operation(UPSERT, "written", _one, "item"),
    "add_many": Operation(UPSERT, "written", _given("items")),
    "add_vectors": Operation(UPSERT, "written", _given("items")),
    "append": Operation(CREATE, "written", _given("items")),
    "apply": Operation(UPSERT, "written", _given("adds"), may_purge=True),
    "update": Operation(UPDATE, "written", _one, "item"),
    "update_many": Operation(UPDATE, "written", _length),
    "approve": Operation(UPDATE, record="item_id"),
    "touch": Operation(UPDATE, "touched", _result),
    "restore": Operation(UPDATE, "touched", _result, "item_id"),
    "fork": Operation(CREATE),
    "get": Operation(SEARCH, "read", _found, "item_id"),
    "get_many": Operation(SEARCH, "read", _length),
    "search": Operation(SEARCH, "read", _length, ranks=True),
    "search_ranked": Operation(SEARCH, "read", _length, ranks=True),
    "recall": Operation(SEARCH, "read", _length, ranks=True),
    "window": Operation(SEARCH, "read", _length),
    "payloads": Operation(SEARCH, "read", _length),
    "payload_changes": Operation(SEARCH),
    "scan": Operation(SEARCH, "read", _result),
    "count": Operation(SEARCH, "touched", _result),
    "head": Operation(SEARCH),
    "versions": Operation(SEARCH, "read", _length),
    "owners": Operation(SEARCH),
    "delete": Operation(DELETE, "removed", _result, "item_id"),
    "pop": Operation(DELETE, "removed", _found, may_purge=True),
    "clear": Operation(DELETE, "removed", _result),
    "purge": Operation(DELETE, "removed", _result, "item_id", may_purge=True),
    "purge_versions": Operation(DELETE, "removed", _result),
    "sweep": Operation(DELETE, "removed", _result),
    "init": OPENING,
    "assemble_context": Operation("assemble_context", kind=SpanKind.INTERNAL),
}
"""By the name of the method. Another of a store, such as ``close``, is ``close_memory_store``."""

_WHOLE_STORE = Operation(DELETE_STORE, "removed", _result)


def operation_of(call: Call) -> Operation:
    """Return the operation of a call. Clearing a whole store without a filter counts as deleting the store."""
    found = OPERATIONS.get(call.operation)
    if found is None:
        found = OPERATIONS[call.operation] = Operation(f"{call.operation}_memory_store")
    if call.operation == "clear" and not any(call.arguments.values()):
        return _WHOLE_STORE if isinstance(call.store, Store) and call.store.bounds is None else found
    return found


def purges(call: Call) -> bool:
    """Return True if what a call removes is removed for good."""
    return call.operation == "purge" or bool(call.operation in ("pop", "apply") and call.arguments.get("purge"))
