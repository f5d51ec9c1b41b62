"""The observer: a span and some numbers for every call of a store."""

from __future__ import annotations

import asyncio
import hashlib
import json
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.trace import SpanKind

from memoranda import __version__
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability, RankedItem, Recalled, Store, namespace_key
from memoranda.store.calls import WATCHING, Begin, Call, End
from memoranda.store.layers import add_layer
from memoranda_otel import conventions, settings
from memoranda_otel.conventions import (
    BACKEND,
    ERROR_TYPE,
    MODE,
    OUTCOME,
    RECORD_COUNT,
    RECORD_ID,
    SCOPE_KIND,
    STORE_ID,
    Operation,
    operation_of,
    purges,
)
from memoranda_otel.measuring import Measuring, TelemetryLayer
from memoranda_otel.metrics import measurements_for, system_of
from memoranda_otel.spans import PlainSpan, Spans, enter, fail, leave

LOOK_AGAIN = 64
"""After how many calls that go nowhere providers are looked for again, which takes as long as a call."""

_SCOPE_NAMES = {"user_id": "user", "session_id": "session", "task_id": "task", "agent_id": "agent"}
_PEOPLE = {
    "user_id": conventions.USER_ID,
    "session_id": conventions.CONVERSATION_ID,
    "task_id": conventions.TASK_ID,
    "agent_id": conventions.AGENT_ID,
}
_LEFT_OUT = {
    "it does not fit the token budget": "no_room",
    "it is in the context already": "repeated",
    "it is the query": "query",
    "its tool call or one of its results is not in the context": "incomplete",
}
"""What the reasons of a context's explanation are called in attributes."""


@dataclass(frozen=True, slots=True)
class Described:
    """What is known of a store or handle, whatever is called."""

    backend: str
    store_id: str
    scope: MemoryMetadata | None
    kind: str

    begin: Begin
    """Begins the span of a step."""

    bases: dict[tuple[str, str], dict[str, Any]]

    def attributes_of(self, operation: str, call: str) -> dict[str, Any]:
        base = self.bases.get((operation, call))
        if base is None:
            base = {
                conventions.OPERATION_NAME: operation,
                STORE_ID: self.store_id,
                conventions.CALL: call,
                BACKEND: self.backend,
                SCOPE_KIND: self.kind,
            }
            self.bases[operation, call] = base
        return base.copy()


