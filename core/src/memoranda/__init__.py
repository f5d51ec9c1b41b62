"""memoranda: memory for agents. Items, filters and views here; backends and templates come as plugins.

Every name is imported when it is first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda.context.manager import ContextManager
    from memoranda.context.short_term import ShortTermMemory
    from memoranda.errors import InputError, MemorandaError, MemoryError
    from memoranda.items import (
        AIMemory,
        HumanMemory,
        MemoryItem,
        MemoryMetadata,
        MemoryStatus,
        SummaryMemory,
        SystemMemory,
        ToolMemory,
    )
    from memoranda.plugins.opening import open
    from memoranda.store.base import BaseStore
    from memoranda.store.capabilities import Capability
    from memoranda.store.protocol import MemoryStore
    from memoranda.summary.compaction import compact, expand, undo
    from memoranda.summary.generation import (
        Summarizer,
        SummaryConfig,
        SummaryResult,
        SummaryTemplate,
        TriggerResult,
        check_trigger,
        generate_summary,
    )

__version__ = "0.1.0"

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "memoranda.summary.compaction": ["compact", "expand", "undo"],
        "memoranda.context.manager": ["ContextManager"],
        "errors": ["InputError", "MemoryError", "MemorandaError"],
        "items": [
            "AIMemory",
            "HumanMemory",
            "MemoryItem",
            "MemoryMetadata",
            "MemoryStatus",
            "SummaryMemory",
            "SystemMemory",
            "ToolMemory",
        ],
        "memoranda.plugins.opening": ["open"],
        "memoranda.context.short_term": ["ShortTermMemory"],
        "memoranda.store.base": ["BaseStore"],
        "memoranda.store.capabilities": ["Capability"],
        "memoranda.store.protocol": ["MemoryStore"],
        "memoranda.summary.generation": [
            "Summarizer",
            "SummaryConfig",
            "SummaryResult",
            "SummaryTemplate",
            "TriggerResult",
            "check_trigger",
            "generate_summary",
        ],
    },
    modules=(
        *("context", "embeddings", "errors", "history", "integrity", "items", "lazy", "messages", "plugins", "ranking"),
        *("shapes", "sql", "store", "summary", "sync", "tokens", "turns", "urls", "windowing"),
    ),
)

__all__ = [
    "AIMemory",
    "BaseStore",
    "Capability",
    "ContextManager",
    "HumanMemory",
    "InputError",
    "MemorandaError",
    "MemoryError",
    "MemoryItem",
    "MemoryMetadata",
    "MemoryStatus",
    "MemoryStore",
    "ShortTermMemory",
    "Summarizer",
    "SummaryConfig",
    "SummaryMemory",
    "SummaryResult",
    "SummaryTemplate",
    "SystemMemory",
    "ToolMemory",
    "TriggerResult",
    "__version__",
    "check_trigger",
    "compact",
    "expand",
    "generate_summary",
    "open",
    "undo",
]
