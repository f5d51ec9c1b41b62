"""Sessions and memory of Strands Agents in any store of memoranda."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_strands.memories import MemorandaMemoryStore, as_tools
    from memoranda_strands.repository import MemorandaSessionRepository

__all__ = ["MemorandaMemoryStore", "MemorandaSessionRepository", "as_tools"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {"memories": ["MemorandaMemoryStore", "as_tools"], "repository": ["MemorandaSessionRepository"]},
)
