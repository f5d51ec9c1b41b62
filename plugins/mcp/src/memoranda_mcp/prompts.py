"""Prompts that a person can choose in their assistant."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from memoranda.errors import InputError, MemoryError
from memoranda_context import ContextManager

if TYPE_CHECKING:
    from memoranda_mcp.desk import Desk

RequestContext = ServerRequestContext[Any, Any]

TOKENS = 4000
MOST_REMEMBERED = 50
MAX_TOPIC = 1000

_KNOW_ME = types.Prompt(
    name="what_do_you_know_about_me",
    title="What do you know about me?",
    description="Tells you what is remembered about you, or about one topic.",
    arguments=[
        types.PromptArgument(name="topic", description="Only about this; leave it out for everything.", required=False)
    ],
)


class Prompts:
    """Answers what clients ask about prompts."""

    def __init__(self, reception: Callable[[RequestContext], Desk]) -> None:
        self._reception = reception

    async def listed(
        self, context: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """List the one prompt that there is."""
        return types.ListPromptsResult(prompts=[_KNOW_ME])

    async def get(self, context: RequestContext, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """Return the prompt with what is remembered in it."""
        if params.name != _KNOW_ME.name:
            raise MCPError(types.INVALID_PARAMS, f"There is no prompt of this name. There is {_KNOW_ME.name}.")
        desk = self._reception(context)
        topic = (params.arguments or {}).get("topic", "").strip()
        if len(topic) > MAX_TOPIC:
            raise MCPError(types.INVALID_PARAMS, f"`topic` may have {MAX_TOPIC} characters at the most.")
        about = f" about {topic}" if topic else ""
        question = (
            f"What do you know about me{f', concerning {topic}' if topic else ''}? Tell me in your own words, grouped "
            "by subject, and say what is uncertain or old. If something is wrong I will tell you, and you can correct "
            "it with update or forget."
        )
        manager = ContextManager(long_term=desk.store, token_budget=TOKENS, long_term_limit=MOST_REMEMBERED)
        try:
            assembled = await manager.assemble_context(topic or question)
        except InputError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        except MemoryError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from None
        remembered = assembled.parts.notes() or f"Nothing is remembered{about} yet."
        return types.GetPromptResult(
            description=_KNOW_ME.description,
            messages=[
                types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
                for text in (remembered, question)
            ],
        )
