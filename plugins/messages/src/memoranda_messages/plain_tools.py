"""Tools without a framework, which the adapters turn into those of each framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


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
