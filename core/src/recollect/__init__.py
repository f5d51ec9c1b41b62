"""recollect: memory for agents. Items, filters and views here; backends and templates come as plugins.

Every name is imported when it is first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recollect.lazy import lazy_names

if TYPE_CHECKING:
    from recollect.compaction import compact, expand, undo
    from recollect.context import ContextManager
    from recollect.errors import InputError, MemoryError, RecollectError
    from recollect.items import (
        AIMemory,
        HumanMemory,
        MemoryItem,
        MemoryMetadata,
        MemoryStatus,
        SummaryMemory,
        SystemMemory,
        ToolMemory,
    )
    from recollect.opening import open
    from recollect.short_term import ShortTermMemory
    from recollect.store import BaseStore, Capability, MemoryStore
    from recollect.summary import (
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
        "compaction": ["compact", "expand", "undo"],
        "context": ["ContextManager"],
        "errors": ["InputError", "MemoryError", "RecollectError"],
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
        "opening": ["open"],
        "short_term": ["ShortTermMemory"],
        "store": ["BaseStore", "Capability", "MemoryStore"],
        "summary": [
            "Summarizer",
            "SummaryConfig",
            "SummaryResult",
            "SummaryTemplate",
            "TriggerResult",
            "check_trigger",
            "generate_summary",
        ],
    },
)

__all__ = [
    "AIMemory",
    "BaseStore",
    "Capability",
    "ContextManager",
    "HumanMemory",
    "InputError",
    "MemoryError",
    "MemoryItem",
    "MemoryMetadata",
    "MemoryStatus",
    "MemoryStore",
    "RecollectError",
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
