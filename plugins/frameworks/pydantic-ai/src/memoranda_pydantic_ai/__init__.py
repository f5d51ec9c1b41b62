"""Conversations of Pydantic AI, and the memory files of its harness, in any store of memoranda."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_pydantic_ai.conversations import MemorandaConversationStore
    from memoranda_pydantic_ai.memory_files import MemorandaMemoryStore as MemorandaMemoryStore
    from memoranda_pydantic_ai.messages import as_tools

# MemorandaMemoryStore is offered too, but it needs the extra: a star import must not.
__all__ = ["MemorandaConversationStore", "as_tools"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "conversations": ["MemorandaConversationStore"],
        "memory_files": ["MemorandaMemoryStore"],
        "messages": ["as_tools"],
    },
    extras={"pydantic_ai_harness": "memoranda-pydantic-ai[harness]"},
)
