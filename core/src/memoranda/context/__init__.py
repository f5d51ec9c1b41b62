"""Views over a store: what a model may be shown, and how a prompt is put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda.context.manager import ContextManager
    from memoranda.context.prompt import AssembledContext
    from memoranda.context.short_term import ShortTermMemory

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "manager": ["ContextManager"],
        "prompt": ["AssembledContext"],
        "short_term": ["ShortTermMemory"],
    },
)

__all__ = [
    "AssembledContext",
    "ContextManager",
    "ShortTermMemory",
]
