"""Memoranda's MCP server: memory on any backend, for every assistant that speaks the Model Context Protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_mcp.memory import Rights, ScopedMemory
    from memoranda_mcp.server import make_server

__all__ = ["Rights", "ScopedMemory", "make_server"]

__getattr__, __dir__ = lazy_names(__name__, {"memory": ["Rights", "ScopedMemory"], "server": ["make_server"]})
