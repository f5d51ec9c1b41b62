"""Log records that carry the ids of the trace and the span in which they were logged."""

from __future__ import annotations

import logging

from opentelemetry import trace


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
