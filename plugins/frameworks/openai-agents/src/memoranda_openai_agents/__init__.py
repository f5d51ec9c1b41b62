"""Sessions of the OpenAI Agents SDK in any store of memoranda."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_openai_agents.session import CompactingSession, MemorandaSession, as_tools

__all__ = ["CompactingSession", "MemorandaSession", "as_tools"]

__getattr__, __dir__ = lazy_names(__name__, {"session": ["CompactingSession", "MemorandaSession", "as_tools"]})
