"""OpenTelemetry for memoranda: spans, metrics and trace ids of every call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_otel.instrumentor import MemorandaInstrumentor as MemorandaInstrumentor
    from memoranda_otel.observer import OpenTelemetry
    from memoranda_otel.spans import TraceIds

# MemorandaInstrumentor is offered too, but it needs the extra: a star import must not.
__all__ = ["OpenTelemetry", "TraceIds"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {"instrumentor": ["MemorandaInstrumentor"], "observer": ["OpenTelemetry"], "spans": ["TraceIds"]},
    extras={"opentelemetry.instrumentation": "memoranda-otel[sdk]"},
)
