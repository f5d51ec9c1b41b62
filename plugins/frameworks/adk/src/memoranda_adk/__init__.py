"""Sessions and memory of Google's Agent Development Kit in any store of memoranda."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_adk.memories import MemorandaMemoryService
    from memoranda_adk.sessions import MemorandaSessionService

__all__ = ["MemorandaMemoryService", "MemorandaSessionService"]

__getattr__, __dir__ = lazy_names(
    __name__, {"memories": ["MemorandaMemoryService"], "sessions": ["MemorandaSessionService"]}
)
