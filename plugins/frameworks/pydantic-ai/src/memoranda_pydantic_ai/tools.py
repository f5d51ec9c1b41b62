"""Plain tools, such as those for facts, as tools of Pydantic AI."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic_ai import ModelRetry, Tool

from memoranda.errors import MemoryError
from memoranda_messages import PlainTool


def as_tools(tools: Iterable[PlainTool]) -> list[Tool[Any]]:
    """Return tools for ``Agent(tools=…)``. After a mistake, the model is asked to try again."""
    return [Tool.from_schema(_called(tool), tool.name, tool.description, dict(tool.schema)) for tool in tools]


def _called(tool: PlainTool) -> Any:
    async def call(**arguments: Any) -> Any:
        try:
            return await tool(**arguments)
        except MemoryError as error:
            raise ModelRetry(str(error)) from error

    return call
