"""The options of a server: whose memories it serves, and what an assistant may do with them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

from memoranda.store import namespace_of
from memoranda_commands import options


class Level(StrEnum):
    """How far an assistant can be trusted; an operator's words are not for it."""

    EXTERNAL = "external"
    TOOL = "tool"
    AGENT = "agent"
    USER = "user"


_owner = partial(options.option, panel=options.OWNER)
_right = partial(options.option, panel="Rights")
_model = partial(options.option, panel="The model for summaries")


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of a server."""

    store: options.Store = None
    user: Annotated[str | None, _owner("--user -u ID", "Whose memories these are.")] = None
    session: Annotated[str | None, _owner("--session ID", "Only this conversation of theirs.")] = None
    task: Annotated[str | None, _owner("--task ID", "Only this task of theirs.")] = None
    agent: Annotated[str | None, _owner("--agent ID", "Only this agent of theirs.")] = None
    namespace: Annotated[str | None, _owner("--namespace PLACE", "In this place or below: home/ada.")] = None
    spaces: Annotated[
        bool, _owner("--spaces", "Also read the spaces that are granted to them: see memoranda grants.")
    ] = False
    read_only: Annotated[bool, _right("--read-only", "Only tools that read; nothing is written.")] = False
    allow_purge: Annotated[bool, _right("--allow-purge", "Let it remove memories for good.")] = False
    graph: Annotated[bool, _right("--graph", "Serve the tools of server-memory instead.")] = False
    facts: Annotated[bool, _right("--facts", "Also serve tools for facts: what is true now.")] = False
    receipts: Annotated[bool, _right("--receipts", "Record every context that it is shown.")] = False
    trust: Annotated[
        Level, _right("--trust LEVEL", "How far what it writes is trusted: external, tool, agent or user.")
    ] = Level.AGENT
    model: Annotated[str | None, _model("--model NAME", "Let this model write summaries.")] = None
    base_url: Annotated[str | None, _model("--base-url URL", "Where it is, unless at OpenAI.")] = None

    def scope(self, user: str | None = None) -> dict[str, Any]:
        """Return the scope that the options name, as ``scoped()`` takes it; that of ``user`` if one is given."""
        place = namespace_of(f"{self.namespace.strip('/')}/") if self.namespace and self.namespace.strip("/") else None
        named = {
            "user_id": user if user is not None else self.user,
            "session_id": self.session,
            "task_id": self.task,
            "agent_id": self.agent,
            "namespace": place,
        }
        return {name: value for name, value in named.items() if value is not None}