class OpenTelemetry(Measuring):
    """Makes a span and metrics of every public call, by OpenTelemetry's conventions for memory operations.

    ``tracer_provider`` and ``meter_provider`` are those that the program has set, unless others are given. No span has
    any content, secret or id of a person. ``content`` adds queries and records, by default where the environment's
    ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` is ``true``, ``span_only`` or ``span_and_event``. ``ids``
    adds the ids of users, sessions, tasks and agents, by default where ``MEMORANDA_OTEL_IDS`` is ``true``.

    Two observers with the same settings count as one: a store that gets both reports each call once.
    """

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        content: bool | None = None,
        ids: bool | None = None,
    ) -> None:
        self._content = settings.captures_content() if content is None else content
        self._ids = settings.names_people() if ids is None else ids
        self._settings = (tracer_provider, meter_provider, self._content, self._ids)
        self._spans = Spans(tracer_provider, __version__)
        self._ignored = 0
        self._described: dict[int, tuple[weakref.ref[Any], Described]] = {}
        self._measurements = measurements_for(meter_provider, __version__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpenTelemetry) and other._settings == self._settings

    def __hash__(self) -> int:
        return hash(self._settings)

    def __repr__(self) -> str:
        return f"OpenTelemetry(content={self._content}, ids={self._ids})"

    def attached(self, store: Any) -> None:
        """Report the calls of a store or handle."""
        super().attached(store)
        self._watch(store)
        self._look()

    def _look(self) -> None:
        self._spans.look()
        self._measurements.look()

    def around(self, call: Call) -> End | None:
        """Begin the span of a call, and return what ends it."""
        spans = self._spans
        parent = None if spans.is_off else spans.parent()
        measures = self._measurements.is_on
        if parent is None and not measures:
            self._ignored += 1
            if self._ignored % LOOK_AGAIN == 1:  # A program may set its providers late.
                self._look()
            return None
        described = self._description(call.store)
        operation = operation_of(call)
        span = token = watched = None
        if parent is not None:
            attributes = described.attributes_of(operation.name, call.operation)
            span = spans.start(operation.name, operation.kind, attributes, parent)
            # What a stream yields is used by its reader between the items: its span is no parent of that.
            if not call.streams:
                token = enter(span)
                watched = WATCHING.set(described.begin)
        begun = perf_counter() if measures else 0.0

        def end(result: Any, error: BaseException | None) -> None:
            if token is not None:
                leave(token)
            if watched is not None:
                WATCHING.reset(watched)
            count = operation.count(call, result) if error is None else None
            if measures:
                self._measure(call, operation, described.backend, perf_counter() - begun, count, result, error)
            if span is not None:
                self._finish(span, call, operation, described, result, error, count)

        return end

    def _finish(
        self,
        span: Any,
        call: Call,
        operation: Operation,
        described: Described,
        result: Any,
        error: BaseException | None,
        count: int | None,
    ) -> None:
        is_plain, named = type(span) is PlainSpan, call.named
        attributes: dict[str, Any] = span._attributes if is_plain else {}
        if error is None:
            attributes[OUTCOME] = "empty" if count == 0 and operation.counts == "read" else "ok"
        else:
            attributes[OUTCOME] = "cancelled" if isinstance(error, asyncio.CancelledError) else "error"
            attributes[ERROR_TYPE] = type(error).__name__
            fail(span)
        if count is not None:
            attributes[RECORD_COUNT] = count
        # An id under which nothing is found may be any text.
        if (
            operation.record
            and error is None
            and count != 0
            and (record := call.given[0] if call.given else named.get(operation.record)) is not None
        ):
            attributes[RECORD_ID] = record.id if isinstance(record, MemoryItem) else str(record)
        if operation.ranks:
            attributes[MODE] = search_mode(call)
        if named:  # Filters are keywords.
            narrowed = named.get("metadata") or named.get("within")
            if isinstance(narrowed, MemoryMetadata):
                attributes[SCOPE_KIND] = scope_kind(described.scope, narrowed)
        if self._ids:
            attributes |= people(described.scope, named.get("metadata"), named.get("within"))
        if self._content:
            attributes |= contents(call.arguments, result)
        if operation.kind is SpanKind.INTERNAL and error is None:
            attributes |= context_attributes(result.explanation)
        if not is_plain:
            span.set_attributes(attributes)
        span.end()

    def _measure(
        self,
        call: Call,
        operation: Operation,
        backend: str,
        seconds: float,
        count: int | None,
        result: Any,
        error: BaseException | None,
    ) -> None:
        measurements = self._measurements
        measurements.add((operation.name, call.operation, backend, type(error).__name__ if error else ""), seconds)
        if count and operation.counts in ("written", "read"):
            measurements.count(operation.counts, operation.name, backend, count)
        if operation.may_purge and result and purges(call):
            removed = result if isinstance(result, int) else 1
            measurements.count("purged", operation.name, backend, removed)

    # Stores

    def _description(self, store: Any) -> Described:
        known = self._described.get(id(store))
        if known is not None and known[0]() is store:
            return known[1]
        described = self._describe(store)
        key = id(store)
        self._described[key] = (weakref.ref(store, lambda _: self._described.pop(key, None)), described)
        return described

    def _describe(self, store: Any) -> Described:
        root = root_of(store)
        backend = backend_of(root)
        label = getattr(root, "label", "")
        digest = hashlib.sha256(f"{label} {id(root) if '://' not in label else ''}".encode()).hexdigest()
        scope = store.bounds if isinstance(store, Store) else None
        described = Described(
            backend, f"{backend}-{digest[:12]}", scope, scope_kind(scope), self._beginning(backend), {}
        )
        if isinstance(root, Store) and root not in self._measurements.stores:
            self._measurements.stores[root] = {BACKEND: backend, STORE_ID: described.store_id}
        return described

    def _watch(self, store: Store) -> None:
        """Put a layer that reports the engine's work into a store, unless it has one."""
        known = [layer.observer for layer in store.layers if isinstance(layer, TelemetryLayer)]
        if self not in known:
            backend = backend_of(store.root)
            add_layer(store, TelemetryLayer, self, self._beginning(backend), self._expiry(backend))

    def _expiry(self, backend: str) -> Callable[[int], None]:
        return lambda items: self._measurements.count("expired", conventions.DELETE, backend, items)

    def _beginning(self, backend: str) -> Begin:
        def begin(step: str) -> End | None:
            parent = self._spans.step_parent()
            if parent is None:
                return None
            attributes: dict[str, Any] = {BACKEND: backend}
            if step in ("statement", "pool"):
                attributes[conventions.DB_SYSTEM] = system_of(backend)
            return _ending(self._spans.start(f"memoranda.{step}", SpanKind.INTERNAL, attributes, parent))

        return begin


