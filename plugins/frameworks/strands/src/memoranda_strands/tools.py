"""Plain tools, such as those for facts, as tools of Strands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from strands.tools.tools import PythonAgentTool
from strands.types.tools import AgentTool, ToolResult, ToolUse

from memoranda_messages import PlainTool
from memoranda_messages.plain_tools import answer


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
        answered = await answer(tool, use["input"])
        status: Any = "error" if answered.is_error else "success"
        return {"toolUseId": use["toolUseId"], "status": status, "content": [{"text": answered.text}]}

    return invoke
