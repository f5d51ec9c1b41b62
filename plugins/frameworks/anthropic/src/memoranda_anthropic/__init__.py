"""The files of Anthropic's memory tool in any memoranda store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_anthropic.folder import Change
    from memoranda_anthropic.tool import AsyncMemoryTool, MemoryTool

__all__ = ["AsyncMemoryTool", "Change", "MemoryTool"]

__getattr__, __dir__ = lazy_names(__name__, {"folder": ["Change"], "tool": ["AsyncMemoryTool", "MemoryTool"]})
