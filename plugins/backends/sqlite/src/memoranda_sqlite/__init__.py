"""Memoranda's SQLite store: durable, indexed, one file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_sqlite.store import SQLiteMemoryStore

# Listing plugins imports this package, and must not load a driver.
__getattr__, __dir__ = lazy_names(__name__, {"store": ["SQLiteMemoryStore"]})

__all__ = ["SQLiteMemoryStore"]
