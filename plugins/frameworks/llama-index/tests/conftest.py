"""The stores behind the adapter."""

from __future__ import annotations

from servers.adapter_stores import engines, memory_store, store, urls_on

__all__ = ["engines", "memory_store", "store"]

lasting_url, url = urls_on("postgres")
