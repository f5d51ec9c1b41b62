"""Making spans, and log records that carry their ids.

A span of OpenTelemetry's SDK takes longer than a call of a store in memory: it has locks, bounded collections and
counters of its own. Ours have few and short attributes, and one task that sets them. So where the SDK's tracer has no
processor that looks at a span before its end, a span is a plain object that is handed to the processors when it ends.
Elsewhere it is whatever the tracer makes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from random import getrandbits
from time import time_ns
from typing import Any, Literal

from opentelemetry import trace
from opentelemetry.context import attach, detach
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from memoranda_otel.conventions import SCHEMA_URL, SCOPE

try:
    from opentelemetry.sdk import trace as sdk
    from opentelemetry.sdk.trace import sampling
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
except ImportError:  # Only the API is installed: there is nothing to export.
    sdk = None  # type: ignore[assignment]  # as above

_Readable: Any = object if sdk is None else sdk.ReadableSpan

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_UNSET, _FAILED = Status(StatusCode.UNSET), Status(StatusCode.ERROR)


class PlainSpan(trace.Span, _Readable):  # type: ignore[misc]  # there may be no SDK
    """A span that reaches the processors only when it ends."""

    _events: Sequence[Any] = ()
    _links = ()
    _instrumentation_info = None
    _status = _UNSET
    _end_time: int | None = None

    def __init__(
        self, tracer: Any, scope: Any, name: str, kind: SpanKind, attributes: dict[str, Any], parent: SpanContext | None
    ) -> None:
        self._processor, self._resource, self._instrumentation_scope = tracer.span_processor, tracer.resource, scope
        self._name, self._kind, self._attributes, self._parent = name, kind, attributes, parent
        ids = tracer.id_generator
        own = getrandbits(64) or 1 if type(ids) is RandomIdGenerator else ids.generate_span_id()
        if parent is None:
            self._context = SpanContext(ids.generate_trace_id(), own, False, _SAMPLED)
        else:
            self._context = SpanContext(parent.trace_id, own, False, _SAMPLED, parent.trace_state)
        self._start_time = time_ns()

    def get_span_context(self) -> SpanContext:
        return self._context

    def is_recording(self) -> bool:
        return self._end_time is None

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        if self._end_time is None:
            self._attributes.update(attributes)

    def set_attribute(self, key: str, value: Any) -> None:
        self.set_attributes({key: value})

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        if self._end_time is None:
            self._events = [*self._events, sdk.Event(name, attributes, timestamp)]

    def add_link(self, context: SpanContext, attributes: Any = None) -> None:
        """Ignore a link: memory calls have none."""

    def update_name(self, name: str) -> None:
        self._name = name

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        self._status = status if isinstance(status, Status) else Status(status, description)

    def record_exception(
        self, exception: BaseException, attributes: Any = None, timestamp: int | None = None, escaped: bool = False
    ) -> None:
        """Add the class of an exception as an event. Its message is left out: it may quote a memory."""
        self.add_event("exception", {"exception.type": type(exception).__qualname__}, timestamp)

    def end(self, end_time: int | None = None) -> None:
        if self._end_time is None:
            self._end_time = end_time or time_ns()
            self._processor.on_end(self)


def _looks_at_the_end_only(processor: Any) -> bool:
    kind = type(processor)
    if kind in (BatchSpanProcessor, SimpleSpanProcessor):
        return True
    base = sdk.SpanProcessor
    return kind.on_start is base.on_start and getattr(kind, "_on_ending", None) is getattr(base, "_on_ending", None)


def _static_decision(sampler: Any) -> tuple[Literal["root", "ask"] | None, bool]:
    """Return a sampler's decision for a root span, and True if other spans follow their parents."""
    static: dict[int, Literal["root"] | None] = {id(sampling.ALWAYS_ON): "root", id(sampling.ALWAYS_OFF): None}
    if type(sampler) is not sampling.ParentBased:
        return static.get(id(sampler), "ask"), False
    standard = sampling.ParentBased(sampling.ALWAYS_ON)
    delegates = [name for name in vars(standard) if name != "_root"]
    if any(getattr(sampler, name, None) is not getattr(standard, name) for name in delegates):
        return "ask", False
    return static.get(id(sampler._root), "ask"), True


