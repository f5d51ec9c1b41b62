"""Plain tools, such as those for facts, as tools of LangChain and LangGraph."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, ToolException

from memoranda.errors import MemoryError
from memoranda_messages import PlainTool


def as_tools(tools: Iterable[PlainTool]) -> list[BaseTool]:
    """Return tools for a graph or an agent; they are async. A mistake of the model is answered, not raised."""
    return [
        StructuredTool(
            name=tool.name,
            description=tool.description,
            args_schema=dict(tool.schema),
            coroutine=_called(tool),
            handle_tool_error=True,
        )
        for tool in tools
    ]


def _called(tool: PlainTool) -> Any:
    async def call(**arguments: Any) -> str:
        try:
            return json.dumps(await tool(**arguments), ensure_ascii=False)
        except MemoryError as error:
            raise ToolException(str(error)) from error

    return call
