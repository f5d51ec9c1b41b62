"""Memoranda's PostgreSQL store, on asyncpg."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_postgres.store import PostgresMemoryStore

# Listing plugins imports this package, which must not load a driver.
__getattr__, __dir__ = lazy_names(__name__, {"store": ["PostgresMemoryStore"]})

__all__ = ["PostgresMemoryStore"]
