"""Plain tools, such as those for facts, as tools of the OpenAI Agents SDK."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agents import FunctionTool
from agents.tool_context import ToolContext

from memoranda_messages import PlainTool
from memoranda_messages.plain_tools import answer


def as_tools(tools: Iterable[PlainTool]) -> list[FunctionTool]:
    """Return tools for ``Agent(tools=…)``. A mistake of the model is answered with a sentence, not raised."""
    return [
        FunctionTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=dict(tool.schema),
            on_invoke_tool=_invoked(tool),
            strict_json_schema=False,  # Optional arguments may be left out.
        )
        for tool in tools
    ]


def _invoked(tool: PlainTool) -> Any:
    async def invoke(context: ToolContext[Any], arguments: str) -> str:
        return (await answer(tool, arguments)).text

    return invoke
