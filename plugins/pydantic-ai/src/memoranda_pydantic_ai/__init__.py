"""Conversations of Pydantic AI in any store of memoranda."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_pydantic_ai.conversations import MemorandaConversationStore

__all__ = ["MemorandaConversationStore"]

__getattr__, __dir__ = lazy_names(__name__, {"conversations": ["MemorandaConversationStore"]})
