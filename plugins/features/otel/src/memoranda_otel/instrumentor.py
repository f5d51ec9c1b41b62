"""What ``opentelemetry-instrument`` calls: every store of the process gets the observer."""

from __future__ import annotations

from collections.abc import Collection
from functools import wraps
from typing import Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]  # not listed

from memoranda.store import Store
from memoranda_otel.observer import OpenTelemetry


class MemorandaInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # it has no types
    """Attaches :class:`OpenTelemetry` to every store that is made from now on, however it is made.

    ``instrument()`` takes the arguments of :class:`OpenTelemetry`. Stores that were made before, and those that were
    made while it was on, are left as they are.
    """

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return what has to be installed."""
        return ("memoranda >= 0.1, < 0.2",)

    def _instrument(self, **options: Any) -> None:
        made, observer = Store.__init__, OpenTelemetry(**options)

        @wraps(made)
        def make(store: Any, *given: Any) -> None:  # Handles are made otherwise.
            made(store, *given)
            store.observe(observer)

        Store.__init__ = make  # type: ignore[method-assign,assignment]  # that is what instrumenting is

    def _uninstrument(self, **options: Any) -> None:
        del Store.__init__  # What it had before is inherited.
