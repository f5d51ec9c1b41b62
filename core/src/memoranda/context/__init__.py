"""Views over a store: what a model may be shown, and how a prompt is put together."""

from __future__ import annotations

from memoranda.context.manager import ContextManager
from memoranda.context.prompt import AssembledContext
from memoranda.context.short_term import ShortTermMemory

__all__ = [
    "AssembledContext",
    "ContextManager",
    "ShortTermMemory",
]
