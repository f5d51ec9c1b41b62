"""Memoranda's Redis plugin: episodic memory that expires, and a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_redis.episodic import CorruptEntryError, EpisodicMemory
    from memoranda_redis.manager import ShortTermMemoryManager, get_short_term_memory
    from memoranda_redis.store import RedisEngine, RedisMemoryStore

# Listing plugins imports this package, which must not load a driver.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "episodic": ["CorruptEntryError", "EpisodicMemory"],
        "manager": ["ShortTermMemoryManager", "get_short_term_memory"],
        "store": ["RedisEngine", "RedisMemoryStore"],
    },
)

__all__ = [
    "CorruptEntryError",
    "EpisodicMemory",
    "RedisEngine",
    "RedisMemoryStore",
    "ShortTermMemoryManager",
    "get_short_term_memory",
]
