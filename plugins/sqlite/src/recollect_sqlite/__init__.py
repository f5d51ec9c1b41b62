"""Recollect's SQLite store: durable, indexed, one file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recollect_sqlite.store import SQLiteMemoryStore

__all__ = ["SQLiteMemoryStore"]


def __getattr__(name: str) -> object:
    """Import the store on first use: listing plugins must not load the driver."""
    if name == "SQLiteMemoryStore":
        from recollect_sqlite.store import SQLiteMemoryStore

        return SQLiteMemoryStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
