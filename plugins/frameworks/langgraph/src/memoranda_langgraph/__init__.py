"""LangGraph's long-term store and checkpointer on any memoranda store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_langgraph.saver import MemorandaSaver
    from memoranda_langgraph.serializing import CheckpointSerializer, RefusedTypeError
    from memoranda_langgraph.store import MemorandaStore, as_tools
    from memoranda_messages.sessions.sessions import SyncCallError

__all__ = ["CheckpointSerializer", "MemorandaSaver", "MemorandaStore", "RefusedTypeError", "SyncCallError", "as_tools"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "memoranda_messages.sessions.sessions": ["SyncCallError"],
        "saver": ["MemorandaSaver"],
        "serializing": ["CheckpointSerializer", "RefusedTypeError"],
        "store": ["MemorandaStore", "as_tools"],
    },
)
