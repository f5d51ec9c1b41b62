"""The stores behind a session."""

from __future__ import annotations

from servers.adapter_stores import engines, store, urls_on

__all__ = ["engines", "store"]

lasting_url, url = urls_on("postgres", "redis")
