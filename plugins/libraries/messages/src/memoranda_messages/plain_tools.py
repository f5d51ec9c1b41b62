"""Tools without a framework, which the adapters turn into those of each framework."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from memoranda.errors import MemoryError


class PlainTool(Protocol):
    """An async function with a JSON schema, such as a ``memoranda_facts.tools.FactTool``."""

    @property
    def name(self) -> str:
        """The name that the model calls it by."""
        ...

    @property
    def description(self) -> str:
        """What the model is told of it."""
        ...

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of its arguments."""
        ...

    async def __call__(self, **arguments: Any) -> Any:
        """Run it."""
        ...


class ToolAnswer(NamedTuple):
    """What a model is told: a result as JSON, or what was wrong with its call."""

    text: str
    is_error: bool


async def answer(tool: PlainTool, arguments: Mapping[str, Any] | str) -> ToolAnswer:
    """Return the answer to a call with arguments, also as JSON; a mistake of the model is answered, not raised."""
    try:
        given = json.loads(arguments or "{}") if isinstance(arguments, str) else arguments
        return ToolAnswer(json.dumps(await tool(**given), ensure_ascii=False), is_error=False)
    except MemoryError as error:
        return ToolAnswer(str(error), is_error=True)
    except (ValueError, TypeError):
        sentence = f"The arguments of {tool.name} must be a JSON object that fits its schema."
        return ToolAnswer(sentence, is_error=True)