Parent = SpanContext | Literal["root", "ask"] | None
"""The parent of a span that is recorded, ``root`` without one; ``ask`` the tracer, or None if it is not recorded."""


class Spans:
    """Starts spans, with the tracer of the given provider or of the one that the program sets, early or late."""

    def __init__(self, provider: trace.TracerProvider | None, version: str) -> None:
        self._provider = provider
        self._version = version
        self.is_off = True
        """True without a provider, and with a sampler that records nothing."""
        self._tracer: Any = None
        self._scope: Any = None
        self._processors: object = None
        self._is_plain = False
        self._root: Parent = "ask"
        self._follows_parent = False

    def parent(self) -> Parent:
        """Return whether a new span is recorded, and its parent."""
        if self.is_off:
            return None
        if getattr(self._tracer, "span_processor", self)._span_processors is not self._processors:
            self._look_at_processors()
        if not self._is_plain:
            return "ask"
        context = trace.get_current_span().get_span_context()
        if not context.is_valid:
            return self._root
        if not self._follows_parent:
            return context if self._root == "root" else self._root
        return context if context.trace_flags & 1 else None

    def start(self, name: str, kind: SpanKind, attributes: dict[str, Any], parent: Parent) -> Any:
        """Return a new span below what :meth:`parent` returned, which is not None."""
        if parent == "ask":
            return self._tracer.start_span(name, kind=kind, attributes=attributes, record_exception=False)
        above = None if isinstance(parent, str) else parent
        return PlainSpan(self._tracer, self._scope, name, kind, attributes, above)

    def step_parent(self) -> Parent:
        """Return the same for a step of a call; outside a call there is nothing to record."""
        return self.parent() if trace.get_current_span().is_recording() else None

    _span_processors = None  # Stands in for those of a tracer that is not the SDK's.

    def look(self) -> None:
        """Find out if there is a provider by now, and what its sampler does."""
        provider = self._provider or trace.get_tracer_provider()
        if self._tracer is not None or isinstance(provider, trace.ProxyTracerProvider):
            return
        self._tracer = tracer = provider.get_tracer(SCOPE, self._version, schema_url=SCHEMA_URL)
        if sdk is not None and type(tracer) is sdk.Tracer:
            self._scope = InstrumentationScope(SCOPE, self._version, SCHEMA_URL)
            self._root, self._follows_parent = _static_decision(tracer.sampler)
        self.is_off = self._root is None and not self._follows_parent

    def _look_at_processors(self) -> None:
        """Find out if a processor needs spans before their end; processors may be added at any time."""
        self._processors = getattr(self._tracer.span_processor, "_span_processors", None)
        listed = self._processors if isinstance(self._processors, tuple) else None
        self._is_plain = self._root != "ask" and listed is not None and all(map(_looks_at_the_end_only, listed))


def enter(span: trace.Span) -> Any:
    """Make a span the current one, and return the token for :func:`leave`."""
    return attach(trace.set_span_in_context(span))


def leave(token: Any) -> None:
    """Restore the previous current span."""
    detach(token)


def fail(span: trace.Span) -> None:
    """Mark a span as failed, without a message, which may quote a memory."""
    span.set_status(_FAILED)


class TraceIds(logging.Filter):
    """Gives each record ``otelTraceID`` and ``otelSpanID``: empty texts outside of a span.

    Add it to a handler: ``handler.addFilter(TraceIds())``. The names are those of OpenTelemetry's own instrumentation
    of ``logging``, whose values are left as they are.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the ids to a record, and let it pass."""
        context = trace.get_current_span().get_span_context()
        if not hasattr(record, "otelTraceID"):
            record.otelTraceID = trace.format_trace_id(context.trace_id) if context.is_valid else ""
            record.otelSpanID = trace.format_span_id(context.span_id) if context.is_valid else ""
        return True
