"""Settings from the environment: OpenTelemetry's variables, and one of ours."""

from __future__ import annotations

import os
from collections.abc import Mapping

CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Spans have queries and records only where this says so."""

IDS_VARIABLE = "MEMORANDA_OTEL_IDS"
"""Spans name users and sessions only where this is ``true``."""

_DESTINATIONS = (
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)


def is_switched_on(environment: Mapping[str, str] = os.environ) -> bool:
    """Return True if the variables name an exporter or an endpoint, and do not disable the SDK."""
    if _is_true(environment.get("OTEL_SDK_DISABLED", "")):
        return False
    return any(environment.get(name, "").strip().lower() not in ("", "none") for name in _DESTINATIONS)


def captures_content(environment: Mapping[str, str] = os.environ) -> bool:
    """Return True if spans may have queries and records; ``event_only`` is not about spans."""
    value = environment.get(CONTENT_VARIABLE, "").strip().lower()
    return _is_true(value) or value in ("span_only", "span_and_event")


def names_people(environment: Mapping[str, str] = os.environ) -> bool:
    """Return True if spans may have the ids of users, sessions, tasks and agents."""
    return _is_true(environment.get(IDS_VARIABLE, ""))


def _is_true(value: str) -> bool:
    return value.strip().lower() in ("true", "1")
