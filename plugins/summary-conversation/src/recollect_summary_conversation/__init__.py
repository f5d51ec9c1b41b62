"""Recollect's summary template for whole conversations: decisions, action items and context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recollect_summary_conversation.template import ConversationTemplate


def __getattr__(attribute: str) -> Any:
    # Loaded on first use: finding plugins imports this package and should cost nothing.
    if attribute == "ConversationTemplate":
        from recollect_summary_conversation.template import ConversationTemplate

        return ConversationTemplate
    raise AttributeError(f"module {__name__!r} has no attribute {attribute!r}")


__all__ = ["ConversationTemplate"]
