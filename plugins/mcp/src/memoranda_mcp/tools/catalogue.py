"""Which tools a server offers, by its rights."""

from __future__ import annotations

from memoranda_mcp.desk import Rights
from memoranda_mcp.tools.graphing import GRAPHING
from memoranda_mcp.tools.reading import READING
from memoranda_mcp.tools.summarising import SUMMARISE_DUE
from memoranda_mcp.tools.tool import Tool
from memoranda_mcp.tools.writing import FORGET, FORGET_OR_PURGE, REMEMBER, UNDO_FORGET, UPDATE


def tools_for(rights: Rights) -> dict[str, Tool]:
    """Return the tools by their names. One that would not be allowed is not there at all."""
    forgetting = FORGET_OR_PURGE if rights.allow_purge else FORGET
    offered = [REMEMBER, *READING, UPDATE, forgetting, UNDO_FORGET, SUMMARISE_DUE]
    if rights.graph:
        offered += GRAPHING
    return {tool.name: tool for tool in offered if tool.reads or not rights.read_only}
