"""Conversations of Pydantic AI in any store of memoranda."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_pydantic_ai.conversations import MemorandaConversationStore
    from memoranda_pydantic_ai.tools import as_tools

__all__ = ["MemorandaConversationStore", "as_tools"]

__getattr__, __dir__ = lazy_names(__name__, {"conversations": ["MemorandaConversationStore"], "tools": ["as_tools"]})
