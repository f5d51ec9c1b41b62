"""What adapters to agent frameworks share: messages as items, a session's order and head, records, finished writes."""

from __future__ import annotations

from memoranda_messages import Dropped
from memoranda_messages.parts import Part, parts_of
from memoranda_sessions.blocking import SyncCallError, awaitable_store, blocking
from memoranda_sessions.conversation import Conversation, Fence, settled
from memoranda_sessions.derived_ids import DerivedIds
from memoranda_sessions.finishing import finished, retried
from memoranda_sessions.formats import Fields, JsonObject, MessageFormat, warn_of
from memoranda_sessions.outgoing import Call, Outgoing, Result
from memoranda_sessions.records import RECORD, Record, Records

__all__ = [
    "RECORD", "Call", "Conversation", "DerivedIds", "Dropped", "Fence", "Fields", "JsonObject", "MessageFormat",
    "Outgoing", "Part", "Record", "Records", "Result", "SyncCallError", "awaitable_store", "blocking", "finished",
    "parts_of", "retried", "settled", "warn_of",
]  # fmt: skip
