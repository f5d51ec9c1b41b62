"""Recollect's Redis store: episodic memory with a time to live."""

from recollect_redis.episodic import CorruptEntryError, EpisodicMemory
from recollect_redis.manager import ShortTermMemoryManager, get_short_term_memory

__all__ = ["CorruptEntryError", "EpisodicMemory", "ShortTermMemoryManager", "get_short_term_memory"]
