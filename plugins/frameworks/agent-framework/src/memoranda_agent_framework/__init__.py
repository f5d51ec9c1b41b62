"""History and recall for the Microsoft Agent Framework in any store of memoranda."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_agent_framework.history import MemorandaContextProvider, MemorandaHistoryProvider
    from memoranda_agent_framework.messages import AgentFrameworkFormat

__all__ = ["AgentFrameworkFormat", "MemorandaContextProvider", "MemorandaHistoryProvider"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "history": ["MemorandaContextProvider", "MemorandaHistoryProvider"],
        "messages": ["AgentFrameworkFormat"],
    },
)
