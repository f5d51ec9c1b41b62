"""Plain tools, such as those for facts, as tools of Strands."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from strands.tools.tools import PythonAgentTool
from strands.types.tools import AgentTool, ToolResult, ToolUse

from memoranda.errors import MemoryError
from memoranda_messages import PlainTool


def as_tools(tools: Iterable[PlainTool]) -> list[AgentTool]:
    """Return tools for ``Agent(tools=…)``. A mistake of the model is answered with a sentence, not raised."""
    return [
        PythonAgentTool(
            tool.name,
            {"name": tool.name, "description": tool.description, "inputSchema": {"json": dict(tool.schema)}},
            _invoked(tool),
        )
        for tool in tools
    ]


def _invoked(tool: PlainTool) -> Any:
    async def invoke(use: ToolUse, **state: Any) -> ToolResult:
        try:
            text, is_error = json.dumps(await tool(**use["input"]), ensure_ascii=False), False
        except MemoryError as error:
            text, is_error = str(error), True
        except (ValueError, TypeError):
            text, is_error = f"The arguments of {tool.name} must be a JSON object that fits its schema.", True
        status: Any = "error" if is_error else "success"
        return {"toolUseId": use["toolUseId"], "status": status, "content": [{"text": text}]}

    return invoke
