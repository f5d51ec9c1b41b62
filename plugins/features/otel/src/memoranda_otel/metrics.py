"""Durations and numbers of items, gathered in this process and recorded when a reader collects.

Recording one value takes the SDK longer than many calls of a store, so a call only appends to lists. What they hold is
recorded by an observable instrument's callback, just before the reader takes it, and by a thread where very much has
come together.
"""

from __future__ import annotations

import threading
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from memoranda.store import Store
from memoranda_otel import conventions
from memoranda_otel.conventions import BACKEND, BUCKETS, CALL, DB_SYSTEM, ERROR_TYPE, OPERATION_NAME, SCHEMA_URL, SCOPE

MOST_GATHERED = 20_000
"""How many durations are gathered before a thread records them."""

Key = tuple[str, str, str, str]
"""The operation by its conventional name and as the method's, the backend, and the class of the error, or empty."""

_ITEMS = {
    "written": conventions.WRITTEN,
    "read": conventions.READ,
    "purged": conventions.PURGED,
    "expired": conventions.EXPIRED,
}
_BRIEFS = {
    "written": "Items that calls wrote.",
    "read": "Items that calls returned.",
    "purged": "Items that were removed for good by a call.",
    "expired": "Items that were removed because their time was over.",
}

_GAUGES = {
    "writer.queue": (*conventions.WRITER_QUEUE, "Writes that wait for their turn."),
    "index.backlog": (*conventions.INDEX_BACKLOG, "Items that wait for a search index."),
    "extraction.backlog": (*conventions.EXTRACTION_BACKLOG, "Items and users that wait for the extraction of facts."),
    "pool.max": (*conventions.POOL_MAX, "The most connections that the pool opens."),
    "pool.pending": (*conventions.POOL_PENDING, "Calls that wait for a connection."),
}

_shared: WeakKeyDictionary[Any, Measurements] = WeakKeyDictionary()
_one_at_a_time = threading.Lock()  # Stores that threads open at once would otherwise make the instruments twice.


def measurements_for(provider: metrics.MeterProvider | None, version: str) -> Measurements:
    """Return the measurements of a provider; observers share them, since an instrument is made once."""
    key = metrics.get_meter_provider if provider is None else provider
    with _one_at_a_time:
        if key not in _shared:
            _shared[key] = Measurements(provider, version)
        return _shared[key]


class Measurements:
    """The metrics of all stores whose observers have the same provider."""

    def __init__(self, provider: metrics.MeterProvider | None, version: str) -> None:
        self._durations: defaultdict[Key, array[float]] = defaultdict(lambda: array("d"))
        self._items: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        self._gathered = 0
        self.stores: WeakKeyDictionary[Store, dict[str, str]] = WeakKeyDictionary()
        """The stores that are measured, each with the attributes that name it."""
        self._provider = provider
        self.is_on = False
        self._draining = threading.Lock()
        meter = metrics.get_meter(SCOPE, version, provider, SCHEMA_URL)
        self._duration = meter.create_histogram(
            *conventions.DURATION, "GenAI operation duration.", explicit_bucket_boundaries_advisory=BUCKETS
        )
        self._counters = {name: meter.create_counter(*unit, description=_BRIEFS[name]) for name, unit in _ITEMS.items()}
        meter.create_observable_counter(
            conventions.QUARANTINED[0],
            [self._gauge("quarantined", drain=True)],
            conventions.QUARANTINED[1],
            "Items that a policy keeps apart.",
        )
        for gauge, (name, unit, brief) in _GAUGES.items():
            meter.create_observable_up_down_counter(name, [self._gauge(gauge)], unit, brief)
        meter.create_observable_up_down_counter(
            conventions.POOL_COUNT[0],
            [self._connections],
            conventions.POOL_COUNT[1],
            "The number of connections that are currently in state described by the `state` attribute.",
        )

    def look(self) -> None:
        """Find out if there is a provider that may have readers."""
        provider = self._provider or metrics.get_meter_provider()
        self.is_on = type(provider).__name__ not in ("_ProxyMeterProvider", "NoOpMeterProvider")

    def add(self, key: Key, seconds: float) -> None:
        self._durations[key].append(seconds)
        self._gathered += 1
        if self._gathered >= MOST_GATHERED:
            self._gathered = 0
            threading.Thread(target=self.drain, name="memoranda-otel", daemon=True).start()

    def count(self, what: str, operation: str, backend: str, items: int) -> None:
        self._items[what, operation, backend] += items

    def drain(self) -> None:
        with self._draining:
            self._gathered = 0
            for key in list(self._durations):
                operation, call, backend, error = key
                attributes = {OPERATION_NAME: operation, CALL: call, BACKEND: backend}
                for seconds in self._durations.pop(key):
                    self._duration.record(seconds, attributes | ({ERROR_TYPE: error} if error else {}))
            for what, operation, backend in list(self._items):
                items = self._items.pop((what, operation, backend))
                if items:
                    self._counters[what].add(items, {OPERATION_NAME: operation, BACKEND: backend})

    def _gauge(self, name: str, *, drain: bool = False) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observed(options: CallbackOptions) -> Iterator[Observation]:
            if drain:
                self.drain()
            for attributes, gauges in self._sources():
                if name in gauges:
                    own = _pool_attributes(attributes) if name.startswith("pool.") else attributes
                    yield Observation(gauges[name], own)

        return observed

    def _sources(self) -> Iterator[tuple[dict[str, str], dict[str, int]]]:
        for store, attributes in list(self.stores.items()):
            numbers: dict[str, int] = {}
            for source in (store, *store.observers):
                numbers |= getattr(source, "gauges", dict)()
            yield attributes, numbers

    def _connections(self, options: CallbackOptions) -> Iterator[Observation]:
        for attributes, gauges in self._sources():
            for state in ("used", "idle"):
                if f"pool.{state}" in gauges:
                    own = _pool_attributes(attributes) | {conventions.POOL_STATE: state}
                    yield Observation(gauges[f"pool.{state}"], own)


def _pool_attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    return {conventions.POOL_NAME: attributes[conventions.STORE_ID], DB_SYSTEM: system_of(attributes[BACKEND])}


def system_of(backend: str) -> str:
    """Return the name of a database in the conventions."""
    return {"postgres": "postgresql"}.get(backend, backend)
