"""A prompt put together from what a store holds, within one token budget."""

from __future__ import annotations

from memoranda_context.assembling import assemble, assemble_context
from memoranda_context.fencing import Fence
from memoranda_context.manager import ContextManager
from memoranda_context.memories import Notes, recall_notes
from memoranda_context.prompt import AssembledContext

__all__ = ["AssembledContext", "ContextManager", "Fence", "Notes", "assemble", "assemble_context", "recall_notes"]
