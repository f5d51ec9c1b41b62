"""What adapters to agent frameworks share: messages as items, a session's order and head, records, finished writes."""

from __future__ import annotations

from memoranda_messages import Dropped
from memoranda_messages.parts import Part, parts_of
from memoranda_messages.sessions.conversation import Conversation, Fence, settled
from memoranda_messages.sessions.formats import JsonObject, MessageFormat, Template, warn_of
from memoranda_messages.sessions.outgoing import Call, Fields, Outgoing, Result
from memoranda_messages.sessions.records import (
    RECORD,
    DerivedIds,
    Record,
    Records,
    finished,
    replaced,
    retry_conflicts,
    write_records,
)
from memoranda_messages.sessions.sessions import (
    ScopedState,
    SessionOptions,
    Sessions,
    StoredState,
    SyncCallError,
    ViewOptions,
    awaitable_store,
    beside,
    blocking,
    seen_by,
    states_of,
)

__all__ = [
    "RECORD", "Call", "Conversation", "DerivedIds", "Dropped", "Fence", "Fields", "JsonObject", "MessageFormat",
    "Outgoing", "Part", "Record", "Records", "Result", "ScopedState", "SessionOptions", "Sessions", "StoredState",
    "SyncCallError", "Template", "ViewOptions", "awaitable_store", "beside", "blocking", "finished", "parts_of",
    "replaced", "retry_conflicts", "seen_by", "settled", "states_of", "warn_of", "write_records",
]  # fmt: skip