def _ending(span: trace.Span) -> End:
    token = enter(span)

    def end(result: Any, error: BaseException | None) -> None:
        leave(token)
        if error is not None:
            span.set_attribute(ERROR_TYPE, type(error).__name__)
            fail(span)
        elif isinstance(result, (list, tuple)):
            span.set_attribute(conventions.STEP_COUNT, len(result))
        span.end()

    return end


def backend_of(store: Any) -> str:
    """Return the name of a store's backend: that of its package, without our prefix."""
    for cls in type(store).__mro__:
        package = cls.__module__.partition(".")[0]
        if package != "memoranda":
            return package.removeprefix("memoranda_")
        if cls.__module__ == "memoranda.store.in_memory":
            return "memory"
    return type(store).__name__


def scope_kind(*scopes: MemoryMetadata | None) -> str:
    """Return which fields bound a call, never their values: ``user+session``, or ``all`` without any."""
    bound = [scope for scope in scopes if scope is not None]
    kinds = [kind for name, kind in _SCOPE_NAMES.items() if any(getattr(scope, name) is not None for scope in bound)]
    if any(scope.namespace for scope in bound):
        kinds.append("namespace")
    return "+".join(kinds) or "all"


def people(*scopes: Any) -> dict[str, str]:
    """Return the ids that bound a call, as attributes."""
    found: dict[str, str] = {}
    for scope in scopes:
        if isinstance(scope, MemoryMetadata):
            values = {attribute: getattr(scope, name) for name, attribute in _PEOPLE.items()}
            found |= {attribute: value for attribute, value in values.items() if value is not None}
            if scope.namespace:
                found[conventions.NAMESPACE] = namespace_key(scope.namespace)
    return found


def contents(given: Mapping[str, Any], result: Any) -> dict[str, str]:
    """Return the query, and the records that were given or returned, as the conventions write them."""
    found: dict[str, str] = {}
    if isinstance(query := given.get("query", given.get("input_query", given.get("question"))), str) and query:
        found[conventions.QUERY_TEXT] = query
    items = next((given[name] for name in ("item", "items", "adds") if name in given), result)
    listed = items if isinstance(items, (list, tuple, Recalled)) else [items]
    records = []
    for each in listed:
        item = each.item if isinstance(each, RankedItem) else each
        if isinstance(item, MemoryItem):
            score = {"score": each.score} if isinstance(each, RankedItem) else {}
            records.append({"id": item.id, "content": item.content, **score})
    if records:
        found[conventions.RECORDS] = json.dumps(records, ensure_ascii=False)
    return found


def search_mode(call: Call) -> str:
    """Return how a search ranks: what was asked for, or else the default of the store."""
    if call.operation == "recall":
        return "hybrid" if Capability.HYBRID in call.store.capabilities else "text"
    mode = call.named.get("mode") or root_of(call.store).default_mode
    if mode not in ("substring", "text", "semantic", "hybrid"):
        return "unknown"  # It is whatever the caller wrote.
    return "text" if mode == "substring" and call.operation == "search_ranked" else str(mode)


def root_of(store: Any) -> Any:
    """Return the store underneath a handle."""
    return store.root if isinstance(store, Store) else store


def context_attributes(explanation: Any) -> dict[str, int]:
    """Return how large a context is, and how many items were left out of it, by reason."""
    counted = {
        conventions.CONTEXT_TOKENS: explanation.tokens,
        conventions.CONTEXT_BUDGET: explanation.token_budget,
        conventions.CONTEXT_KEPT: len(explanation.kept),
        f"{conventions.CONTEXT_LEFT_OUT}.total": len(explanation.dropped),
        conventions.CONTEXT_WARNINGS: len(explanation.warnings),
    }
    for decision in explanation.dropped:
        name = f"{conventions.CONTEXT_LEFT_OUT}.{_LEFT_OUT.get(decision.reason, 'other')}"
        counted[name] = counted.get(name, 0) + 1
    return counted
