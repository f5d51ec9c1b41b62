"""Prompts that a person can choose in their assistant."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import mcp_types as types
from mcp.shared.exceptions import MCPError

from memoranda_context import ContextManager
from memoranda_guard import Fence
from memoranda_mcp.resources import RequestContext, protocol_errors

if TYPE_CHECKING:
    from memoranda_mcp.memory import ScopedMemory

TOKENS = 4000
MAX_TOPIC = 1000

_KNOW_ME = types.Prompt(
    name="what_do_you_know_about_me",
    title="What do you know about me?",
    description="Tells you what is remembered about you, or about one topic.",
    arguments=[
        types.PromptArgument(name="topic", description="What about; leave it out for everything.", required=False)
    ],
)


class Prompts:
    """Answers what clients ask about prompts."""

    def __init__(self, find_memory: Callable[[RequestContext], ScopedMemory]) -> None:
        self._find_memory = find_memory

    async def listed(
        self, context: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """List the one prompt that there is."""
        return types.ListPromptsResult(prompts=[_KNOW_ME])

    async def get(self, context: RequestContext, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """Return the prompt with what is remembered in it."""
        if params.name != _KNOW_ME.name:
            raise MCPError(types.INVALID_PARAMS, f"There is no prompt of this name. There is {_KNOW_ME.name}.")
        memory = self._find_memory(context)
        topic = (params.arguments or {}).get("topic", "").strip()
        if len(topic) > MAX_TOPIC:
            raise MCPError(types.INVALID_PARAMS, f"`topic` may have {MAX_TOPIC} characters at the most.")
        about = f" about {topic}" if topic else ""
        question = (
            f"What do you know about me{f', concerning {topic}' if topic else ''}? Tell me in your own words, grouped "
            "by subject, and say what is uncertain or old. If something is wrong I will tell you, so that you can "
            "correct it."
        )
        manager = ContextManager(long_term=memory.store, token_budget=TOKENS, fence=Fence())
        with protocol_errors():
            # The request to the assistant has words of its own, which are not to be looked for.
            assembled = await manager.assemble_context(f"What do you know about {topic or 'me'}?")
        remembered = assembled.parts.notes() or f"Nothing is remembered{about} yet."
        return types.GetPromptResult(
            description=_KNOW_ME.description,
            messages=[
                types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
                for text in (remembered, question)
            ],
        )
