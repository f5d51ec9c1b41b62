"""The names of OpenTelemetry's conventions that are used here, and our own for what they lack.

The GenAI ones are those of https://github.com/open-telemetry/semantic-conventions-genai (stability: development), the
others those of the database and general conventions.
"""

from __future__ import annotations

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
