"""recollect: memory for agents. Items, filters and views here; backends and templates come as plugins."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from recollect.errors import InputError, MemoryError, RecollectError
from recollect.items import (
    AIMemory,
    HumanMemory,
    MemoryItem,
    MemoryMetadata,
    MemoryStatus,
    SystemMemory,
    ToolMemory,
)
from recollect.opening import open
from recollect.short_term import ShortTermMemory
from recollect.store import BaseStore, Capability, MemoryStore

if TYPE_CHECKING:
    from recollect.compaction import compact, expand, undo
    from recollect.context import ContextManager
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

# Loaded on first use, so that a program pays only for what it touches.
_LAZY = {
    **dict.fromkeys(("compact", "expand", "undo"), "recollect.compaction"),
    "ContextManager": "recollect.context",
    **dict.fromkeys(
        (
            "Summarizer",
            "SummaryConfig",
            "SummaryResult",
            "SummaryTemplate",
            "TriggerResult",
            "check_trigger",
            "generate_summary",
        ),
        "recollect.summary",
    ),
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
