"""The stores that the adapters are tested on: one of every engine."""

from __future__ import annotations

from servers.adapter_stores import blocking_store, engines, store, urls_on

__all__ = ["blocking_store", "engines", "store"]

lasting_url, url = urls_on("postgres", "redis")
