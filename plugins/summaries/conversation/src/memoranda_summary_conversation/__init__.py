"""Memoranda's summary template for whole conversations: decisions, action items and context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_summary_conversation.template import ConversationTemplate

# Listing plugins imports this package, so the template waits for its first use.
__getattr__, __dir__ = lazy_names(__name__, {"template": ["ConversationTemplate"]})

__all__ = ["ConversationTemplate"]
