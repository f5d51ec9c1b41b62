"""Map the public calls of a store to the conventions' operations, and count items read, written or removed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from opentelemetry.trace import SpanKind

from memoranda.store import Store
from memoranda.store.calls import Call
from memoranda_otel.conventions import CREATE, CREATE_STORE, DELETE, DELETE_STORE, SEARCH, UPDATE, UPSERT

Counts = Literal["read", "written", "removed", "touched", ""]


def _one(call: Call, result: Any) -> int | None:
    return 1


def _none(call: Call, result: Any) -> int | None:
    return None


def _result(call: Call, result: Any) -> int | None:
    return int(result)


def _found(call: Call, result: Any) -> int | None:
    return 0 if result is None else 1


def _length(call: Call, result: Any) -> int | None:
    return len(result)


def _given(name: str) -> Callable[[Call, Any], int | None]:
    def length(call: Call, result: Any) -> int | None:
        given = call.given[0] if call.given else call.named.get(name, ())
        return len(given) if hasattr(given, "__len__") else None

    return length


@dataclass(frozen=True, slots=True)
class Operation:
    """A kind of call: its name in the conventions, and how to count what it did."""

    name: str
    counts: Counts = ""
    count: Callable[[Call, Any], int | None] = _none
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
