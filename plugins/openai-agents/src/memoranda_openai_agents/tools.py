"""Plain tools, such as those for facts, as tools of the OpenAI Agents SDK."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from agents import FunctionTool
from agents.tool_context import ToolContext

from memoranda.errors import MemoryError
from memoranda_messages import PlainTool


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
        try:
            given = json.loads(arguments or "{}")
            return json.dumps(await tool(**given), ensure_ascii=False)
        except MemoryError as error:
            return str(error)
        except (ValueError, TypeError):
            return f"The arguments of {tool.name} must be a JSON object that fits its schema."

    return invoke
