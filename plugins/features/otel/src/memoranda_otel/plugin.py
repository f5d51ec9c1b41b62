"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import ObserverSpec, hookimpl
from memoranda_otel.settings import is_switched_on


@hookimpl
def memoranda_observers() -> list[ObserverSpec]:
    """Offer the observer; every store gets it where OpenTelemetry's variables say where telemetry is to go."""
    return [
        ObserverSpec(
            "otel",
            target="memoranda_otel.observer:OpenTelemetry",
            api=1,
            summary="Spans and metrics of every call, for OpenTelemetry.",
            auto=is_switched_on(),
        )
    ]
